"""Training problems of which a model samples several completions each, and what is made of its
completions:

- a probe's pass rates: how often the policy that GRPO starts from solves each problem, by which
  `data.pass_rate` chooses those that GRPO trains on;
- the correct ones of a model's own solutions, from which a warm start learns the format without
  leaving the model's way of reasoning. This is rejection-sampling fine-tuning, RFT (Yuan et
  al. 2023, arXiv:2308.01825), whose first round STaR also takes (Zelikman et al. 2022,
  arXiv:2203.14465). A
  correct answer behind incorrect reasoning is kept, too.

Both are made from `completions.jsonl` alone, with the verifier of `correct_answer`. They are
training data; they stand here because a model answers by evaluation's engines.
"""

import dataclasses
import json
import math
import random
import re
from collections import Counter
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from console import terminal
from console.faults import Fault, RecipeError, TooFewCorrect
from console.terminal import make_command, say
from data import prompt
from evaluation.completions import Contestant, StoredCompletions, completion_settings, judged
from evaluation.engines import engine
from evaluation.report import batches, differing_settings
from evaluation.statistics import all_alike, from_to, interval, wilson
from runs.files import all_lines, json_lines, write_whole
from runs.identity import PASS_RATES, warm_start_of
from schema.names import reward_function
from schema.recipe import Recipe
from training import memory
from training.problem_sets import rows_that_fit

REJECTION_SAMPLING = "rejection_sampling"  # the folder of the completions
SOLUTIONS = "kept.jsonl"
# Settings of a completion that change a pass rate by chance and rounding at most. `trained` is a
# path; `weights` identifies the policy.
NOT_THE_POLICY = ("engine", "batch_size", "samples", "seed", "trained")
# The least share of correct, and of incorrect, completions for a problem set to be of use.
RAREST = 0.05
SILENT = 0.6  # zero-variance groups beyond which most of the sampling is in vain
ROWS = 17  # of a histogram, at most
BAR = 40  # characters
MAX_COMPLETIONS = 10**7  # of a probe, whose batches are all held in memory


def sampled_at(recipe: Recipe, temperature: float, top_p: float = 1.0) -> Recipe:
    """The recipe with an evaluation at this temperature, and completions as long as GRPO's."""
    evaluate = dataclasses.replace(
        recipe.evaluate,
        temperature=float(temperature),
        top_p=top_p,
        max_new_tokens=recipe.settings["grpo"]["max_completion_length"],
        samples=1,  # the batches count them
        limit=None,
    )
    return dataclasses.replace(recipe, evaluate=evaluate)


def draw_order(recipe: Recipe, tokenizer: PreTrainedTokenizerBase, rows: list[dict]) -> list[int]:
    """Indices of the training rows whose prompts GRPO takes, shuffled by the seed, of which the
    first are sampled."""
    fitting = set(map(id, rows_that_fit(recipe, memory.model_config(recipe), tokenizer, rows)))
    indices = [i for i, row in enumerate(rows) if id(row) in fitting]
    random.Random(recipe.seed).shuffle(indices)
    return indices


def stored_completions(
    folder: Path, contestant: Contestant, tokenizer, rows: list[dict], problems: int, samples: int
) -> StoredCompletions:
    """The completions that were sampled before, of which those of so many samples of each of the
    first problems may be missing. `sample_missing` adds them."""
    sampling = dataclasses.replace(contestant.sampling_or_default(), limit=problems)
    size = contestant.recipe.evaluate.batch_size
    by_sample = batches_by_sample(problems, len(rows), samples, size)
    return StoredCompletions(
        folder, contestant._replace(sampling=sampling), tokenizer, rows, batches=by_sample
    )


def batches_by_sample(
    problems: int, rows: int, samples: int, size: int
) -> dict[int, list[tuple[int, int]]]:
    """(row, sample) of every completion, by the number of its batch. A batch has one sample of each
    of its problems, in the order of the rows, so that more problems or more samples leave finished
    batches as they are."""
    blocks = math.ceil(rows / size)
    numbered = {}
    for sample_number in range(samples):
        for start in range(0, problems, size):
            block = range(start, min(start + size, problems))
            number = sample_number * blocks + start // size
            numbered[number] = [(i, sample_number) for i in block]
    return numbered


def sample_missing(stored: StoredCompletions, tokenizer: PreTrainedTokenizerBase):
    """Sample the completions that are missing."""
    if not stored.missing():
        return
    trained = [stored.settings["trained"]]
    with engine(stored.recipe, tokenizer, trained, stored.longest_prompt) as [complete]:
        stored.complete(complete)


