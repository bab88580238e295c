"""Finished runs side by side, from the files in their folders alone: what differs in their recipes,
what each cost and reached, and how their accuracies differ on the same validation problems. The
seeds of one recipe, as `make seeds` writes them, are one arm, with a mean and an interval over
seeds."""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from console.faults import RecipeError
from evaluation import report, run_pages
from evaluation.pages import page
from evaluation.report import Answered
from evaluation.statistics import over_seeds, seeds_verdict, verdict
from runs.files import has_weights
from runs.records import stage_of, title, validation_folder
from runs.state import RunState, read_run
from schema.configs import SECTIONS, STEP, ZERO_VARIANCE, flat
from schema.settings import to_show

SEED = r"seed-\d{1,10}"


class Arm(NamedTuple):
    """A run, or the seeds of one recipe. `validation`: of each run the answers to validation
    problems, or why it has none: those of the models before it by their labels, and last its
    own."""

    name: str
    runs: list[RunState]
    validation: list[dict[str, Answered] | str]


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
        arms.append(_arm(list(members.values())))
    return arms


def read_seeds(folder: Path, seeds: list[int]) -> Arm:
    """The runs that `make seeds` wrote below a recipe's folder. Raises RecipeError where one is not
    there, or they were not compared on the same problems and stages."""
    runs = []
    for seed in seeds:
        run = folder / f"seed-{seed}" / "grpo"
        if not _is_run(run):
            raise RecipeError([f"{run} holds no finished run: make seeds makes it"])
        runs.append(run)
    arm = _arm(runs)
    evaluations = set()
    for run, models in zip(runs, arm.validation, strict=True):
        if isinstance(models, str):
            message = f"{validation_folder(run)}: {models}; delete it, and make seeds writes it"
            raise RecipeError([message])
        evaluations.add((_size(models), *models))
    if len(evaluations) > 1:
        message = f"the seeds in {folder} were not compared on the same problems and stages"
        raise RecipeError([message])
    return arm


def _arm(folders: list[Path]) -> Arm:
    runs = list(map(read_run, folders))
    _require_one_recipe(runs)
    return Arm(_name(runs), runs, list(map(validation_completions, runs)))


def _size(models: dict[str, Answered]) -> int:
    """The number of problems that the models answered."""
    return next(reversed(models.values())).figures["n"]


def _runs_in(place: Path) -> list[Path]:
    """The folder of the run that a place names, or those of a recipe's seeds."""
    for folder in (place / "grpo", place / "distill", place):
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


def _name(runs: list[RunState]) -> str:
    """`tiny-arithmetic` of outputs/tiny-arithmetic/grpo, `tiny-arithmetic/sft` of its warm start,
    `tiny-arithmetic/seed-*` and `tiny-arithmetic/seed-*/sft` of several seeds."""
    path = title(runs[0].folder).removesuffix("/grpo")
    if len(runs) > 1:
        path = re.sub(rf"(^|/){SEED}(/\w+)?$", r"\1seed-*\2", path)
    return path.strip("/")


def completions(run: RunState) -> int | None:
    """How many completions a run cost: those it sampled. A warm start counts the completions of
    its rejection sampling."""
    stage = run.folder.name
    if stage == "sft":
        return run.summary.get("rejection_sampling", {}).get("completions", 0)
    steps = run.summary.get("steps")
    if steps is None:
        return None
    if stage == "distill":
        return steps * run.section(stage)[STEP[stage]]
    return run.completions_until(steps)


def seconds(run: RunState) -> float:
    """What a run took: its training, and the sampling of what it learned from."""
    sampling = run.summary.get("rejection_sampling", {}).get("seconds", 0.0)
    return (run_pages.seconds(run) or 0.0) + sampling


def validation_completions(run: RunState) -> dict[str, Answered] | str:
    """The answers to validation problems of the models that a run began with, and last of its own;
    or the reason why they cannot be used."""
    folder = validation_folder(run.folder)
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
    return models


def recipe_values(run: RunState, compared: Iterable[str] = SECTIONS) -> dict[str, object]:
    """The values of a run's recipe by `section.key`, and its hardware, without seed and folder; of
    a library's section that is not among the `compared` ones what `to_show` leaves."""
    recipe = dict(run.recipe)
    for key in ("seed", "output_dir"):
        recipe.pop(key, None)
    for section in SECTIONS:
        if section not in compared and isinstance(recipe.get(section), dict):
            recipe[section] = to_show(section, recipe[section])
    recipe["hardware"] = run.versions.get("hardware")
    values = flat(recipe)
    key = "data.rejection_sampling.model"
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


def _require_one_recipe(runs: list[RunState]):
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


def comparison(arms: list[Arm]) -> str:
    """Markdown: a row for each arm, what differs in their recipes, and the difference of each to
    the first."""
    first_runs = [arm.runs[0] for arm in arms]
    # Of a section that only some recipes have, a hundred defaults would all differ.
    shared = []
    for section in SECTIONS:
        if all(isinstance(run.recipe.get(section), dict) for run in first_runs):
            shared.append(section)
    recipes = [recipe_values(run, shared) for run in first_runs]
    settings = {}
    for key, values in _differing(recipes).items():
        settings[key] = list(map(run_pages.reduced, values))
    differences = [(arm.name, difference(arms[0], arm)) for arm in arms[1:]]
    content = {"arms": list(map(_row, arms)), "settings": settings, "differences": differences}
    return page("compare.md", content)


