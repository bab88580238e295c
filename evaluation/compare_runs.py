"""Finished runs side by side, from the files in their folders alone: what differs in their recipes,
what each cost and reached, and the differences between them on the same held-out problems. The
seeds of one recipe, as `make seeds` leaves them, are one arm, with a mean and an interval over
seeds."""

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from evaluation import pictures, report, run_pages
from evaluation.statistics import over_seeds, seeds_verdict, verdict
from runs.folder import FinishedRun, is_of, read_metrics, read_run, texts, title, weights_of
from schema import configs
from schema.configs import ACCURACY, RIGHT, WITHOUT_SIGNAL
from schema.faults import RecipeError
from schema.sections import flat
from schema.stages import CHAINS, STAGES
from schema.terminal import code, duration, row
from training.writing import link_inside

SEED = r"seed-\d{1,10}"
LAST_FIRST = CHAINS[::-1]
TITLES = {
    "rewards/correct_answer/mean": "right in training",
    ACCURACY: "right of the held-out problems",
}
# of a curve over seeds: single batches of a run are too few completions to tell arms apart
WINDOWS = 16
BANDS = 3  # arms; the bands of more hide one another


class HeldOut(NamedTuple):
    """Answers to the held-out problems. `before`, `after`: the label of the model that the run
    began with, and its own. `right`: of the latter, by a problem's id, the share of its answers
    that are right."""

    terms: dict
    figures: dict[str, dict]
    before: str
    after: str
    right: dict[int, float]


class ComparedRun(NamedTuple):
    """A finished run. `held_out`: its evaluation, or why there is none."""

    run: FinishedRun
    metrics: list[dict]
    held_out: HeldOut | str

    @property
    def seed(self) -> object:
        return self.run.recipe.get("seed")

    @property
    def completions(self) -> int | None:
        """How many it cost: that it sampled; a warm start, for solutions of its own; of a stage
        that learns from a run, by that run."""
        if self.run.folder.name == "sft":
            found = self.run.summary.get("own_solutions", {}).get("completions", 0)
            return found if is_of(found, int) else None
        stage = STAGES.get(self.run.folder.name)
        if stage and stage.learns_from:
            sampled = self.run.folder.with_name(stage.learns_from)
            return compared_run(sampled).completions if _is_run(sampled) else None
        steps = self.run.summary.get("steps")
        return None if steps is None else self.generated(steps)

    def generated(self, step: int) -> int | None:
        """How many completions it had sampled after so many steps, where that is known. Where an
        epoch ends inside an update, trl makes a shorter one, and the number is a batch too low for
        each."""
        values, count = (
            configs.defaults("grpo") | self.run.section("grpo"),
            self.run.versions.get("processes"),
        )
        keys = ("per_device_train_batch_size", "gradient_accumulation_steps", "num_iterations")
        others = filter(None, (values["steps_per_generation"], values["generation_batch_size"]))
        if not all(
            is_of(each, int) and each > 0
            for each in (count, *(values[key] for key in keys), *others)
        ):
            return None
        sampled = configs.generation(values, count)
        return sampled.completions * math.ceil(
            step * values["gradient_accumulation_steps"] / sampled.cycle
        )


class Arm(NamedTuple):
    name: str
    runs: list[ComparedRun]


def read(named: Sequence[str]) -> list[Arm]:
    """The runs that are named, each by its own folder or the one above it, or by the folder of a
    recipe's seeds.

    Raises:
        RecipeError: there is no such run, it is not finished, or there are fewer than two arms.
    """
    folders: dict[tuple[Path, str], list[Path]] = {}
    for each in named:
        place = Path(each)
        one = next(
            (p for p in (*(place / stage for stage in LAST_FIRST), place) if _is_run(p)), None
        )
        seeds = [
            sorted(filter(_is_run, place.glob(f"seed-*/{stage}")), key=_number)
            for stage in LAST_FIRST
        ]
        found = [one] if one else next(filter(None, seeds), None)
        if not found:
            files = Path("outputs").glob("*/*/summary.json")
            runs = sorted(
                {str(file.parents[1]) for file in files if file.parent.name in LAST_FIRST}
            )
            instead = f"there are: {', '.join(runs[:8])}" if runs else "make grpo makes one"
            message = (
                f"RUNS: {each} is no folder of a finished run, or of a recipe's seeds; {instead}"
            )
            raise RecipeError([message])
        for run in found:
            of_seed = re.fullmatch(SEED, run.parent.name) is not None
            arm = folders.setdefault((run.parent.parent, run.name) if of_seed else (run, ""), [])
            arm += [run] if run.resolve() not in [other.resolve() for other in arm] else []
    if len(folders) < 2:
        raise RecipeError(['RUNS: name two runs or more, RUNS="outputs/a outputs/b"'])
    return [
        Arm(_name(runs), _seeds_of_one_recipe(list(map(compared_run, runs))))
        for runs in folders.values()
    ]