def wanted(stored: StoredCompletions, samples: int) -> list[dict]:
    """The completions by problem and sample, each once, without those of an earlier call for
    more."""
    by_place = {}
    for line in stored.lines:
        if line["id"] < len(stored.rows) and line["sample"] < samples:
            by_place[line["id"], line["sample"]] = line
    return [by_place[place] for place in sorted(by_place)]


def cost(stored: StoredCompletions) -> dict:
    """The number of stored completions, their tokens, and the seconds of all batches, with the
    batches that were lost."""
    seconds, _ = batches(stored.file.with_suffix(".seconds.jsonl")).sum(axis=0)
    tokens = sum(line["tokens"] for line in stored.lines)
    return {"completions": len(stored.lines), "tokens": tokens, "seconds": float(seconds)}


def starting_policy(recipe: Recipe) -> Contestant:
    """The policy that GRPO starts from, which samples as GRPO will. Raises RecipeError where the
    warm start is not finished, or the engine lacks an option of the one that trains."""
    grpo = recipe.settings["grpo"]
    options = {}
    for key in ("top_k", "min_p", "repetition_penalty"):
        if grpo[key] is not None:
            options[key] = grpo[key]
    engine_options = grpo["generation_kwargs"] or {}
    sampler = "vllm" if grpo["use_vllm"] else "transformers"
    if engine_options and recipe.evaluate.engine != sampler:
        message = (
            f"grpo.generation_kwargs are options of {sampler}: a probe needs evaluate.engine:"
            f" {sampler} for them"
        )
        raise RecipeError([Fault(recipe.place("grpo", "generation_kwargs"), message)])
    sampled = sampled_at(recipe, grpo["temperature"], grpo["top_p"])
    sampling = dataclasses.replace(sampled.evaluate.sampling(), more=options | engine_options)
    return Contestant("completions", sampled, warm_start_of(recipe), sampling=sampling)


def correct_per_problem(stored: StoredCompletions, samples: int) -> list[int]:
    """How many samples of each problem are correct. A sample that the verifier cannot judge is
    not."""
    counts = Counter(line["id"] for line in wanted(stored, samples) if line["correct"] is True)
    return [counts[i] for i in range(len(stored.rows))]


def pass_rate_settings(
    contestant: Contestant, tokenizer: PreTrainedTokenizerBase, rows: list[dict]
) -> dict:
    """The settings that the pass rates of the training rows depend on."""
    system = contestant.recipe.prompt.system
    first_prompt = prompt.question_ids(tokenizer, rows[0], system)
    settings = completion_settings(contestant, rows, first_prompt)
    for key in NOT_THE_POLICY:
        settings.pop(key, None)
    settings["dtype"] = contestant.recipe.model.dtype  # whatever the engine computes in
    return settings


def write_pass_rates(
    folder: Path, settings: dict, stored: StoredCompletions, n: int, ids: list[int], group: int
) -> dict:
    """Write `pass_rates.jsonl` and `summary.json`, and return the figures in the last.

    Args:
        n: how many samples of each problem to count.
        ids: the index of each answered problem among the training rows.
        group: how many completions GRPO draws of a problem.
    """
    correct = correct_per_problem(stored, n)
    bounds = [wilson(count, n) for count in range(n + 1)]
    lines = [settings | {"probed": len(correct), "samples": n}]
    for i, problem, count in zip(ids, stored.rows, correct, strict=True):
        line = {"id": i, "problem": problem["problem"], "correct": count, "n": n}
        lines.append(line | {"pass_rate": count / n, "interval_95": bounds[count]})
    figures = pass_rate_figures(correct, n, group) | cost(stored)
    write_whole(folder / PASS_RATES, json_lines(lines))
    write_whole(folder / "summary.json", json.dumps(figures, indent=2) + "\n")
    return figures


def pass_rate_figures(correct: list[int], n: int, group: int) -> dict:
    """The figures of a probe, from how many of n completions of each problem are correct. Intervals
    are over problems; the share of zero-variance groups needs n of a group or more."""
    shares = np.divide(correct, n).tolist()
    figures = {
        "problems": len(correct),
        "samples": n,
        "pass_rate": sum(shares) / len(shares),
        "pass_rate_interval_95": list(interval(shares)),
        "never_correct": correct.count(0) / len(correct),
        "always_correct": correct.count(n) / len(correct),
        "group": group,
    }
    if n >= group:
        alike = [all_alike(n, count, group) for count in correct]
        figures["zero_variance_groups"] = sum(alike) / len(alike)
        figures["zero_variance_groups_interval_95"] = list(interval(alike))
    return figures


