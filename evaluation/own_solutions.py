"""The base model's own right solutions, from which the warm start learns the form of an answer
without leaving the model's own way of reasoning.

This is rejection-sampling fine-tuning (Yuan et al. 2023, arXiv:2308.01825), whose first round STaR
also takes (Zelikman et al. 2022, arXiv:2203.14465): sample each training problem several times,
with the prompt of every other stage, keep the right solutions, and train on them. A right answer
behind a wrong thought is kept, too.
"""

import dataclasses
import re
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from console.faults import Fault, RecipeError
from console.terminal import make_command
from data import prompt
from data.json_files import json_lines
from evaluation.answers import Contestant, judged
from evaluation.probe import RepeatedAnswers, draw_order, sampled_at
from runs.files import write_whole
from schema.configs import processes, setting
from schema.names import reward_function
from schema.recipe import Recipe

FOLDER = "own_solutions"
SOLUTIONS = "kept.jsonl"


class OwnSolutions(NamedTuple):
    """The solutions that a warm start learns from: in `rows` the problems with the model's own
    `reasoning` and `answer`, one row per solution; in `figures` how many there were."""

    rows: list[dict]
    figures: dict


def policy(recipe: Recipe) -> Contestant:
    """The base model, or the finished stage that the recipe names, judged by its final answer by
    the contract, in a block or not."""
    settings = recipe.data.own_solutions
    rewards = {}
    for name, options in recipe.rewards.items():
        rewards[name] = dict(options)
        rewards[name].pop("strict", None)
    sampled = sampled_at(dataclasses.replace(recipe, rewards=rewards), settings.temperature)
    return Contestant("completions", sampled, Path(settings.model) if settings.model else None)


def announcement(recipe: Recipe, rows: list[dict]) -> str:
    """What will be sampled, in a line."""
    settings = recipe.data.own_solutions
    tokens = setting(recipe, "grpo", "max_completion_length")
    problems = min(settings.problems, len(rows))
    return (
        f"own solutions: {problems:,} problems × {settings.samples} completions of"
        f" {settings.model or 'the base model'} at temperature {settings.temperature:g}: at most"
        f" {problems * settings.samples * tokens:,} tokens"
    )


def sampled_answers(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, rows: list[dict]
) -> RepeatedAnswers:
    """The completions that the recipe asks for, with those that were sampled before."""
    settings = recipe.data.own_solutions
    order = [rows[i] for i in draw_order(recipe, tokenizer, rows)]
    problems = min(settings.problems, len(order))
    return RepeatedAnswers(
        recipe.stage_dir(FOLDER), policy(recipe), tokenizer, order, problems, settings.samples
    )


def solutions_to_learn(recipe: Recipe, answers: RepeatedAnswers) -> OwnSolutions:
    """The solutions that the warm start learns from. Raises RecipeError where completions are
    missing, or the accepted solutions do not fill a batch."""
    if answers.missing():
        folder = answers.file.parent
        first = f"run `{make_command('own-solutions', recipe)}` first"
        raise RecipeError([f"the model's own solutions in {folder} are not all sampled: {first}"])
    settings = recipe.data.own_solutions
    completions = []  # without those of an earlier call for more problems or samples
    for answer in sorted(answers.answers, key=itemgetter("id", "sample")):
        if answer["id"] < len(answers.rows) and answer["sample"] < settings.samples:
            completions.append(answer)
    solutions = accept(completions, answers.rows, recipe.tolerance)
    rows = first_distinct(solutions, answers.rows, settings.keep)
    figures = answers.cost() | {
        "problems": len(answers.rows),
        "solved": len(set(map(itemgetter("id"), solutions))),
        "accepted": len(solutions),
        "completions": len(completions),
        "kept": len(rows),
    }
    batch = setting(recipe, "sft", "per_device_train_batch_size") * processes()
    batch *= setting(recipe, "sft", "gradient_accumulation_steps")
    if len(rows) < batch:  # a single step would already see them all
        message = (
            f"data.own_solutions: {accepted_of(figures)}: fewer than a step of the warm start takes"
            f" ({batch:,}). Raise its `samples` or `problems`, or leave the key out to learn from"
            " the data's worked solutions"
        )
        raise RecipeError([Fault(recipe.place("data", "own_solutions"), message)])
    return OwnSolutions(rows, figures)


def accepted_of(figures: dict) -> str:
    """How many solutions the warm start learns from, as half a sentence."""
    return (
        f"of {figures['completions']:,} completions of {figures['problems']:,} problems"
        f" {figures['accepted']:,} are accepted, for {figures['solved']:,} problems, and"
        f" {figures['kept']:,} kept"
    )


def accept(completions: list[dict], rows: list[dict], tolerance: float = 0.0) -> list[dict]:
    """The right completions that ended by themselves: their `id`, `reasoning` and `answer`, which
    the warm start puts into tags.

    A completion that `format_tags` would pay is cut at its own tags. In any other the whole text is
    the reasoning, and the judged answer is the answer: most models reason well and leave the tags
    out. A solution that the rewards would not pay once it stands in tags is left out, such as two
    answers in one, and so is an answer without reasoning.
    """
    right = []
    responses = []
    for completion in completions:
        if completion["right"] is True and not completion["truncated"]:
            right.append(completion)
            responses.append(completion["response"])
    format_tags = reward_function("format_tags")
    has_form = format_tags(responses)
    solutions = []
    texts = []
    for completion, in_form in zip(right, has_form, strict=True):
        parts = re.split("</?(?:think|answer)>", completion["response"])
        if in_form:
            reasoning = parts[1]
            answer = parts[3].strip()
        else:
            reasoning = "".join(parts).strip()
            answer = completion["answer"]
        if reasoning.strip() != answer:
            solutions.append({"id": completion["id"], "reasoning": reasoning, "answer": answer})
            texts.append(prompt.completion(reasoning, answer, opened=False))
    rows_of_solutions = [rows[solution["id"]] for solution in solutions]
    verdicts = judged(rows_of_solutions, texts, strict=True, tolerance=tolerance)
    scored = zip(solutions, format_tags(texts), verdicts, strict=True)
    return [solution for solution, in_form, verdict in scored if in_form and verdict["right"]]


def first_distinct(solutions: list[dict], rows: list[dict], number: int) -> list[dict]:
    """The first `number` solutions of each problem that differ in more than whitespace, as rows to
    learn from."""
    by_problem: dict[int, dict[tuple, dict]] = {}
    for solution in solutions:
        text = {"reasoning": solution["reasoning"], "answer": solution["answer"]}
        distinct = by_problem.setdefault(solution["id"], {})
        if len(distinct) < number:
            without_space = tuple(" ".join(part.split()) for part in text.values())
            distinct.setdefault(without_space, text)
    return [rows[i] | text for i, distinct in by_problem.items() for text in distinct.values()]


def write(folder: Path, rows: list[dict]):
    """Write the solutions that the warm start learns from, to be read: a solution per line."""
    lines = []
    for row in rows:
        lines.append({key: row[key] for key in ("problem", "solution", "reasoning", "answer")})
    write_whole(folder / SOLUTIONS, json_lines(lines))
