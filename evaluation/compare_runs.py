"""Finished runs side by side, from the files in their folders alone: what differs in their recipes,
what each cost and reached, and how their accuracies differ on the same held-out problems. The seeds
of one recipe, as `make seeds` writes them, are one arm, with a mean and an interval over seeds."""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pandas as pd

from console import terminal
from console.faults import RecipeError
from console.terminal import code, duration
from evaluation import report, run_pages
from evaluation.report import Answered
from evaluation.statistics import from_to, over_seeds, seeds_verdict, verdict
from runs.files import has_weights
from runs.records import Run, has_type, read_run, stage_of, texts, title
from schema import configs
from schema.configs import WITHOUT_SIGNAL
from schema.sections import flat
from schema.stages import STAGES

SEED = r"seed-\d{1,10}"


class HeldOut(NamedTuple):
    """The answers to the held-out problems of the model that a run began with, and of its own."""

    before: Answered
    after: Answered


class Arm(NamedTuple):
    """A run, or the seeds of one recipe. `held_out`: the evaluation of each run, or why it has
    none."""

    name: str
    runs: list[Run]
    held_out: list[HeldOut | str]


def read_arms(places: Sequence[str]) -> list[Arm]:
    """The runs that a user names. A place is a run's own folder, the folder above it, or the folder
    of a recipe's seeds. Raises RecipeError where there is no such finished run, or fewer than two
    arms."""
    folders: dict[tuple[Path, str], dict[Path, Path]] = {}
    for place in map(Path, places):
        for run in _runs_in(place):
            key = (run, "")
            if re.fullmatch(SEED, run.parent.name):
                key = (run.parent.parent, run.name)
            folders.setdefault(key, {}).setdefault(run.resolve(), run)
    if len(folders) < 2:
        raise RecipeError(['RUNS: name two runs or more, RUNS="outputs/a outputs/b"'])
    arms = []
    for members in folders.values():
        runs = list(map(read_run, members.values()))
        _require_one_recipe(runs)
        arms.append(Arm(_name(runs), runs, list(map(held_out, runs))))
    return arms


def _runs_in(place: Path) -> list[Path]:
    """The folder of the run that a place names, or those of a recipe's seeds."""
    for folder in (place / "grpo", place):
        if _is_run(folder):
            return [folder]
    seeds = list(filter(_is_run, place.glob("seed-*/grpo")))
    if seeds:
        return sorted(seeds, key=lambda run: (len(run.parent.name), run.parent.name))
    runs = [str(file.parents[1]) for file in Path("outputs").glob("*/grpo/summary.json")]
    advice = "make grpo makes one"
    if runs:
        advice = f"there are: {', '.join(sorted(runs)[:8])}"
    message = f"RUNS: {place} is no folder of a finished run, or of a recipe's seeds; {advice}"
    raise RecipeError([message])


def _is_run(folder: Path) -> bool:
    names = ("summary.json", "metrics.jsonl", "recipe.yaml")
    return all((folder / name).is_file() for name in names)


def _name(runs: list[Run]) -> str:
    """`tiny-arithmetic` of outputs/tiny-arithmetic/grpo, `tiny-arithmetic/sft` of its warm start,
    `tiny-arithmetic/seed-*` and `tiny-arithmetic/seed-*/sft` of several seeds."""
    path = title(runs[0].folder).removesuffix("/grpo")
    if len(runs) > 1:
        path = re.sub(rf"(^|/){SEED}(/\w+)?$", r"\1seed-*\2", path)
    return path.strip("/")


def completions(run: Run) -> int | None:
    """How many completions a run cost: those it sampled. A warm start counts the completions for
    its own solutions."""
    if run.folder.name == "sft":
        sampled = run.summary.get("own_solutions", {}).get("completions", 0)
        return sampled if has_type(sampled, int) else None
    steps = run.summary.get("steps")
    if steps is None:
        return None
    return run.completions_until(steps)