def _is_run(folder: Path) -> bool:
    return all(
        (folder / name).is_file() for name in ("summary.json", "metrics.jsonl", "recipe.yaml")
    )


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


def compared_run(folder: Path) -> ComparedRun:
    """A run, from the files in its folder and in `eval/held-out` beside it.

    Raises:
        RecipeError: it is not finished, or a file is not what a run wrote.
    """
    run = read_run(folder)
    return ComparedRun(run, read_metrics(folder), held_out(run))


def held_out(run: FinishedRun) -> HeldOut | str:
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
    if terms[own].get("weights") != weights_of(run.folder):
        return "evaluated with other weights, or before it was copied"
    right = {
        each[0]["id"]: sum(item["right"] is True for item in each) / len(each)
        for each in answers[own]
    }
    return HeldOut(terms[own], figures, labels[-2], own, right)


def settings(each: ComparedRun, filled: Sequence[str] = tuple(STAGES)) -> dict[str, object]:
    """Everything in a run's recipe but its seed and folder, with our defaults or trl's in the
    sections `filled`, by `section.key`; and its hardware."""
    recipe = {
        key: value for key, value in each.run.recipe.items() if key not in ("seed", "output_dir")
    }
    for section in filled:
        if isinstance(recipe.get(section), dict):
            recipe[section] = (
                configs.defaults(section) | configs.shared_defaults(section) | recipe[section]
            )
    hardware = texts(each.run.versions.get("hardware")) or None
    found, own = flat(recipe | {"hardware": hardware}), "data.own_solutions.model"
    # Each seed samples a warm start of its own.
    return found | ({own: re.sub(SEED, "seed-*", str(found[own]))} if own in found else {})


def _differing(all_settings: list[dict]) -> list[str]:
    keys = dict.fromkeys(key for each in all_settings for key in each)
    return [
        key
        for key in keys
        if any(each.get(key) != all_settings[0].get(key) for each in all_settings)
    ]


def _seeds_of_one_recipe(runs: list[ComparedRun]) -> list[ComparedRun]:
    if len({str(each.seed) for each in runs}) < len(runs):
        raise RecipeError([f"{runs[0].run.folder.parent.parent} has two runs of the same seed"])
    for each in runs[1:]:
        if differing := [
            key for key in _differing([settings(runs[0]), settings(each)]) if key != "hardware"
        ]:
            both = f"{runs[0].run.folder} and {each.run.folder}"
            raise RecipeError(
                [f"{both} are not seeds of one recipe: they differ in {', '.join(differing)}"]
            )
    return runs


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
    recipes = [arm.runs[0].run.recipe for arm in arms]
    # Where one has no such section, a hundred defaults of the other say nothing.
    shared = [
        section
        for section in STAGES
        if all(isinstance(each.get(section), dict) for each in recipes)
    ]
    found = [settings(arm.runs[0], shared) for arm in arms]
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
    runs = arm.runs
    steps = [each.run.summary.get("steps") for each in runs]
    completions = [each.completions for each in runs]
    signal = [
        [line[WITHOUT_SIGNAL] for line in each.metrics if WITHOUT_SIGNAL in line] for each in runs
    ]
    signal = [sum(each) / len(each) if each else None for each in signal]
    seconds = [run_pages.seconds(each.run) for each in runs]
    cells = [
        _mean(steps, "{:,.0f}".format),
        _mean(completions, "{:,.0f}".format),
        *_held_out_cells(runs),
    ]
    cells += [_mean(signal, "{:.1%}".format), _mean(seconds, duration)]
    return [arm.name, " ".join(str(each.seed) for each in runs if is_of(each.seed, int)), *cells]


def _mean(values: list, form: Callable[[float], str]) -> str:
    return "" if None in values else form(sum(values) / len(values))


