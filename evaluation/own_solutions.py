"""The base model's own right solutions, from which the warm start learns the form of an answer
without leaving the model's own way of reasoning.

This is rejection-sampling fine-tuning (Yuan et al. 2023, arXiv:2308.01825), whose first round STaR
also takes (Zelikman et al. 2022, arXiv:2203.14465): sample each training problem several times,
with the prompt of every other stage, keep what is right, and train on it. A right answer behind a
wrong thought is kept, too.
"""

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from console.faults import Fault, RecipeError
from console.terminal import make_command
from data import prompt
from evaluation.answers import Contestant, judged
from evaluation.probe import RepeatedAnswers, drawn, sampled_at
from evaluation.run_pages import accepted_of
from schema.configs import processes, setting
from schema.names import reward_function
from schema.recipe import Recipe
from training.checkpoints import write_whole

FOLDER = "own_solutions"
KEPT = "kept.jsonl"


class Learned(NamedTuple):
    """`rows`: the problems with the model's own `reasoning` and `answer`, one row per solution.
    `figures`: how many there were before, for the summary."""

    rows: list[dict]
    figures: dict


def policy(recipe: Recipe) -> Contestant:
    """The base model, or the finished stage that the recipe names, judged by its final answer in
    whatever form."""
    own = recipe.data.own_solutions
    rewards = {
        name: {key: each[key] for key in each if key != "strict"}
        for name, each in recipe.rewards.items()
    }
    sampled = sampled_at(dataclasses.replace(recipe, rewards=rewards), own.temperature)
    return Contestant("completions", sampled, Path(own.model) if own.model else None)


def announced(recipe: Recipe, rows: list[dict]) -> str:
    """What will be sampled, in a line."""
    own, limit = recipe.data.own_solutions, setting(recipe, "grpo", "max_completion_length")
    problems = min(own.problems, len(rows))
    return (
        f"own solutions: {problems:,} problems × {own.samples} completions of"
        f" {own.model or 'the base model'} at temperature {own.temperature:g}: at most"
        f" {problems * own.samples * limit:,} tokens"
    )


def asked(recipe: Recipe, tokenizer: PreTrainedTokenizerBase, rows: list[dict]) -> RepeatedAnswers:
    """The completions that the recipe asks for, with those that are there."""
    own, order = recipe.data.own_solutions, [rows[i] for i in drawn(recipe, tokenizer, rows)]
    problems = min(own.problems, len(order))
    return RepeatedAnswers(
        recipe.stage_dir(FOLDER), policy(recipe), tokenizer, order, problems, own.samples
    )


def learned(recipe: Recipe, answers: RepeatedAnswers) -> Learned:
    """The solutions that the warm start learns from.

    Raises:
        RecipeError: completions are missing, or those that are accepted do not fill a batch.
    """
    if answers.missing():
        folder = answers.file.parent
        first = f"run `{make_command('own-solutions', recipe)}` first"
        raise RecipeError([f"the model's own solutions in {folder} are not all sampled: {first}"])
    own, problems = recipe.data.own_solutions, len(answers.rows)
    completions = {(each["id"], each["sample"]): each for each in answers.answers}
    completions = [completions[i, sample] for i in range(problems) for sample in range(own.samples)]
    right = accepted(completions, answers.rows, recipe.runs_programs)
    rows = kept(right, answers.rows, own.keep)
    figures = {
        "problems": problems,
        "solved": len({each["id"] for each in right}),
        "accepted": len(right),
    }
    figures = answers.cost() | figures | {"completions": len(completions), "kept": len(rows)}
    keys = ("per_device_train_batch_size", "gradient_accumulation_steps")
    batch = math.prod(setting(recipe, "sft", key) for key in keys) * processes()
    if len(rows) < batch:  # a single step would already see them all
        few = (
            f"data.own_solutions: {accepted_of(figures)}: fewer than a step of the warm start takes"
            f" ({batch:,}). "
        )
        few += (
            "Raise its `samples` or `problems`, or leave the key out to learn from the data's"
            " worked solutions"
        )
        raise RecipeError([Fault(recipe.place("data", "own_solutions"), few)])
    return Learned(rows, figures)


def accepted(completions: list[dict], rows: list[dict], run_programs: bool = False) -> list[dict]:
    """Those that are right and ended by themselves: their `id`, `reasoning` and `answer`, which the
    warm start puts into tags. Of a completion that `format_tags` would pay they are what stands in
    its own tags; any other is reasoning as a whole, and its answer is the one that was judged. Most
    models reason well and leave the tags out.

    What the rewards would not pay once it stands in tags is left out, such as two answers in one,
    and so is an answer without reasoning.
    """
    right = [each for each in completions if each["right"] is True and not each["truncated"]]
    format_tags, found = reward_function("format_tags"), []
    for each, in_form in zip(right, format_tags([each["response"] for each in right]), strict=True):
        parts = re.split("</?(?:think|answer)>", each["response"])
        thought, answer = (
            (parts[1], parts[3].strip()) if in_form else ("".join(parts).strip(), each["answer"])
        )
        if thought.strip() != answer:
            found.append({"id": each["id"], "reasoning": thought, "answer": answer})
    texts = [prompt.completion(each["reasoning"], each["answer"], opened=False) for each in found]
    verdicts = judged([rows[each["id"]] for each in found], texts, True, run_programs)
    paid = zip(found, format_tags(texts), verdicts, strict=True)
    return [each for each, in_form, verdict in paid if in_form and verdict["right"]]


def kept(solutions: list[dict], rows: list[dict], most: int) -> list[dict]:
    """The first `most` solutions of each problem that differ in more than whitespace, as rows to
    learn from."""
    found: dict[int, dict[tuple, dict]] = {}
    for each in solutions:
        text = {part: each[part] for part in ("reasoning", "answer")}
        of_problem = found.setdefault(each["id"], {})
        if len(of_problem) < most:
            of_problem.setdefault(tuple(" ".join(part.split()) for part in text.values()), text)
    return [rows[i] | text for i, of_problem in found.items() for text in of_problem.values()]


def write(folder: Path, rows: list[dict]):
    """Write what the warm start learns from, to be read: a solution per line."""
    keys = ("problem", "solution", "reasoning", "answer")
    lines = [json.dumps({key: row[key] for key in keys}, ensure_ascii=False) for row in rows]
    write_whole(folder / KEPT, "\n".join(lines) + "\n")
