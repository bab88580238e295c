"""Finished runs side by side, from the files in their folders alone: what differs in their recipes,
what each cost and reached, and the differences between them on the same held-out problems. The
seeds of one recipe, as `make seeds` leaves them, are one arm, with a mean and an interval over
seeds."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from console.faults import RecipeError
from console.terminal import code, duration, row
from evaluation import pictures, report, run_pages
from evaluation.statistics import over_seeds, seeds_verdict, verdict
from runs.folder import Run, has_type, read_run, texts, title, weights_hash
from schema import configs
from schema.configs import ACCURACY, WITHOUT_SIGNAL
from schema.sections import flat
from schema.stages import CHAINS, STAGES
from training.writing import link_inside

SEED = r"seed-\d{1,10}"
LAST_FIRST = CHAINS[::-1]
TITLES = {
    "rewards/correct_answer/mean": "right in training",
    ACCURACY: "right of the held-out problems",
}


class HeldOut(NamedTuple):
    """Answers to the held-out problems. `before`, `after`: the label of the model that the run
    began with, and its own. `right`: of the latter, by a problem's id, the share of its answers
    that are right."""

    terms: dict
    figures: dict[str, dict]
    before: str
    after: str
    right: dict[int, float]


class Arm(NamedTuple):
    """A run, or the seeds of one recipe. `held_out`: the evaluation of each, or why there is
    none."""

    name: str
    runs: list[Run]
    held_out: list[HeldOut | str]


def read_arms(named: Sequence[str]) -> list[Arm]:
    """The runs that are named, each by its own folder or the one above it, or by the folder of a
    recipe's seeds.

    Raises:
        RecipeError: there is no such run, it is not finished, or there are fewer than two arms.
    """
    folders: dict[tuple[Path, str], list[Path]] = {}
    for place in map(Path, named):
        runs = _runs_in(place)
        if not runs:
            raise RecipeError([_no_run(place)])
        for run in runs:
            of_seed = re.fullmatch(SEED, run.parent.name)
            key = (run.parent.parent, run.name) if of_seed else (run, "")
            arm = folders.setdefault(key, [])
            if run.resolve() not in [member.resolve() for member in arm]:
                arm.append(run)
    if len(folders) < 2:
        raise RecipeError(['RUNS: name two runs or more, RUNS="outputs/a outputs/b"'])
    return [_arm(runs) for runs in folders.values()]


def _runs_in(place: Path) -> list[Path]:
    """The folder of the run that a place names, or those of a recipe's seeds."""
    for folder in (*(place / stage for stage in LAST_FIRST), place):
        if _is_run(folder):
            return [folder]
    for stage in LAST_FIRST:
        seeds = [folder for folder in place.glob(f"seed-*/{stage}") if _is_run(folder)]
        if seeds:
            return sorted(seeds, key=_number)
    return []


def _no_run(place: Path) -> str:
    files = Path("outputs").glob("*/*/summary.json")
    runs = sorted({str(file.parents[1]) for file in files if file.parent.name in LAST_FIRST})
    instead = f"there are: {', '.join(runs[:8])}" if runs else "make grpo makes one"
    return f"RUNS: {place} is no folder of a finished run, or of a recipe's seeds; {instead}"


def _arm(folders: list[Path]) -> Arm:
    runs = [read_run(folder) for folder in folders]
    _require_one_recipe(runs)
    return Arm(_name(folders), runs, [held_out(run) for run in runs])


def _is_run(folder: Path) -> bool:
    names = ("summary.json", "metrics.jsonl", "recipe.yaml")
    return all((folder / name).is_file() for name in names)


def _number(run: Path) -> int:
    return int(run.parent.name.removeprefix("seed-")) if re.fullmatch(SEED, run.parent.name) else -1


def _name(runs: list[Path]) -> str:
    """`tiny-arithmetic` of outputs/tiny-arithmetic/grpo, `tiny-arithmetic/sft` of its warm start,
    `tiny-arithmetic/seed-*` and `tiny-arithmetic/seed-*/sft` of several seeds."""
    folder, stage = (
        (runs[0].parent, "") if runs[0].name == "grpo" else (runs[0], f"/{runs[0].name}")
    )
    several = f"{title(runs[0].parent.parent)}/seed-*{stage}"
    return (title(folder) if len(runs) == 1 else several).strip("/")