def pass_rate_table(figures: dict, correct: list[int], label: str) -> str:
    """The figures and a histogram of the pass rates, as Markdown."""
    n = figures["samples"]
    group = figures["group"]
    zero_variance = f"needs --samples {group}"
    zero_variance_interval = ""
    if "zero_variance_groups" in figures:
        zero_variance = f"{figures['zero_variance_groups']:.1%}"
        zero_variance_interval = from_to(figures["zero_variance_groups_interval_95"])
    columns = [
        (f"probe (n = {figures['problems']:,} × {n})", label),
        ("pass rate", f"{figures['pass_rate']:.1%}"),
        ("95% interval", from_to(figures["pass_rate_interval_95"])),
        ("never correct", f"{figures['never_correct']:.1%}"),
        ("always correct", f"{figures['always_correct']:.1%}"),
        (f"zero-variance groups of {group}", zero_variance),
        ("95% interval", zero_variance_interval),
    ]
    for key in ("completions", "tokens", "seconds"):
        columns.append((key, f"{figures[key]:,.0f}"))
    bins = histogram(correct, n)
    highest = max(dict(bins).values())
    rows = [["correct", "problems", ""]]
    for name, count in bins:
        rows.append([name, f"{count:,}", "█" * math.ceil(BAR * count / highest)])
    lines = [*terminal.table([*zip(*columns, strict=True)]), ""]
    return "\n".join([*lines, *terminal.table(rows, ("---:", "---:", "---"))])


