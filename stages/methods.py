"""Spend the same number of sampled completions in each way that the recipe's data allows, seed by
seed: fine-tuning on worked solutions (SFT), on the model's own correct ones (RFT) in one round and
in three, GRPO, and distillation where the recipe has that section. Then compare them on the
validation problems.

GRPO's completions are the budget. What is trained is an ordinary run of a stage, in a folder below
`outputs/<recipe>/methods/seed-<n>`, and a finished one is not trained again.
"""

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from console.faults import RecipeError
from console.terminal import duration, say, say_markdown
from machine.launch import launched_here, read_for
from runs.files import json_lines, lock, write_whole
from runs.records import VALIDATION
from runs.state import read_run
from schema.configs import STEP
from schema.recipe import Recipe
from schema.settings import size_of_run
from schema.stages import finished
from stages.make import DEFAULT_RECIPE, MISTAKE, Running, launcher, recipe_words
from stages.seeds import read_seeds
from training.problem_sets import load_train

# How the models are asked, by the folder of their answers.
ASKED = {
    "greedy": ["evaluate.samples=1", "evaluate.temperature=0"],
    "sampled": ["evaluate.samples=8", "evaluate.temperature=1", "evaluate.limit=120"],
}
ANSWERS, SOLUTIONS = "answers", "worked solutions"
MOST_SAMPLES = 100  # of a problem
RFT = ("rejection-sampling", "sft")


class Arm(NamedTuple):
    """A way to spend the completions of a seed.

    Attributes:
        needs: what it learns from.
        start: the arm that it begins with, or the base.
        runs: (folder, stages, settings) of what it trains; the last stage of each makes a model.
    """

    name: str
    needs: str
    start: str
    runs: list[tuple[Path, tuple[str, ...], list[str]]]

    @property
    def models(self) -> list[Path]:
        """The folders of the models that it trains; the last is its policy."""
        return [folder / stages[-1] for folder, stages, _ in self.runs]


class Seed(NamedTuple):
    """A seed: the words of its command lines behind a stage's name, its folder, its arms."""

    words: list[str]
    folder: Path
    arms: list[Arm]


def main(recipe: Recipe, seeds: list[str], sft: str | None = None) -> str:
    """Train and evaluate the arms of each seed, and return the page that compares them."""
    asked_for = {"RECIPE": DEFAULT_RECIPE} | recipe.asked_for
    words = recipe_words(asked_for | {"ARGS": shlex.join(asked_for.get("ARGS", ()))})
    root = recipe.stage_dir("methods")
    rows, _ = load_train(recipe)
    runs = []
    for seed in read_seeds(seeds):
        folder = root / f"seed-{seed}"
        runs.append(Seed([*words, f"seed={seed}"], folder, arms_of(recipe, rows, folder, sft)))
    lock(root)
    impossible = _run(list(chain.from_iterable(map(_trainings, runs))))
    for run in runs:
        run.arms[:] = [arm for arm in run.arms if arm.name not in impossible]
    _run(list(chain.from_iterable(map(_evaluations, runs))))

    from evaluation import methods

    lines = list(chain.from_iterable(map(_outcomes, runs)))
    write_whole(root / "outcomes.jsonl", json_lines(lines))
    text = methods.write(root, lines, sorted(impossible))
    say_markdown(text.rstrip("\n"))
    say(f"\nresults: {root}")
    return text