def completions(run: Run) -> int | None:
    """How many it cost: that it sampled; a warm start, for solutions of its own; of a stage that
    learns from a run, by that run."""
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
    """The answers to held-out problems of a run and of what it began with; or why they say nothing
    of it."""
    folder = run.folder.parent / "eval/held-out"
    own = run.folder.name if run.folder.name in STAGES else "grpo"
    before = [
        each for each in ("base", "sft") if each != own
    ]  # what it began with is the last of them
    labels = [each for each in (*before, own) if (folder / f"{each}.jsonl").is_file()]
    if own not in labels or len(labels) < 2:
        return "not evaluated"
    if link_inside(folder):
        return "its evaluation holds a link"
    try:
        terms, answers, figures, _ = report.compare(folder, labels)
    except ValueError:
        return "its answers cannot be compared"
    if terms[own].get("weights") != weights_hash(run.folder):
        return "evaluated with other weights, or before it was copied"
    right = {
        each[0]["id"]: sum(item["right"] is True for item in each) / len(each)
        for each in answers[own]
    }
    return HeldOut(terms[own], figures, labels[-2], own, right)


def recipe_values(run: Run, filled: Sequence[str] = tuple(STAGES)) -> dict[str, object]:
    """Everything in a run's recipe but its seed and folder, with our defaults or trl's in the
    sections `filled`, by `section.key`; and its hardware."""
    recipe = {key: value for key, value in run.recipe.items() if key not in ("seed", "output_dir")}
    for section in filled:
        if isinstance(recipe.get(section), dict):
            recipe[section] = (
                configs.defaults(section) | configs.shared_defaults(section) | recipe[section]
            )
    hardware = texts(run.versions.get("hardware")) or None
    found, own = flat(recipe | {"hardware": hardware}), "data.own_solutions.model"
    # Each seed samples a warm start of its own.
    return found | ({own: re.sub(SEED, "seed-*", str(found[own]))} if own in found else {})


def _differing(recipes: list[dict]) -> list[str]:
    keys = dict.fromkeys(key for each in recipes for key in each)
    return [key for key in keys if any(each.get(key) != recipes[0].get(key) for each in recipes)]


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
    lines = [
        row(head),
        row(["---", *["---:"] * (len(head) - 1)]),
        *(row(_cells(arm)) for arm in arms),
    ]
    recipes = [arm.runs[0].recipe for arm in arms]
    # Where one has no such section, a hundred defaults of the other say nothing.
    shared = [
        section
        for section in STAGES
        if all(isinstance(each.get(section), dict) for each in recipes)
    ]
    found = [recipe_values(arm.runs[0], shared) for arm in arms]
    if differing := _differing(found):
        lines += [
            "",
            row(["setting", *(arm.name for arm in arms)]),
            row(["---", *["---:"] * len(arms)]),
        ]
        lines += [row([code(key), *(_told(each.get(key)) for each in found)]) for key in differing]
    return [
        *lines,
        "",
        *(f"- {arms[0].name} → {arm.name}: {difference(arms[0], arm)}" for arm in arms[1:]),
    ]


def _told(value: object) -> str:
    return "" if value is None else code(run_pages.reduced(value), 60)


