"""Finished runs side by side, from the files in their folders alone: what differs in their recipes,
what each cost and reached, and how their accuracies differ on the same held-out problems. The seeds
of one recipe, as `make seeds` writes them, are one arm, with a mean and an interval over seeds."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from console.faults import RecipeError
from console.terminal import code, duration, row
from evaluation import report, run_pages
from evaluation.statistics import over_seeds, seeds_verdict, verdict
from runs.folder import Run, has_type, read_run, texts, title, weights_hash
from schema import configs
from schema.configs import WITHOUT_SIGNAL
from schema.sections import flat
from schema.stages import CHAINS, STAGES
from training.writing import link_inside

SEED = r"seed-\d{1,10}"
LAST_FIRST = CHAINS[::-1]


class HeldOut(NamedTuple):
    """A run's answers to the held-out problems.

    Attributes:
        terms: the settings its answers depend on.
        figures: the figures of every model that was evaluated, by its label.
        before: the label of the model that the run began with.
        after: the label of the run's own model.
        right: by a problem's id, the share of the run's answers that are right.
    """

    terms: dict
    figures: dict[str, dict]
    before: str
    after: str
    right: dict[int, float]


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
    folders: dict[tuple[Path, str], list[Path]] = {}
    for place in map(Path, places):
        for run in _runs_in(place):
            is_seed = re.fullmatch(SEED, run.parent.name)
            key = (run.parent.parent, run.name) if is_seed else (run, "")
            arm = folders.setdefault(key, [])
            if run.resolve() not in [member.resolve() for member in arm]:
                arm.append(run)
    if len(folders) < 2:
        raise RecipeError(['RUNS: name two runs or more, RUNS="outputs/a outputs/b"'])
    arms = []
    for members in folders.values():
        runs = [read_run(folder) for folder in members]
        _require_one_recipe(runs)
        arms.append(Arm(_name(members), runs, [held_out(run) for run in runs]))
    return arms


def _runs_in(place: Path) -> list[Path]:
    """The folder of the run that a place names, or those of a recipe's seeds."""
    for folder in (*(place / stage for stage in LAST_FIRST), place):
        if _is_run(folder):
            return [folder]
    for stage in LAST_FIRST:
        seeds = [folder for folder in place.glob(f"seed-*/{stage}") if _is_run(folder)]
        if seeds:
            return sorted(seeds, key=lambda run: (len(run.parent.name), run.parent.name))
    summaries = Path("outputs").glob("*/*/summary.json")
    runs = sorted({str(file.parents[1]) for file in summaries if file.parent.name in LAST_FIRST})
    advice = f"there are: {', '.join(runs[:8])}" if runs else "make grpo makes one"
    message = f"RUNS: {place} is no folder of a finished run, or of a recipe's seeds; {advice}"
    raise RecipeError([message])


def _is_run(folder: Path) -> bool:
    names = ("summary.json", "metrics.jsonl", "recipe.yaml")
    return all((folder / name).is_file() for name in names)


def _name(runs: list[Path]) -> str:
    """`tiny-arithmetic` of outputs/tiny-arithmetic/grpo, `tiny-arithmetic/sft` of its warm start,
    `tiny-arithmetic/seed-*` and `tiny-arithmetic/seed-*/sft` of several seeds."""
    path = title(runs[0]).removesuffix("/grpo")
    if len(runs) > 1:
        path = re.sub(rf"(^|/){SEED}(/\w+)?$", r"\1seed-*\2", path)
    return path.strip("/")


def completions(run: Run) -> int | None:
    """How many completions a run cost: those it sampled. A warm start counts the completions for
    its own solutions; a stage that learns from another run counts that run's."""
    if run.folder.name == "sft":
        sampled = run.summary.get("own_solutions", {}).get("completions", 0)
        return sampled if has_type(sampled, int) else None
    stage = STAGES.get(run.folder.name)
    if stage and stage.learns_from:
        source = run.folder.with_name(stage.learns_from)
        return completions(read_run(source)) if _is_run(source) else None
    steps = run.summary.get("steps")
    return None if steps is None else run.completions_until(steps)