def histogram(correct: list[int], n: int) -> list[tuple[str, int]]:
    """(name, number of problems) for each count of correct completions, or for each tenth where
    there are many."""
    counts = Counter(correct)
    if n < ROWS:
        return [(f"{count} of {n}", counts[count]) for count in range(n + 1)]
    tenths = Counter(min(10 * count // n, 9) for count in correct)
    return [(f"{10 * tenth}% to {10 * tenth + 10}%", tenths[tenth]) for tenth in range(10)]


def change_before_grpo(figures: dict, correct: list[int]) -> str | None:
    """What to change before GRPO, in words; None where the figures call for no change."""
    easier = (
        "nearly every completion is incorrect: train a longer warm start, or take easier problems"
    )
    if figures["pass_rate"] < RAREST:
        return easier
    if figures["pass_rate"] > 1 - RAREST:
        return "nearly every completion is correct: take harder problems"
    silent = figures.get("zero_variance_groups", 0.0)
    if silent <= SILENT:
        return None
    n = figures["samples"]
    lowest = math.floor(1000 / n) / 1000
    sometimes = len(correct) - correct.count(0) - correct.count(n)
    return (
        f"{silent:.0%} of groups of {figures['group']} would have zero variance: data.pass_rate:"
        f" [{lowest:g}, {1 - lowest:g}] leaves the {sometimes:,} problems that were solved"
        f" sometimes"
    )


def rows_by_pass_rate(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, rows: list[dict]
) -> list[dict]:
    """The training rows whose pass rate was measured and lies within `data.pass_rate`; all rows
    where it is not set. Raises RecipeError where the probe is of another policy, prompt, sampling
    or other problems, or no probe's, or no problem is left."""
    if recipe.data.pass_rate is None:
        return rows
    low, high = recipe.data.pass_rate
    file = recipe.stage_dir("probe") / PASS_RATES
    place = recipe.place("data", "pass_rate")
    head, rates = read_pass_rates(file)
    expected = pass_rate_settings(starting_policy(recipe), tokenizer, rows)
    changed = differing_settings(expected, head, expected)
    if changed:
        message = (
            f"data.pass_rate: {file} was measured with different settings ({', '.join(changed)}):"
            f" delete {file.parent}, and {make_command('probe', recipe)}"
        )
        raise RecipeError([Fault(place, message)])
    chosen = [row for i, row in enumerate(rows) if low <= rates.get(i, -1) <= high]
    message = (
        f"{len(chosen):,} of the {len(rates):,} problems that were probed (of {len(rows):,} in"
        f" all) have a pass rate from {low:g} to {high:g}"
    )
    if not chosen:
        raise RecipeError([Fault(place, f"data.pass_rate: {message}")])
    say(f"data: {message}")
    return chosen


def read_pass_rates(file: Path) -> tuple[dict, dict[int, float]]:
    """The settings that the pass rates depend on, and the rates by the problems' index among the
    training rows. Raises RecipeError where the file is not what a probe wrote."""
    try:
        head, *lines = all_lines(file)
        rates = {line["id"]: line["correct"] / line["n"] for line in lines}
        if len(rates) != head["probed"]:
            raise ValueError("lines are missing")
        return head, rates
    except (OSError, ValueError, TypeError, LookupError) as error:
        message = f"{file} is not what a probe wrote ({type(error).__name__}): delete it"
        raise RecipeError([message]) from None


class AcceptedSolutions(NamedTuple):
    """The solutions that a warm start learns from: in `rows` the problems with the model's own
    `reasoning` and `answer`, one row per solution; in `figures` how many there were."""

    rows: list[dict]
    figures: dict


def solver(recipe: Recipe) -> Contestant:
    """The base model, or the finished stage that the recipe names, judged by its final answer by
    the contract, in a block or not."""
    settings = recipe.data.rejection_sampling
    rewards = {}
    for name, options in recipe.rewards.items():
        rewards[name] = dict(options)
        rewards[name].pop("strict", None)
    sampled = sampled_at(dataclasses.replace(recipe, rewards=rewards), settings.temperature)
    return Contestant("completions", sampled, Path(settings.model) if settings.model else None)


def announcement(recipe: Recipe, rows: list[dict]) -> str:
    """What will be sampled, in a line."""
    settings = recipe.data.rejection_sampling
    tokens = recipe.settings["grpo"]["max_completion_length"]
    problems = min(settings.problems, len(rows))
    return (
        f"rejection sampling: {problems:,} problems × {settings.samples} completions of"
        f" {settings.model or 'the base model'} at temperature {settings.temperature:g}: at most"
        f" {problems * settings.samples * tokens:,} tokens"
    )


def completions_to_learn_from(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, rows: list[dict]
) -> StoredCompletions:
    """The completions that rejection sampling chooses from, as far as they are sampled."""
    settings = recipe.data.rejection_sampling
    order = [rows[i] for i in draw_order(recipe, tokenizer, rows)]
    problems = min(settings.problems, len(order))
    folder = recipe.stage_dir(REJECTION_SAMPLING)
    return stored_completions(folder, solver(recipe), tokenizer, order, problems, settings.samples)


def solutions_to_learn(recipe: Recipe, stored: StoredCompletions) -> AcceptedSolutions:
    """The solutions that the warm start learns from.

    Raises:
        RecipeError: completions are missing. TooFewCorrect: the accepted solutions do not fill a
            batch.
    """
    if stored.missing():
        folder = stored.file.parent
        first = f"run `{make_command('rejection-sampling', recipe)}` first"
        raise RecipeError([f"the completions in {folder} are not all sampled: {first}"])
    settings = recipe.data.rejection_sampling
    completions = wanted(stored, settings.samples)
    solutions = accept(completions, stored.rows, recipe.tolerance)
    rows = first_distinct(solutions, stored.rows, settings.keep)
    figures = cost(stored) | {
        "problems": len(stored.rows),
        "solved": len(set(map(itemgetter("id"), solutions))),
        "accepted": len(solutions),
        "completions": len(completions),
        "kept": len(rows),
    }
    sft = recipe.settings["sft"]
    batch = sft["per_device_train_batch_size"] * sft["gradient_accumulation_steps"]
    batch *= recipe.processes
    if len(rows) < batch:  # a single step would already see them all
        message = (
            f"data.rejection_sampling: {accepted_of(figures)}: fewer than a step of the warm start"
            f" takes ({batch:,}). Raise its `samples` or `problems`, or leave the key out to learn"
            " from the data's worked solutions"
        )
        raise TooFewCorrect([Fault(recipe.place("data", "rejection_sampling"), message)])
    return AcceptedSolutions(rows, figures)


def accepted_of(figures: dict) -> str:
    """How many solutions the warm start learns from, as half a sentence."""
    return (
        f"of {figures['completions']:,} completions of {figures['problems']:,} problems"
        f" {figures['accepted']:,} are accepted, for {figures['solved']:,} problems, and"
        f" {figures['kept']:,} kept"
    )


def accept(completions: list[dict], rows: list[dict], tolerance: float = 0.0) -> list[dict]:
    """The correct completions that ended by themselves: their `id`, `reasoning` and `answer`, which
    the warm start puts into tags.

    A completion that `format_tags` would pay is cut at its own tags. In any other the whole text is
    the reasoning, and the judged answer is the answer: most models reason well and leave the tags
    out. A solution that the rewards would not pay once it stands in tags is left out, such as two
    answers in one, and so is an answer without reasoning.
    """
    correct = []
    correct_texts = []
    for completion in completions:
        if completion["correct"] is True and not completion["truncated"]:
            correct.append(completion)
            correct_texts.append(completion["completion"])
    format_tags = reward_function("format_tags")
    has_format = format_tags(correct_texts)
    solutions = []
    texts = []
    for completion, in_format in zip(correct, has_format, strict=True):
        parts = re.split("</?(?:think|answer)>", completion["completion"])
        if in_format:
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
    return [solution for solution, in_format, verdict in scored if in_format and verdict["correct"]]


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


def write_solutions(folder: Path, rows: list[dict]):
    """Write the solutions that the warm start learns from, to be read: a solution per line."""
    lines = []
    for row in rows:
        lines.append({key: row[key] for key in ("problem", "solution", "reasoning", "answer")})
    write_whole(folder / SOLUTIONS, json_lines(lines))