def _row(arm: Arm) -> dict:
    """What an arm cost and reached, each a mean over its runs."""
    return {
        "name": arm.name,
        "seeds": list(_by_seed(arm)),
        "steps": _mean(arm, lambda run: run.summary.get("steps")),
        "completions": _mean(arm, completions),
        "zero_variance": _mean(arm, _zero_variance),
        "seconds": _mean(arm, run_pages.seconds),
    } | _accuracies(arm)


def _mean(arm: Arm, measure: Callable[[RunState], float | None]) -> float | None:
    """The mean of a measure over the runs of an arm; None where a run has none."""
    values = list(map(measure, arm.runs))
    if None in values:
        return None
    return sum(values) / len(values)


def _zero_variance(run: RunState) -> float | None:
    """The mean share of zero-variance groups, over the steps that were logged."""
    shares = [line[ZERO_VARIANCE] for line in run.metrics if ZERO_VARIANCE in line]
    return sum(shares) / len(shares) if shares else None


def _accuracies(arm: Arm) -> dict:
    """The numbers of problems that its evaluations asked, and the figures of the models before the
    run and of its own; or `why` there are none."""
    before = []
    after = []
    for models in arm.validation:
        if isinstance(models, str):
            return {"why": models, "sizes": [], "models": []}
        *_, earlier, last = models.values()
        before.append(earlier.figures)
        after.append(last.figures)
    sizes = [figures["n"] for figures in after]
    models = [_over_runs(before), _over_runs(after)]
    return {"why": "", "sizes": sorted({min(sizes), max(sizes)}), "models": models}


def _over_runs(figures: list[dict]) -> dict:
    """The mean accuracy and length of one model of each run. `interval`: that of a single run;
    `half_width`: of the interval over several."""
    accuracies = [values["accuracy"] for values in figures]
    mean, half_width = over_seeds(accuracies)
    return {
        "accuracy": mean,
        "interval": figures[0]["interval_95"] if len(figures) == 1 else None,
        "half_width": 100 * half_width,
        "tokens": fmean(values["mean_tokens"] for values in figures),
    }


def _by_seed(arm: Arm) -> dict[int, dict[str, Answered] | str]:
    """The evaluation of each run whose recipe has a seed."""
    by_seed = {}
    for run, models in zip(arm.runs, arm.validation, strict=True):
        seed = run.recipe.get("seed")
        if seed is not None:
            by_seed[seed] = models
    return by_seed


def difference(first: Arm, second: Arm) -> str:
    """What the second arm reached beyond the first, on the same validation problems. Arms with two
    or more seeds in common are compared over these, each seed with itself; arms with one are
    compared over its problems."""
    first_by_seed = _by_seed(first)
    second_by_seed = _by_seed(second)
    common = sorted(first_by_seed.keys() & second_by_seed.keys())
    if not common:
        return "not compared: no seed in common, so other warm starts"
    gains = []
    for seed in common:
        evaluations = (first_by_seed[seed], second_by_seed[seed])
        reason = _not_comparable(*evaluations)
        if reason:
            return f"not compared: {reason}"
        before, after = (list(models.values())[-1] for models in evaluations)
        ids = sorted(before.problems.keys() & after.problems.keys())
        shares = (before.shares(ids=ids), after.shares(ids=ids))
        gains.append(fmean(shares[1]) - fmean(shares[0]))
    if len(common) > 1:
        return f"{seeds_verdict(gains)} over {len(common)} seeds in common"
    if len(first.runs) + len(second.runs) > 2:
        return f"seed {common[0]} alone: {verdict(*shares)}"
    return verdict(*shares)


def _not_comparable(*evaluations: dict[str, Answered] | str) -> str | None:
    """Why two runs cannot be compared; None where they can."""
    for models in evaluations:
        if isinstance(models, str):
            return models
    first, second = (list(models.values())[-1] for models in evaluations)
    differing = report.differing_settings(first.terms, second.terms)
    if differing or not first.problems.keys() & second.problems.keys():
        return f"they were asked differently ({', '.join(differing) or 'other problems'})"
    return None


# The seeds of one recipe --------------------------------------------------------------------------


def over_its_seeds(arm: Arm) -> str:
    """Markdown: the accuracy of each stage by seed, and what each stage gained."""
    accuracies = {}
    for run, models in zip(arm.runs, arm.validation, strict=True):
        by_label = {label: model.figures["accuracy"] for label, model in models.items()}
        accuracies[run.recipe.get("seed")] = by_label
    return seeds_page(accuracies, _size(arm.validation[0]))


def seeds_page(accuracies: dict[int, dict[str, float]], n: int) -> str:
    """The accuracy of each stage by its label, by seed; their means over the seeds, and each gain
    that an evaluation compares, with an interval over the seeds. `n`: the number of problems."""
    seeds = list(accuracies.values())
    labels = list(seeds[0])
    means = []
    gains = []
    if len(seeds) > 1:
        for label in labels:
            mean, half_width = over_seeds([by_label[label] for by_label in seeds])
            means.append((mean, 100 * half_width))
        for before, after in report.compared_pairs(labels):
            sentence = seeds_verdict([by_label[after] - by_label[before] for by_label in seeds])
            gains.append({"before": before, "after": after, "sentence": sentence})
    content = {"n": n, "accuracies": accuracies, "labels": labels, "means": means, "gains": gains}
    return page("seeds.md", content)