def held_out(run: Run) -> HeldOut | str:
    """The answers to held-out problems of a run and of the model it began with; or the reason why
    they cannot be used."""
    folder = run.folder.parent / "eval/held-out"
    after = run.folder.name if run.folder.name in STAGES else "grpo"
    stages = [stage for stage in ("base", "sft") if stage != after]
    labels = [label for label in (*stages, after) if (folder / f"{label}.jsonl").is_file()]
    if after not in labels or len(labels) < 2:
        return "not evaluated"
    if link_inside(folder):
        return "its evaluation holds a link"
    try:
        comparison = report.compare(folder, labels)
    except ValueError:
        return "its answers cannot be compared"
    terms = comparison.terms[after]
    if terms.get("weights") != weights_hash(run.folder):
        return "evaluated with other weights, or before it was copied"
    answers = comparison.answers[after]
    ids = [samples[0]["id"] for samples in answers]
    shares = dict(zip(ids, report.shares_of(answers), strict=True))
    before = labels[-2]  # the last stage before the run's own
    return HeldOut(terms, comparison.figures, before, after, shares)


def recipe_values(run: Run, filled: Sequence[str] = tuple(STAGES)) -> dict[str, object]:
    """The values of a run's recipe by `section.key`, and its hardware, without seed and folder. The
    sections `filled` have our defaults or trl's where the recipe sets nothing."""
    recipe = {key: value for key, value in run.recipe.items() if key not in ("seed", "output_dir")}
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


def _differing(recipes: list[dict]) -> list[str]:
    """The keys whose values are not the same in all recipes."""
    keys = dict.fromkeys(key for recipe in recipes for key in recipe)
    first = recipes[0]
    return [key for key in keys if any(recipe.get(key) != first.get(key) for recipe in recipes)]


def _require_one_recipe(runs: list[Run]):
    first = runs[0]
    if len({str(run.recipe.get("seed")) for run in runs}) < len(runs):
        raise RecipeError([f"{first.folder.parent.parent} has two runs of the same seed"])
    for run in runs[1:]:
        differing = _differing([recipe_values(first), recipe_values(run)])
        differing = [key for key in differing if key != "hardware"]
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
    lines = _markdown_table([head, *map(_cells, arms)])
    # A section that only some recipes have is not filled: its hundred defaults would all differ.
    shared = []
    for section in STAGES:
        if all(isinstance(arm.runs[0].recipe.get(section), dict) for arm in arms):
            shared.append(section)
    recipes = [recipe_values(arm.runs[0], shared) for arm in arms]
    settings = [["setting", *(arm.name for arm in arms)]]
    for key in _differing(recipes):
        settings.append([code(key), *(_setting_cell(recipe.get(key)) for recipe in recipes)])
    if len(settings) > 1:
        lines += ["", *_markdown_table(settings)]
    lines.append("")
    for arm in arms[1:]:
        lines.append(f"- {arms[0].name} → {arm.name}: {difference(arms[0], arm)}")
    return lines


def _markdown_table(rows: list[list[str]]) -> list[str]:
    """The rows as Markdown, the first of them the head."""
    ruler = ["---", *["---:"] * (len(rows[0]) - 1)]
    return [row(cells) for cells in [rows[0], ruler, *rows[1:]]]


def _setting_cell(value: object) -> str:
    return "" if value is None else code(run_pages.reduced(value), 60)


def _cells(arm: Arm) -> list[str]:
    without_signal = []
    for run in arm.runs:
        shares = [line[WITHOUT_SIGNAL] for line in run.metrics if WITHOUT_SIGNAL in line]
        without_signal.append(sum(shares) / len(shares) if shares else None)
    seeds = [run.recipe.get("seed") for run in arm.runs]
    return [
        arm.name,
        " ".join(str(seed) for seed in seeds if has_type(seed, int)),
        _mean([run.summary.get("steps") for run in arm.runs], "{:,.0f}".format),
        _mean([completions(run) for run in arm.runs], "{:,.0f}".format),
        *_held_out_cells(arm),
        _mean(without_signal, "{:.1%}".format),
        _mean([run_pages.seconds(run) for run in arm.runs], duration),
    ]