def _cells(arm: Arm) -> list[str]:
    signal = []
    for run in arm.runs:
        shares = [line[WITHOUT_SIGNAL] for line in run.metrics if WITHOUT_SIGNAL in line]
        signal.append(sum(shares) / len(shares) if shares else None)
    seeds = [run.recipe.get("seed") for run in arm.runs]
    return [
        arm.name,
        " ".join(str(seed) for seed in seeds if has_type(seed, int)),
        _mean([run.summary.get("steps") for run in arm.runs], "{:,.0f}".format),
        _mean([completions(run) for run in arm.runs], "{:,.0f}".format),
        *_held_out_cells(arm),
        _mean(signal, "{:.1%}".format),
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
    accuracies, tokens = [], []
    for figures in (
        [evaluation.figures[evaluation.before] for evaluation in arm.held_out],
        [evaluation.figures[evaluation.after] for evaluation in arm.held_out],
    ):
        if len(figures) == 1:
            low, high = figures[0]["interval_95"]
            accuracies.append(f"{figures[0]['accuracy']:.1%} ({low:.1%} to {high:.1%})")
        else:
            mean, half = over_seeds([each["accuracy"] for each in figures])
            accuracies.append(f"{mean:.1%} ± {100 * half:.1f}")
        tokens.append(f"{sum(each['mean_tokens'] for each in figures) / len(figures):.0f}")
    sizes = {evaluation.figures[evaluation.after]["n"] for evaluation in arm.held_out}
    size = " to ".join(str(n) for n in sorted({min(sizes), max(sizes)}))
    return [size, " → ".join(accuracies), " → ".join(tokens)]


def _by_seed(arm: Arm) -> dict[int, HeldOut | str]:
    seeds = [run.recipe.get("seed") for run in arm.runs]
    pairs = zip(seeds, arm.held_out, strict=True)
    return {seed: evaluation for seed, evaluation in pairs if has_type(seed, int)}


def difference(first: Arm, other: Arm) -> str:
    """What an arm reached beyond the first, on the same held-out problems: over seeds, each with
    itself, where both have two or more in common; otherwise over the problems of the one they
    have."""
    ours, theirs = _by_seed(first), _by_seed(other)
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return "not compared: no seed in common, so other warm starts"
    pairs = [(ours[seed], theirs[seed]) for seed in common]
    for pair in pairs:
        for evaluation in pair:
            if isinstance(evaluation, str):
                return f"not compared: {evaluation}"
        a, b = pair
        differing = report.different(a.terms, b.terms)
        if differing or not a.right.keys() & b.right.keys():
            return (
                "not compared: they were asked differently"
                f" ({', '.join(differing) or 'other problems'})"
            )
    shares = [
        [[each.right[i] for i in sorted(a.right.keys() & b.right.keys())] for each in (a, b)]
        for a, b in pairs
    ]
    if len(common) == 1:
        alone = f"seed {common[0]} alone: " if len(first.runs) + len(other.runs) > 2 else ""
        return alone + verdict(*shares[0])
    gains = [sum(after) / len(after) - sum(before) / len(before) for before, after in shares]
    return f"{seeds_verdict(gains)} over {len(common)} seeds in common"


# The picture --------------------------------------------------------------------------------------


def draw(file: Path, arms: list[Arm]) -> bool:
    """Draw what the runs logged of `correct_answer`, in training and on held-out problems, over the
    completions that each had sampled, or over the steps where that is not known of all; and say
    whether there was anything to draw."""
    runs = [run for arm in arms for run in arm.runs]
    keys = [key for key in TITLES if any(_logged(run, key) for run in runs)]
    if not keys:
        return False
    drawn = [run for run in runs if any(_logged(run, key) for key in keys)]
    by_completions = all(run.completions_until(1) is not None for run in drawn)
    figure = pictures.canvas(max(4.5 * len(keys), 6), 3.6)
    for key, axes in zip(keys, figure.subplots(1, len(keys), squeeze=False).flat, strict=True):
        for number, arm in enumerate(arms):
            label = pictures.drawn(arm.name[-32:])
            for run in arm.runs:
                lines = _logged(run, key)
                x = [line["step"] for line in lines]
                if by_completions:
                    x = [run.completions_until(step) for step in x]
                style = "-" if number < 10 else "--"
                y = [line[key] for line in lines]
                axes.plot(x, y, style, color=f"C{number % 10}", linewidth=1.3, label=label)
                label = None  # once for all seeds
        axis = "completions sampled" if by_completions else "step"
        axes.set(title=TITLES[key], xlabel=axis, ylim=(-0.02, 1.02))
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.legend(fontsize=7, frameon=False, loc="lower right")
    pictures.save(figure, file)
    return True


def _logged(run: Run, key: str) -> list[dict]:
    return [line for line in run.metrics if key in line]