def held_out(run: Run) -> HeldOut | str:
    """The answers to held-out problems of a run and of the model it began with; or the reason why
    they cannot be used."""
    folder = run.folder.parent / "eval/held-out"
    after = stage_of(run.folder)
    labels = []
    for label in dict.fromkeys(("base", "sft", after)):
        if (folder / f"{label}.jsonl").is_file():
            labels.append(label)
    if after not in labels or len(labels) < 2:
        return "not evaluated"
    try:
        models = report.compare(folder, labels)
    except ValueError:
        return "its answers cannot be compared"
    if not has_weights(run.folder, models[after].terms):
        return "evaluated with other weights"
    return HeldOut(models[labels[-2]], models[after])


def recipe_values(run: Run, filled: Iterable[str] = STAGES) -> dict[str, object]:
    """The values of a run's recipe by `section.key`, and its hardware, without seed and folder. The
    sections `filled` have our defaults or trl's where the recipe sets nothing."""
    recipe = dict(run.recipe)
    for key in ("seed", "output_dir"):
        recipe.pop(key, None)
    for section in filled:
        if isinstance(recipe.get(section), dict):
            defaults = configs.defaults(section) | configs.shared_defaults(section)
            recipe[section] = defaults | recipe[section]
    recipe["hardware"] = texts(run.versions.get("hardware")) or None
    values = flat(recipe)
    key = "data.own_solutions.model"
    if key in values:  # Each seed samples a warm start of its own.
        values[key] = re.sub(SEED, "seed-*", str(values[key]))
    return values


def _differing(recipes: list[dict]) -> dict[str, list]:
    """The keys whose values are not the same in all recipes, with these values."""
    differing = {}
    for key in dict.fromkeys(chain(*recipes)):
        values = [recipe.get(key) for recipe in recipes]
        if values.count(values[0]) < len(values):
            differing[key] = values
    return differing


def _require_one_recipe(runs: list[Run]):
    first = runs[0]
    if len({str(run.recipe.get("seed")) for run in runs}) < len(runs):
        raise RecipeError([f"{first.folder.parent.parent} has two runs of the same seed"])
    for run in runs[1:]:
        differing = _differing([recipe_values(first), recipe_values(run)])
        differing.pop("hardware", None)
        if differing:
            both = f"{first.folder} and {run.folder}"
            message = f"{both} are not seeds of one recipe: they differ in {', '.join(differing)}"
            raise RecipeError([message])


# The comparison -----------------------------------------------------------------------------------


def table(arms: list[Arm]) -> list[str]:
    """Markdown: a row for each arm, what differs in their recipes, and the difference of each to
    the first."""
    head = ["run", "seeds", "steps", "completions", "held-out n", "before → after", "tokens"]
    head += ["groups without signal", "time"]
    lines = terminal.table([head, *map(_cells, arms)])
    first_runs = [arm.runs[0] for arm in arms]
    # A section that only some recipes have is not filled: its hundred defaults would all differ.
    shared = []
    for section in STAGES:
        if all(isinstance(run.recipe.get(section), dict) for run in first_runs):
            shared.append(section)
    recipes = [recipe_values(run, shared) for run in first_runs]
    settings = [["setting", *(arm.name for arm in arms)]]
    for key, values in _differing(recipes).items():
        settings.append([code(key), *map(_setting_cell, values)])
    if len(settings) > 1:
        lines += ["", *terminal.table(settings)]
    lines.append("")
    for arm in arms[1:]:
        lines.append(f"- {arms[0].name} → {arm.name}: {difference(arms[0], arm)}")
    return lines


def _setting_cell(value: object) -> str:
    return "" if value is None else code(run_pages.reduced(value), 60)


def _cells(arm: Arm) -> list[str]:
    return [
        arm.name,
        " ".join(map(str, _by_seed(arm))),
        _mean(arm, lambda run: run.summary.get("steps"), "{:,.0f}".format),
        _mean(arm, completions, "{:,.0f}".format),
        *_held_out_cells(arm),
        _mean(arm, _without_signal, "{:.1%}".format),
        _mean(arm, run_pages.seconds, duration),
    ]


