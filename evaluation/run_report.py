"""Writes the page that a person reads first of a run: result, curves, what happened, and completions to read. It is
made from the files of the run's folder alone, and can be made again at any time."""

from collections.abc import Sequence
from pathlib import Path

from evaluation import model_card, run_files
from evaluation.curves import draw
from runs.completions import some_groups
from runs.folder import FinishedRun, is_of, read_run, title
from runs.metrics import read_metrics
from schema.configs import ACCURACY, RIGHT
from schema.faults import RecipeError
from schema.names import RESERVED
from schema.stages import POLICIES, STAGES, algorithm
from schema.terminal import clean, code, fenced
from training.checkpoints import write_whole
from training.model import is_adapter
from training.watch import findings
from training.writing import link_inside, lock

# Of what a run sampled, as much as can be read: characters of a text, lines of it, completions of a group.
CHARACTERS, LINES, COMPLETIONS = 600, 12, 8


def write(folder: Path) -> Path:
    """Write a finished run's card and, where it is GRPO's, `report.md` and `curves.png`, and return the path of what to
    read.

    Raises:
        RecipeError: the folder holds no finished run, is in use, or has a link in it.
    """
    if folder.name not in POLICIES:
        raise RecipeError([f"{folder} is not called {' or '.join(POLICIES)}, as a stage's folder is"])
    if wrong := link_inside(folder):
        raise RecipeError([wrong])
    run = read_run(folder)
    lock(folder)
    model_card.write(folder, folder.name)
    if not STAGES[folder.name].samples:
        return folder / "README.md"
    metrics = read_metrics(folder)
    advice = [f"step {each.step}: {each.message}" for each in findings(metrics, run.recipe)]
    drawn = draw(folder / "curves.png", metrics)
    write_whole(folder / "report.md", report(run, metrics, drawn, advice))
    return folder / "report.md"


def report(run: FinishedRun, metrics: list[dict], drawn: bool, advice: Sequence[str]) -> str:
    """The page as Markdown.

    Args:
        drawn: whether there is a picture of the curves.
        advice: what there is to look at, a sentence each.
    """
    lines = [f"# {title(run.path)}", "", f"- recipe: {recipe_line(run)}", f"- base: {run_files.base(run)}"]
    problems = f" ({run.problems:,} problems)" if run.problems is not None else ""
    lines += [f"- data: {each}{problems if i == 0 else ''}" for i, each in enumerate(run_files.data(run))]
    lines += [f"- {each}" for each in run_files.ways(run)]
    lines += [f"- {words}"] if (words := run_files.effort(run)) else []
    lines += ["", "## How good is it?", ""]
    lines += run_files.results(run, "grpo") or ["It was not evaluated."]
    lines += ["", "## What happened?", "", *(f"- {each}" for each in happened(run, metrics))]
    if advice:
        lines += ["", "## What is there to look at?", "", *(f"- {code(each, 1000)}" for each in advice)]
    lines += ["", "## How did it learn?", "", "![curves over the steps](curves.png)"] if drawn else []
    lines += (
        ["", "The band around held-out accuracy is its 95% interval."] if any(RIGHT in line for line in metrics) else []
    )
    for rows in some_groups(run.folder):
        lines += ["", *group(rows)]
    return "\n".join(lines) + "\n"


def recipe_line(run: FinishedRun) -> str:
    """The recipe in one line: what its stages set, and the weights of its rewards."""
    grpo, adapter = run.section("grpo"), run.section("adapter")
    words = [f"LoRA (r {code(adapter['r'])})" if "r" in adapter else "LoRA"] if is_adapter(run.folder) else []
    words += [f"SFT warm start of {code(run.section('sft').get('max_steps'))} steps"] if run.section("sft") else []
    keys = ("max_steps", "num_generations", "learning_rate", "beta", "loss_type", "max_completion_length")
    name = algorithm(run.recipe.get("algorithm")).made
    words += [f"{name} ({', '.join(f'{key} {code(grpo[key])}' for key in keys if key in grpo)})"]
    rewards = run.section("rewards")
    weights = {name: each.get("weight", 1.0) if isinstance(each, dict) else 1.0 for name, each in rewards.items()}
    return ", ".join([*words, *(f"{code(name)} × {code(weight)}" for name, weight in weights.items())])


def happened(run: FinishedRun, metrics: list[dict]) -> list[str]:
    """How the run ended and what is unusual about it, a sentence each."""
    summary, asked = run.summary, run.section("grpo").get("max_steps")
    steps, lines = summary.get("steps"), []
    if steps is not None and is_of(asked, int) and 0 < steps < asked:
        lines.append(f"It ended at step {steps:,} of {asked:,}.")
    elif steps is not None:
        lines.append(f"It ran to its end, step {steps:,}.")
    if "stopped" in summary:
        lines.append(code(summary["stopped"], 600))
    if "resumed_from" in summary:
        lines.append(f"It was interrupted, and resumed from {code(summary['resumed_from'])}.")
    if "best_checkpoint" in summary and "best_accuracy" in summary:
        last = [line[ACCURACY] for line in metrics if ACCURACY in line][-1:]
        then = f"; at the last evaluation it was {last[0]:.1%}" if last else ""
        best = code(summary["best_checkpoint"].rpartition("/")[2])
        lines.append(f"It kept {best}, whose held-out accuracy is {summary['best_accuracy']:.1%}{then}.")
    if "adapter_error" in summary:
        lines.append(
            "The saved adapter on a clean base gives the trained policy's log-probabilities within "
            f"{summary['adapter_error']:.2g} nats a token."
        )
    return lines


def group(rows: list[dict]) -> list[str]:
    """A group to read, as Markdown: the question, and each completion with its rewards and its advantage."""
    step, shown = rows[0]["step"], rows[:COMPLETIONS]
    of = f", {len(shown)} of its {len(rows)} completions" if len(rows) > len(shown) else ""
    lines = [f"## A group of step {step if is_of(step, int) else '?'}{of}", "", *shortened(rows[0]["prompt"])]
    lines += ["", f"gold {code(rows[0]['gold'])}"] if "gold" in rows[0] else []
    for number, row in enumerate(shown, 1):
        scores = {name: value for name, value in row.items() if name not in RESERVED and scored(value)}
        words = [f"{code(name, 60)} {'none' if value is None else f'{value:.3g}'}" for name, value in scores.items()]
        words += [f"{row['tokens']} tokens"] if is_of(row.get("tokens"), int) else []
        words += ["truncated"] if row.get("truncated") is True else []
        words += [f"advantage {row['advantage']:+.3g}"] if is_of(row["advantage"], float) else []
        lines += ["", f"{number}. {', '.join(words)}", "", *shortened(row["completion"])]
    return lines


def scored(value: object) -> bool:
    """Whether a column's value is a reward: a number, or nothing where the reward gave none."""
    return value is None or is_of(value, float)


def shortened(message: object) -> list[str]:
    """A prompt's last turn or a completion, as a block of code, without the middle of what is long."""
    if isinstance(message, list) and message and isinstance(message[-1], dict):
        message = message[-1].get("content")
    text = clean(str(message))
    if len(text) > CHARACTERS:
        text = f"{text[: CHARACTERS // 2]} … {text[-CHARACTERS // 2 :]}"
    lines = text.split("\n")
    if len(lines) > LINES:
        lines = [*lines[: LINES // 2], "…", *lines[-LINES // 2 :]]
    return fenced("\n".join(lines))
