"""What a finished run left in its folder, read for its card and its report: facts as Markdown. Names and texts in it
may be a stranger's, so each is checked, or stands where it is only text."""

import json
import re
from pathlib import Path
from typing import Any

from data.json_files import read_object
from data.sources import FILE_TYPES, HUB
from evaluation import report
from evaluation.answers import weights_of
from runs.answers import LABELS
from runs.folder import FinishedRun, is_of
from schema.models import BUILDERS
from schema.names import named
from schema.terminal import code
from training.progress import duration
from training.step_clock import PARTS
from training.writing import link_inside

HUB_ID = r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?"
GENERATED = {
    "arithmetic": "sums",
    "countdown": "problems",
    "puzzles": "programming puzzles",
}  # the data sets that are made on the spot, and what they are


def reduced(value: Any) -> Any:
    """A value of a recipe with each absolute path as its last name. A prompt is no path."""
    if isinstance(value, dict):
        return {
            reduced(key): each if key in ("system", "chat_template") else reduced(each) for key, each in value.items()
        }
    if isinstance(value, list):
        return [reduced(each) for each in value]
    is_path = isinstance(value, str) and re.match(r"[/~\\]|[A-Za-z]:[/\\]", value)
    return re.split(r"[/\\]", value.rstrip("/\\"))[-1] if is_path else value


def on_hub(run: FinishedRun) -> str | None:
    """The Hub id of the base model; None where it was built here or came from a folder."""
    name = run.section("model").get("name_or_path")
    if run.section("model").get("build") is not None or "model" in _local(run):
        return None
    is_id = isinstance(name, str) and re.fullmatch(HUB_ID, name) and not Path(name).is_dir()
    return name if is_id else None


def _local(run: FinishedRun) -> list:
    local = run.versions.get("local")
    return local if isinstance(local, list) else []


def base(run: FinishedRun) -> str:
    """The base model, as what it is."""
    model = run.section("model")
    if name := on_hub(run):
        return f"[{name}](https://huggingface.co/{name})"
    if (build := model.get("build")) is not None:
        what = BUILDERS[build].__doc__ if build in map(str, BUILDERS) else None
        return f"{code(build)}, built by grpo-recipes" + (f". {what.rstrip('.')}" if what else "")
    return f"{code(Path(str(model.get('name_or_path'))).name)}, a local folder"


def training_sets(run: FinishedRun) -> list[tuple[str, dict]]:
    """Name and arguments of each."""
    train = run.section("data").get("train")
    entries = train if isinstance(train, list) else []
    found = [named(each) for each in entries if isinstance(each, str) or (isinstance(each, dict) and each)]
    return [(str(name), arguments if isinstance(arguments, dict) else {}) for name, arguments in found]


def from_hub(run: FinishedRun, name: str) -> tuple[str, str | None] | None:
    """(Hub id, licence or None) of a training set that was read from there."""
    local = run.section("data").get("dir") is not None or "data" in _local(run)
    return None if local else HUB.get(name)


def data(run: FinishedRun) -> list[str]:
    """A line for each training set, and one for what the warm start learned from where that was the model's own."""
    lines = []
    for name, arguments in training_sets(run):
        given = f" ({', '.join(f'{key}: {reduced(value)}' for key, value in arguments.items())})" if arguments else ""
        line = code(reduced(name) + given)
        if found := from_hub(run, name):
            hub_id, licence = found
            line += f": [{hub_id}](https://huggingface.co/datasets/{hub_id})"
            line += f", licence {licence} by its card" if licence else ""
        elif name in HUB:
            line += f": parquet files in a local folder, in the form of {HUB[name][0]}"
        elif name in GENERATED:
            line += f": {GENERATED[name]} made by grpo-recipes"
        elif name.endswith(FILE_TYPES):
            line += ": a local file"
        else:
            line += ": a function of the user's own"
        lines.append(line)
    if run.section("sft") and run.section("data").get("own_solutions") is not None:
        counts = _own_solutions(run.folder.with_name("sft") / "summary.json")
        lines.append(f"for the warm start the base model's own right solutions{counts}")
    return lines