def _mean(arm: Arm, measure: Callable[[Run], float | None], form: Callable[[float], str]) -> str:
    """The mean of a measure over the runs of an arm; empty where a run has none."""
    values = list(map(measure, arm.runs))
    if None in values:
        return ""
    return form(sum(values) / len(values))


def _without_signal(run: Run) -> float | None:
    """The mean share of groups without signal, over the steps that were logged."""
    shares = [line[WITHOUT_SIGNAL] for line in run.metrics if WITHOUT_SIGNAL in line]
    return sum(shares) / len(shares) if shares else None


def _held_out_cells(arm: Arm) -> list[str]:
    """The number of problems; accuracy before and after, each with its interval, which for several
    runs is over their seeds; and the mean length of an answer before and after."""
    before = []
    after = []
    for evaluation in arm.held_out:
        if isinstance(evaluation, str):
            return ["", evaluation, ""]
        before.append(evaluation.before.figures)
        after.append(evaluation.after.figures)
    before = pd.DataFrame(before)
    after = pd.DataFrame(after)
    sizes = dict.fromkeys([after["n"].min(), after["n"].max()])
    return [
        " to ".join(map(str, sizes)),
        f"{_accuracy(before)} → {_accuracy(after)}",
        f"{before['mean_tokens'].mean():.0f} → {after['mean_tokens'].mean():.0f}",
    ]


def _accuracy(figures: pd.DataFrame) -> str:
    """The accuracy of one run with its interval, or the mean of several."""
    if len(figures) == 1:
        return f"{figures['accuracy'][0]:.1%} ({from_to(figures['interval_95'][0])})"
    mean, half = over_seeds(figures["accuracy"].tolist())
    return f"{mean:.1%} ± {100 * half:.1f}"


def _by_seed(arm: Arm) -> dict[int, HeldOut | str]:
    by_seed = {}
    for run, evaluation in zip(arm.runs, arm.held_out, strict=True):
        seed = run.recipe.get("seed")
        if has_type(seed, int):
            by_seed[seed] = evaluation
    return by_seed


def difference(first: Arm, second: Arm) -> str:
    """What the second arm reached beyond the first, on the same held-out problems. Arms with two or
    more seeds in common are compared over these, each seed with itself; arms with one are compared
    over its problems."""
    first_by_seed = _by_seed(first)
    second_by_seed = _by_seed(second)
    common = sorted(first_by_seed.keys() & second_by_seed.keys())
    if not common:
        return "not compared: no seed in common, so other warm starts"
    gains = []
    for seed in common:
        reason = _not_comparable(first_by_seed[seed], second_by_seed[seed])
        if reason:
            return f"not compared: {reason}"
        first_model = first_by_seed[seed].after
        second_model = second_by_seed[seed].after
        ids = sorted(first_model.problems.keys() & second_model.problems.keys())
        shares = (first_model.shares(ids=ids), second_model.shares(ids=ids))
        gains.append(fmean(shares[1]) - fmean(shares[0]))
    if len(common) > 1:
        return f"{seeds_verdict(gains)} over {len(common)} seeds in common"
    if len(first.runs) + len(second.runs) > 2:
        return f"seed {common[0]} alone: {verdict(*shares)}"
    return verdict(*shares)


def _not_comparable(first: HeldOut | str, second: HeldOut | str) -> str | None:
    """Why two runs cannot be compared; None where they can."""
    for evaluation in (first, second):
        if isinstance(evaluation, str):
            return evaluation
    differing = report.differing_settings(first.after.terms, second.after.terms)
    if differing or not first.after.problems.keys() & second.after.problems.keys():
        return f"they were asked differently ({', '.join(differing) or 'other problems'})"
    return None
