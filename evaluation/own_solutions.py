"""The base model's own right solutions, from which the warm start learns the form of an answer without leaving the
model's own way of reasoning.

This is rejection-sampling fine-tuning (Yuan et al. 2023, arXiv:2308.01825), whose first round STaR also takes (Zelikman
et al. 2022, arXiv:2203.14465): sample each training problem several times, keep what is right, and train on it with
the prompt of every other stage, which shows no example. A right answer behind a wrong thought is kept, too.
"""

import json
import math
import re
from pathlib import Path
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from data import prompt
from evaluation.contestants import Contestant, control
from evaluation.probe import Rounds, drawn, sampled_at
from schema.configs import processes, setting
from schema.faults import Fault, RecipeError
from schema.names import reward_function
from schema.recipe import Recipe
from schema.terminal import make_command
from training.checkpoints import write_whole

FOLDER = "own_solutions"
KEPT = "kept.jsonl"


class Learned(NamedTuple):
    """`rows`: the problems with the model's own `reasoning` and `answer`, one row per solution. `figures`: how many
    there were before, for the summary."""

    rows: list[dict]
    figures: dict


def policy(recipe: Recipe, rows: list[dict]) -> Contestant:
    """The base model, or the finished stage that the recipe names, shown the worked problem that the evaluation shows
    `base+example`, where the recipe wants one and a row has one."""
    own = recipe.data.own_solutions
    shown = control(recipe, rows) if own.example else []
    sampled = sampled_at(recipe, own.temperature)
    trained = Path(own.model) if own.model else None
    return Contestant("completions", sampled, trained, example=shown[0].example if shown else None)


def announced(recipe: Recipe, rows: list[dict]) -> str:
    """What will be sampled, in a line."""
    own, contestant = recipe.data.own_solutions, policy(recipe, rows)
    problems = min(own.problems, len(rows) - (contestant.example is not None))
    limit = contestant.recipe.evaluate.max_new_tokens
    example = "shown a worked example" if contestant.example else "without an example"
    if own.example and not contestant.example:
        example += ", since no problem has a worked solution"
    return (
        f"own solutions: {problems:,} problems × {own.samples} completions of {own.model or 'the base model'} at "
        f"temperature {own.temperature:g}, {example}: at most {problems * own.samples * limit:,} tokens"
    )


def asked(recipe: Recipe, tokenizer: PreTrainedTokenizerBase, rows: list[dict]) -> Rounds:
    """The completions that the recipe asks for, with those that are there. The example is not itself asked."""
    own, contestant = recipe.data.own_solutions, policy(recipe, rows)
    rows = [row for row in rows if row is not contestant.example]
    system, example = recipe.prompt.system, contestant.example
    whole = [row | {"problem": prompt.messages(row["problem"], system, example)[-1]["content"]} for row in rows]
    order = [rows[i] for i in drawn(recipe, tokenizer, whole)]
    return Rounds(recipe.stage_dir(FOLDER), contestant, tokenizer, order, min(own.problems, len(order)), own.samples)


def learned(recipe: Recipe, answers: Rounds) -> Learned:
    """The solutions that the warm start learns from.

    Raises:
        RecipeError: completions are missing, or those that are accepted do not fill a batch.
    """
    if answers.missing():
        folder = answers.file.parent
        first = f"run `{make_command('own-solutions', recipe)}` first"
        raise RecipeError([f"the model's own solutions in {folder} are not all sampled: {first}"])
    own, problems = recipe.data.own_solutions, len(answers.rows)
    completions = {(each["id"], each["sample"]): each for each in answers.done}
    completions = [completions[i, sample] for i in range(problems) for sample in range(own.samples)]
    right = accepted(completions)
    rows = kept(right, answers.rows, own.keep)
    figures = {"problems": problems, "solved": len({each["id"] for each in right}), "accepted": len(right)}
    figures = answers.cost() | figures | {"completions": len(completions), "kept": len(rows)}
    keys = ("per_device_train_batch_size", "gradient_accumulation_steps")
    batch = math.prod(setting(recipe, "sft", key) for key in keys) * processes()
    if len(rows) < batch:  # a single step would already see them all
        few = f"data.own_solutions: {told(figures)}: fewer than a step of the warm start takes ({batch:,}). Raise its "
        few += "`samples` or `problems`, or leave the key out to learn from the data's worked solutions"
        raise RecipeError([Fault(recipe.place("data", "own_solutions"), few)])
    return Learned(rows, figures)


def accepted(completions: list[dict]) -> list[dict]:
    """Those that are right in a closed `<answer>` block, that `format_tags` would pay, and that ended by themselves:
    their `id`, and the `reasoning` and the `answer` in their tags."""
    right = [each for each in completions if each["strict"] is True and not each["truncated"]]
    paid = reward_function("format_tags")([each["response"] for each in right])
    found = []
    for each, in_form in zip(right, paid, strict=True):
        if in_form:
            _, thought, _, answer, _ = re.split("</?(?:think|answer)>", each["response"])
            found.append({"id": each["id"], "reasoning": thought, "answer": answer.strip()})
    return found


def kept(solutions: list[dict], rows: list[dict], most: int) -> list[dict]:
    """The first `most` solutions of each problem that differ in more than whitespace, as rows to learn from."""
    found: dict[int, dict[tuple, dict]] = {}
    for each in solutions:
        text = {part: each[part] for part in ("reasoning", "answer")}
        of_problem = found.setdefault(each["id"], {})
        if len(of_problem) < most:
            of_problem.setdefault(tuple(" ".join(part.split()) for part in text.values()), text)
    return [rows[i] | text for i, of_problem in found.items() for text in of_problem.values()]


def told(figures: dict) -> str:
    """The figures as half a sentence."""
    of = f"of {figures['completions']:,} completions of {figures['problems']:,} problems"
    return (
        f"{of} {figures['accepted']:,} are accepted, for {figures['solved']:,} problems, and {figures['kept']:,} kept"
    )


def write(folder: Path, rows: list[dict]):
    """Write what the warm start learns from, to be read: a solution per line."""
    keys = ("problem", "solution", "reasoning", "answer")
    lines = [json.dumps({key: row[key] for key in keys}, ensure_ascii=False) for row in rows]
    write_whole(folder / KEPT, "\n".join(lines) + "\n")