def _own_solutions(file: Path) -> str:
    """How many there were, by the warm start's own summary; nothing where that does not say."""
    try:
        figures = (read_object(file) or {})["own_solutions"]
        counts = {key: figures[key] for key in ("completions", "problems", "accepted", "solved", "kept")}
    except (TypeError, LookupError):
        return ""
    if not all(is_of(each, int) for each in counts.values()):
        return ""
    from evaluation.own_solutions import told  # imports trl, which other runs need not wait for

    return f": {told(counts)}"


def ways(run: FinishedRun) -> list[str]:
    """A line for each way in which a run's GRPO was not the plain one: in rounds, or with rewards of steps."""
    if run.folder.name == "sft":
        return []
    rounds, lines = run.recipe.get("rounds"), []
    if rounds is not None:
        lines.append(f"{code(rounds)} rounds, each with the policy that it began with as its reference")
    for name, options in run.section("rewards").items():
        if isinstance(options, dict) and "steps" in options:
            between = code(json.dumps(options["steps"], ensure_ascii=False))
            lines.append(f"process supervision: {code(name)} was given for each step, with {between} between two steps")
    return lines


def effort(run: FinishedRun) -> str:
    """Steps, hardware, and the time by part."""
    summary, words = run.summary, []
    if "steps" in summary:
        words.append(f"{summary['steps']:,} steps")
    hardware = run.versions.get("hardware")
    if isinstance(hardware, list) and hardware:
        words.append(f"on {code(', '.join(map(str, hardware)))}")
    if (spent := seconds(run)) is not None:
        time = summary.get("time", {})
        shares = {part: time[part].get("share") for part in PARTS if isinstance(time.get(part), dict)}
        parts = ", ".join(f"{part} {share:.1%}" for part, share in shares.items() if is_of(share, float))
        words.append(f"in {duration(spent)}" + (f": {parts}" if parts else ""))
    return " ".join(words)


def seconds(run: FinishedRun) -> float | None:
    """What its training took: the sum of its parts, which counts what came before a resumption, where it has them."""
    time = run.summary.get("time", {})
    parts = [time[part].get("seconds") for part in PARTS if isinstance(time.get(part), dict)]
    parts = [each for each in parts if is_of(each, float)]
    return sum(parts) if parts else run.summary.get("seconds")


def results(run: FinishedRun, stage: str) -> list[str]:
    """Table, intervals and verdicts of each benchmark that the run's weights have answered, in Markdown; empty where
    there is none. Answers of other weights are not this run's, and are named as such.

    Args:
        stage: the label of the run's answers.
    """
    lines, order = [], LABELS[: LABELS.index(stage) + 1]
    folders = [each.parent for each in run.folder.parent.glob(f"eval/*/{stage}.jsonl")]
    for folder in sorted(folders, key=lambda each: (each.name != "held-out", each.name)):
        finished = (folder / "summary.json").is_file() and not link_inside(folder)
        if not finished or not re.fullmatch(r"[\w.-]+", folder.name):
            continue
        labels = [label for label in order if (folder / f"{label}.jsonl").is_file()]
        try:
            comparison = report.compare(folder, labels)
        except ValueError:
            lines += [f"The answers in `eval/{folder.name}` cannot be compared; `make report` says why.", ""]
            continue
        terms = comparison.terms[stage]
        if terms.get("weights") != weights_of(run.folder):
            others = "belong to other weights, or to these before the folder was copied: `make evaluate` answers anew"
            lines += [f"The answers in `eval/{folder.name}` {others}.", ""]
            continue
        how = "greedy" if terms.get("temperature") == 0 else f"temperature {code(terms.get('temperature'))}"
        limit = code(terms.get("max_new_tokens"))
        lines += [*comparison.table, "", f"{how.capitalize()}, at most {limit} tokens an answer.", ""]
    return lines[:-1]