def _mean(values: list, form: Callable[[float], str]) -> str:
    return "" if None in values else form(sum(values) / len(values))


def _held_out_cells(arm: Arm) -> list[str]:
    """The number of problems; accuracy before and after, each with its interval, which for several
    runs is over their seeds; and the mean length of an answer before and after."""
    for evaluation in arm.held_out:
        if isinstance(evaluation, str):
            return ["", evaluation, ""]
    before = [evaluation.figures[evaluation.before] for evaluation in arm.held_out]
    after = [evaluation.figures[evaluation.after] for evaluation in arm.held_out]
    sizes = [figures["n"] for figures in after]
    size = " to ".join(str(n) for n in sorted({min(sizes), max(sizes)}))
    return [
        size,
        f"{_accuracy(before)} → {_accuracy(after)}",
        f"{_mean_tokens(before):.0f} → {_mean_tokens(after):.0f}",
    ]


def _accuracy(figures: list[dict]) -> str:
    """The accuracy of one run with its interval, or the mean of several."""
    if len(figures) == 1:
        low, high = figures[0]["interval_95"]
        return f"{figures[0]['accuracy']:.1%} ({low:.1%} to {high:.1%})"
    mean, half = over_seeds([run_figures["accuracy"] for run_figures in figures])
    return f"{mean:.1%} ± {100 * half:.1f}"


def _mean_tokens(figures: list[dict]) -> float:
    return sum(run_figures["mean_tokens"] for run_figures in figures) / len(figures)


def _by_seed(arm: Arm) -> dict[int, HeldOut | str]:
    seeds = [run.recipe.get("seed") for run in arm.runs]
    pairs = zip(seeds, arm.held_out, strict=True)
    return {seed: evaluation for seed, evaluation in pairs if has_type(seed, int)}


def difference(first: Arm, second: Arm) -> str:
    """What the second arm reached beyond the first, on the same held-out problems. Arms with two or
    more seeds in common are compared over these, each seed with itself; arms with one are compared
    over its problems."""
    first_by_seed = _by_seed(first)
    second_by_seed = _by_seed(second)
    common = sorted(first_by_seed.keys() & second_by_seed.keys())
    if not common:
        return "not compared: no seed in common, so other warm starts"
    pairs = [(first_by_seed[seed], second_by_seed[seed]) for seed in common]
    for pair in pairs:
        reason = _not_comparable(*pair)
        if reason:
            return f"not compared: {reason}"
    shares = [_shares_in_common(*pair) for pair in pairs]
    if len(common) == 1:
        alone = f"seed {common[0]} alone: " if len(first.runs) + len(second.runs) > 2 else ""
        return alone + verdict(*shares[0])
    gains = [sum(after) / len(after) - sum(before) / len(before) for before, after in shares]
    return f"{seeds_verdict(gains)} over {len(common)} seeds in common"


def _not_comparable(first: HeldOut | str, second: HeldOut | str) -> str | None:
    """Why two runs cannot be compared; None where they can."""
    for evaluation in (first, second):
        if isinstance(evaluation, str):
            return evaluation
    differing = report.differing_settings(first.terms, second.terms)
    if differing or not first.right.keys() & second.right.keys():
        return f"they were asked differently ({', '.join(differing) or 'other problems'})"
    return None


def _shares_in_common(first: HeldOut, second: HeldOut) -> tuple[list[float], list[float]]:
    """The shares of right answers of two runs, to the problems that both have answered."""
    problems = sorted(first.right.keys() & second.right.keys())
    return [first.right[i] for i in problems], [second.right[i] for i in problems]