def _held_out_cells(runs: list[ComparedRun]) -> list[str]:
    """The number of problems; accuracy before and after, each with its interval, which for several
    runs is over their seeds; and the mean length of an answer before and after."""
    found = [each.held_out for each in runs]
    if wrong := next((each for each in found if isinstance(each, str)), None):
        return ["", wrong, ""]
    sizes = {each.figures[each.after]["n"] for each in found}
    told, tokens = [], []
    for figures in (
        [each.figures[each.before] for each in found],
        [each.figures[each.after] for each in found],
    ):
        if len(runs) == 1:
            low, high = figures[0]["interval_95"]
            told.append(f"{figures[0]['accuracy']:.1%} ({low:.1%} to {high:.1%})")
        else:
            mean, half = over_seeds([each["accuracy"] for each in figures])
            told.append(f"{mean:.1%} ± {100 * half:.1f}")
        tokens.append(f"{sum(each['mean_tokens'] for each in figures) / len(runs):.0f}")
    return [
        " to ".join(str(each) for each in sorted({min(sizes), max(sizes)})),
        " → ".join(told),
        " → ".join(tokens),
    ]


def difference(first: Arm, other: Arm) -> str:
    """What an arm reached beyond the first, on the same held-out problems: over seeds, each with
    itself, where both have two or more in common; otherwise over the problems of the one they
    have."""
    ours, theirs = (
        {each.seed: each for each in arm.runs if is_of(each.seed, int)} for arm in (first, other)
    )
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return "not compared: no seed in common, so other warm starts"
    pairs = [(ours[seed].held_out, theirs[seed].held_out) for seed in common]
    for pair in pairs:
        if wrong := next((each for each in pair if isinstance(each, str)), None):
            return f"not compared: {wrong}"
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
    whether there was anything to draw. Of several seeds the mean in each of `WINDOWS` parts of the
    run, of up to `BANDS` arms with its 95% interval.
    """
    logged = {
        key: [r for arm in arms for r in arm.runs if any(key in line for line in r.metrics)]
        for key in TITLES
    }
    keys = [key for key, runs in logged.items() if runs]
    if not keys:
        return False
    known = all(each.generated(1) is not None for runs in logged.values() for each in runs)
    figure = pictures.canvas(max(4.5 * len(keys), 6), 3.6)
    for key, axes in zip(keys, figure.subplots(1, len(keys), squeeze=False).flat, strict=True):
        for number, arm in enumerate(arms):
            look = {
                "color": f"C{number % 10}",
                "linestyle": "-" if number < 10 else "--",
                "linewidth": 1.3,
            }
            _draw_arm(axes, arm, key, known, look, len(arms) <= BANDS)
        axes.set(
            title=TITLES[key], xlabel="completions sampled" if known else "step", ylim=(-0.02, 1.02)
        )
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.legend(fontsize=7, frameon=False, loc="lower right")
    pictures.save(figure, file)
    return True


def _draw_arm(axes, arm: Arm, key: str, known: bool, look: dict, band: bool):
    """Its seeds' mean where all logged at the same places, else each run; of a single one the
    interval of each held-out evaluation."""
    lines = [
        [
            (each.generated(line["step"]) if known else line["step"], line)
            for line in each.metrics
            if key in line
        ]
        for each in arm.runs
    ]
    runs = [[(x, line[key]) for x, line in each] for each in lines if each]
    label = pictures.drawn(arm.name[-32:])
    if len(runs) > 1 and len({tuple(x for x, _ in points) for points in runs}) == 1:
        x, mean, half = zip(*over_windows(runs), strict=True)
        axes.plot(x, mean, label=label, **look)
        if band:
            low, high = (
                [m + sign * h for m, h in zip(mean, half, strict=True)] for sign in (-1, 1)
            )
            axes.fill_between(x, low, high, color=look["color"], alpha=0.2, linewidth=0)
        return
    for points in runs:
        axes.plot(*zip(*points, strict=True), label=label, **look)
        label = None  # once for all seeds
    for x, line in lines[0] if len(lines) == 1 and key == ACCURACY else ():
        if RIGHT in line:
            error = pictures.beside([line[key]], [pictures.bounds_of(line)])
            axes.errorbar([x], [line[key]], yerr=error, fmt=".", capsize=2, color=look["color"])


def over_windows(runs: list[list[tuple[float, float]]]) -> list[tuple[float, float, float]]:
    """(place, mean, half of the 95% interval over runs) of up to `WINDOWS` parts of runs with the
    same places."""
    size = -(-len(runs[0]) // WINDOWS)
    parts = [[points[i : i + size] for points in runs] for i in range(0, len(runs[0]), size)]
    return [
        (
            sum(x for x, _ in part[0]) / len(part[0]),
            *over_seeds([sum(y for _, y in each) / len(each) for each in part]),
        )
        for part in parts
    ]
