"""Spend at most the same number of sampled completions in each way that the recipe's data allows,
seed by seed: fine-tuning on worked solutions (SFT), on the model's own correct ones (RFT) in one
round and in three, GRPO, and distillation where the recipe has that section. Then compare them on
the validation problems.

GRPO's completions are the budget. What is trained is an ordinary run of a stage, in a folder below
`outputs/<recipe>/methods/seed-<n>`, and a finished one is not trained again.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from console.faults import TOO_FEW_CORRECT, Fault, RecipeError
from console.terminal import make_command, say, say_markdown
from machine.launch import launched_here, read_for
from runs.files import json_lines, lock, write_whole
from runs.identity import command_elsewhere, differences
from runs.records import BASE, VALIDATION
from runs.state import RunState, read_run
from schema.configs import STEP
from schema.recipe import Recipe
from schema.settings import size_of_run
from schema.stages import finished
from stages.make import DEFAULT_RECIPE, Running, launcher, recipe_words
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

    def read(self, place: Path, *settings: str) -> Recipe:
        """The recipe as the stages of a folder read it."""
        words = [*self.words[1:], f"output_dir={place}", *settings]
        return read_for(launched_here(), self.words[0], words)


def main(recipe: Recipe, seeds: Sequence[str], sft: str | None = None) -> str:
    """Train and evaluate the arms of each seed, and return the page that compares them."""
    numbers = read_seeds(seeds)
    recipe = replace(recipe, asked_for=recipe.asked_for | {"SEEDS": numbers})
    _require_how_solutions_are_learned(recipe, sft)
    if sft:
        recipe = replace(recipe, asked_for=recipe.asked_for | {"SFT": sft})
    asked_for = {"RECIPE": DEFAULT_RECIPE} | recipe.asked_for
    words = recipe_words(asked_for | {"ARGS": shlex.join(asked_for.get("ARGS", ()))})
    if recipe.settings["grpo"]["eval_steps"]:
        words.append("grpo.eval_steps=null")  # it takes its last step, as the others do
    root = recipe.stage_dir("methods")
    rows, _ = load_train(recipe)
    runs = []
    for seed in numbers:
        folder = root / f"seed-{seed}"
        runs.append(Seed([*words, f"seed={seed}"], folder, arms_of(recipe, rows, folder, sft)))
    _require_same(recipe, runs)
    lock(root)
    impossible = _run(list(chain.from_iterable(map(_trainings, runs))))
    for run in runs:
        run.arms[:] = [arm for arm in run.arms if arm.name not in impossible]
    _run(list(chain.from_iterable(map(_evaluations, runs))))

    from evaluation import methods

    lines = list(chain.from_iterable(map(_outcomes, runs)))
    write_whole(root / "outcomes.jsonl", json_lines(lines))
    text = methods.write(root, lines, _notes(recipe, impossible))
    say_markdown(text.rstrip("\n"))
    say(f"\nresults: {root}")
    return text


def _notes(recipe: Recipe, impossible: dict[str, str]) -> list[str]:
    """What the page says besides its figures. `impossible`: see `_run`."""
    notes = []
    for name, folder in sorted(impossible.items()):
        cause = f"whose completions in {folder} held too few correct ones to learn from"
        notes.append(f"Left out: {name}, {cause}.")
    if recipe.sft is None and "<answer>" not in (recipe.prompt.system or ""):
        difference = "which the system prompt does not ask for; GRPO learns what its rewards pay"
        notes.append(f"SFT and RFT learn to write <think> and <answer> tags, {difference}.")
    return notes


def _require_how_solutions_are_learned(recipe: Recipe, sft: str | None):
    """Refuse a second `sft` section, and trl's defaults in place of one: its rate is for the
    training of all weights, and an untuned rival loses."""
    if recipe.sft is None and not sft:
        rate = "1e-5" if recipe.adapter is None else "1e-4"
        options = recipe.asked_for | {"SFT": f"{{max_steps: 100, learning_rate: {rate}}}"}
        command = make_command("methods", replace(recipe, asked_for=options))
        message = "it has no `sft` section, which says how SFT and RFT learn: try values, as"
        raise RecipeError([Fault(recipe.place(), f"{message} {command}")])
    if recipe.sft is not None and sft:
        message = 'SFT is for a recipe without this section: ARGS="sft.max_steps=…" sets its keys'
        raise RecipeError([recipe.fault("error", ("sft",), message)])


def _require_same(recipe: Recipe, seeds: list[Seed]):
    """Refuse mistakes in what the arms set, and models that other settings trained."""
    faults = []
    for seed in seeds:
        for place, stages, settings in chain.from_iterable(arm.runs for arm in seed.arms):
            run = RunState.read(place / stages[-1])
            lines = differences(seed.read(place, *settings), run).values()
            if lines:
                faults.append(Fault(str(run.folder), "\n".join(["it was trained with", *lines])))
    if faults:
        command = command_elsewhere(recipe, "methods")
        raise RecipeError([*faults, f"Give this comparison its own folder: {command}"])


def arms_of(recipe: Recipe, rows: list[dict], folder: Path, sft: str | None) -> list[Arm]:
    """The arms that a recipe and its training rows allow, each after the one that it begins with.

    Args:
        folder: the seed's.
        sft: the section by which a recipe without one fine-tunes on solutions.

    Raises:
        RecipeError: see `_budget`.
    """
    budget = _budget(recipe)
    share = budget // max(3, recipe.settings["grpo"]["num_generations"])
    problems = min(len(rows), max(1, share))
    samples = min(MOST_SAMPLES, budget // problems)
    has_start = recipe.sft is not None
    samples_own = recipe.data.rejection_sampling is not None
    learns_all = has_start and recipe.data.worked is None and not samples_own
    has_worked = any(row["reasoning"] for row in rows)
    first = "SFT (the warm start)" if learns_all else "warm start"
    start = first if has_start else "base"
    settings = ["data.worked=null"] + [f"sft={sft}"] * (not has_start)
    policies = [folder / "sft" if has_start else None]
    rounds = []
    for number in range(3):
        drawn = _sampled(problems, max(1, (samples + 2 - number) // 3), policies[-1])
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


def _budget(recipe: Recipe) -> int:
    """How many completions GRPO samples.

    Raises:
        RecipeError: it is not known before the run.
    """
    if recipe.data.dynamic_sampling:
        message = "how much it samples shows in the run, and is the budget here: leave it out"
        raise RecipeError([recipe.fault("error", ("data", "dynamic_sampling"), message)])
    size = size_of_run(recipe)
    if size is None:
        message = "its completions are the budget of every method: write max_steps"
        raise RecipeError([recipe.fault("error", ("grpo", "max_steps"), message)])
    return size[1]


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
    starts = {arm.start for arm in seed.arms}
    for arm in seed.arms:
        name = "" if arm.name in starts else arm.name  # without it there is nothing to compare
        for place, stages, settings in arm.runs:
            for stage in [] if finished(place / stages[-1]) else stages:
                words = [stage, *seed.words, f"output_dir={place}", *settings]
                words += ["--if-needed"] * (stage == RFT[0])  # which says no next command
                yield name, [*launcher(stage, os.environ), *words]


def _evaluations(seed: Seed) -> Iterator[tuple[str, list[str]]]:
    models = [f"--model={model}" for model in (BASE, *_models(seed))]
    for kind, settings in ASKED.items():
        words = [*seed.words, f"output_dir={seed.folder / kind}", "evaluate.control=false"]
        yield "", ["evaluate", *words, *settings, "--validation", *models]


def _models(seed: Seed) -> list[str]:
    """The models that the arms of a seed train."""
    return list(map(str, chain.from_iterable(arm.models for arm in seed.arms)))


def _run(commands: list[tuple[str, list[str]]]) -> dict[str, str]:
    """Run the commands, and return the folder in which completions hold too few correct ones to
    learn from, by arm. The program ends as the first other command does that fails."""
    running = Running()
    impossible = {}
    for number, (arm, words) in enumerate(commands, 1):
        [*_, place] = [word for word in words if word.startswith("output_dir=")]
        say(f"\nmethods: {number} of {len(commands)}, {arm or words[0]}, {place}")
        code = 0 if arm in impossible else running.code_of(words)
        if code == TOO_FEW_CORRECT and arm:
            impossible[arm] = place.removeprefix("output_dir=")
            say(f"methods: {arm} is left out")
        elif code:
            say("methods: stopped; the same command goes on")
            sys.exit(code)
    return impossible


def _outcomes(seed: Seed) -> list[dict]:
    """The outcomes of a seed: see evaluation/methods.py."""
    from evaluation import compare_runs, methods, report
    from evaluation.completions import named_model

    recipe = seed.read(seed.folder / "greedy")
    labels = [named_model(recipe, model).label for model in (BASE, *_models(seed))]
    answers = []
    for kind in ASKED:
        folder = seed.folder / kind / "eval/models" / VALIDATION
        answers.append(report.compare(folder, labels).values())
    facts = [{"arm": BASE, "method": BASE, "completions": 0}]
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