def arms_of(recipe: Recipe, rows: list[dict], folder: Path, sft: str | None) -> list[Arm]:
    """The arms that a recipe and its training rows allow, each after the one that it begins with.

    Args:
        folder: the seed's.
        sft: the section by which a recipe without one fine-tunes on solutions.

    Raises:
        RecipeError: it is not known how many completions GRPO samples.
    """
    size = size_of_run(recipe)
    if size is None:
        message = "its completions are the budget of every method: write max_steps"
        raise RecipeError([recipe.fault("error", ("grpo", "max_steps"), message)])
    _, budget, _ = size
    problems = min(len(rows), budget // max(3, recipe.settings["grpo"]["num_generations"]))
    samples = min(MOST_SAMPLES, budget // problems)
    has_start = recipe.sft is not None
    samples_own = recipe.data.rejection_sampling is not None
    learns_all = has_start and recipe.data.worked is None and not samples_own
    has_worked = any(row["reasoning"] for row in rows)
    first = "SFT (the warm start)" if learns_all else "warm start"
    start = first if has_start else "base"
    settings = ["data.worked=null"] + [f"sft={sft or '{}'}"] * (not has_start)
    policies = [folder / "sft" if has_start else None]
    rounds = []
    for number in range(3):
        drawn = _sampled(problems, (samples + 2 - number) // 3, policies[-1])
        rounds.append((folder / f"rft-{number + 1}-of-3", RFT, [*settings, drawn]))
        policies.append(rounds[-1][0] / "sft")
    at_once = [*settings, _sampled(problems, samples, policies[0])]
    worked = [*settings, "data.rejection_sampling=null"]
    steps = budget // recipe.resolved().get("distill", {}).get(STEP["distill"], 1)
    distill = (folder, ("distill",), [f"distill.max_steps={steps}"])
    warm_start = (folder, RFT if samples_own else ("sft",), [])
    possible = [
        (has_start, Arm(first, ANSWERS if samples_own else SOLUTIONS, "base", [warm_start])),
        (
            has_worked and not learns_all,
            Arm("SFT", SOLUTIONS, "base", [(folder / "worked", ("sft",), worked)]),
        ),
        (True, Arm("RFT", ANSWERS, start, [(folder / "rft", RFT, at_once)])),
        (True, Arm("RFT in three rounds", ANSWERS, start, rounds)),
        (True, Arm("GRPO", ANSWERS, start, [(folder, ("grpo",), [])])),
        (recipe.distill is not None, Arm("distillation", "a teacher", start, [distill])),
    ]
    return [arm for is_possible, arm in possible if is_possible]


def _sampled(problems: int, samples: int, policy: Path | None) -> str:
    """The setting by which the base learns what is correct of so many completions of a policy."""
    model = {"model": str(policy)} if policy else {}
    settings = {"problems": problems, "samples": samples, "keep": samples} | model
    return f"data.rejection_sampling={json.dumps(settings)}"


def _trainings(seed: Seed) -> Iterator[tuple[str, list[str]]]:
    """Yield the check of a seed, and then what it has not trained yet: (arm, words of a stage)."""
    trained = {model.name for arm in seed.arms for model in arm.models}
    check = ["check", *seed.words, f"output_dir={seed.folder}", "--fast", "--stages"]
    yield "", [*check, *sorted(trained)]
    for arm in seed.arms:
        for place, stages, settings in arm.runs:
            for stage in [] if finished(place / stages[-1]) else stages:
                words = [stage, *seed.words, f"output_dir={place}", *settings]
                yield arm.name, [*launcher(stage, os.environ), *words]


def _evaluations(seed: Seed) -> Iterator[tuple[str, list[str]]]:
    models = [f"--model={model}" for model in _models(seed)]
    for kind, settings in ASKED.items():
        words = [*seed.words, f"output_dir={seed.folder / kind}", "evaluate.control=false"]
        yield "", ["evaluate", *words, *settings, "--validation", *models]


def _models(seed: Seed) -> list[str]:
    """The base of a seed, and the models that its arms train."""
    from training.model import base_model

    base = base_model(read_for(launched_here(), seed.words[0], seed.words[1:]))
    return [base, *map(str, chain.from_iterable(arm.models for arm in seed.arms))]


def _run(commands: list[tuple[str, list[str]]]) -> set[str]:
    """Run the commands, and return the arms for which the completions hold too few correct ones to
    learn from. The program ends as the first other command does that fails."""
    running = Running()
    began = time.monotonic()
    impossible = set()
    for number, (arm, words) in enumerate(commands):
        seconds = (time.monotonic() - began) / max(1, number) * (len(commands) - number)
        remaining = f", about {duration(seconds)} left" if number > 1 else ""
        [*_, place] = [word for word in words if word.startswith("output_dir=")]
        say(f"\nmethods: {number + 1} of {len(commands)}, {arm or words[0]}, {place}{remaining}")
        code = 0 if arm in impossible else running.code_of(words)
        if code == MISTAKE and words[0] == RFT[0]:
            impossible.add(arm)
            say(f"methods: {arm} is left out")
        elif code:
            say("methods: stopped; the same command goes on")
            sys.exit(code)
    return impossible


def _outcomes(seed: Seed) -> list[dict]:
    """The outcomes of a seed: see evaluation/methods.py."""
    from evaluation import compare_runs, methods, report
    from evaluation.completions import named_model

    place = f"output_dir={seed.folder / 'greedy'}"
    recipe = read_for(launched_here(), seed.words[0], [*seed.words[1:], place])
    labels = [named_model(recipe, model).label for model in _models(seed)]
    answers = []
    for kind in ASKED:
        folder = seed.folder / kind / "eval/models" / VALIDATION
        answers.append(report.compare(folder, labels).values())
    facts = [{"arm": methods.BASE, "method": methods.BASE, "completions": 0}]
    for arm in seed.arms:
        [before] = [fact for fact in facts if fact["arm"] == arm.start]
        about = {"method": arm.name, "start": arm.start, "needs": arm.needs, "seconds": 0.0}
        fact = about | {"completions": before["completions"]}
        for number, run in enumerate(map(read_run, arm.models), 1):
            fact["completions"] += compare_runs.completions(run)
            fact["seconds"] += compare_runs.seconds(run)
            name = arm.name if number == len(arm.models) else f"{arm.name}, after {number}"
            facts.append(fact | {"arm": name})
    lines = []
    for fact, greedy, sampled in zip(facts, *answers, strict=True):
        lines += methods.lines_of(fact | {"seed": recipe.seed}, greedy, sampled)
    return lines
