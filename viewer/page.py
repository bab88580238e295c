"""The page of some runs: one HTML file with everything in it, which needs neither a server nor the
network. Whatever a model or a data set wrote is text in it."""

import json
import os
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import jinja2

from console.terminal import say
from runs.files import write_whole
from runs.records import SAME_QUESTIONS, completion_files, public
from runs.state import RunState
from viewer import groups
from viewer.runs import (
    MOST_NUMBERS,
    about,
    advice,
    changed,
    curves,
    describe,
    evenly,
    first_completions,
    pair,
    results,
)

NAME = "page.html"  # in a run's folder
FOLDER = Path(__file__).parent / "page"
SCRIPTS = ("vendor/uPlot.iife.min.js", "text.js", "markup.js", "data.js", "filter.js")
SCRIPTS += ("curves.js", "story.js", "overview.js", "list.js")
SCRIPTS += ("arithmetic.js", "groups.js", "group.js", "changed.js", "app.js")
STYLES = ("vendor/uPlot.min.css", "style.css")
LARGEST = 20 * 2**20  # bytes of what a page shows, about
GROUPS = 8  # of a step, where the groups of all steps are too many
QUESTIONS = 300  # of an evaluation


class Step(NamedTuple):
    """The groups of a step's file, or some of them.

    Attributes:
        entries: their entries in the list of groups.
        answers: each as JSON text, by its question.
        size: the bytes of both.
        count: how many the file has.
        error: why it cannot be read.
    """

    entries: list[dict[str, Any]]
    answers: dict[str, str]
    size: int
    count: int
    error: str | None = None


def asset(name: str) -> str:
    """The text of one of the page's files."""
    return (FOLDER / name).read_text(encoding="utf-8")


def write_beside(run: RunState) -> Path | None:
    """Write a run's page into its folder, and return its path. What keeps it from being written is
    printed, and ends no training."""
    file = run.folder / NAME
    try:
        write_whole(file, standalone_page([run]))
    except OSError as error:
        say(f"{file} was not written ({error.strerror or error}): `make view` writes it")
        return None
    except Exception:  # a mistake of ours, whose trace is worth more than the page
        traceback.print_exc()
        say(f"{file} was not written, for the reason above; all else goes on")
        return None
    return file


def standalone_page(runs: list[RunState]) -> str:
    """The page as HTML. A run with many groups has an even sample of them, and the page says so."""
    return rendered(_answers(runs))


def standalone_list(runs: list[RunState], folder: Path) -> str:
    """The list of runs as HTML: what each is and gained, and its curves to lay over another's.

    Args:
        folder: where the list will lie, from which it links to the runs' own pages.
    """
    as_json = Json([run.folder for run in runs])
    answers = {}
    descriptions = []
    for number, run in enumerate(runs):
        description = describe(run) | {"page": None}
        file = run.folder.absolute() / NAME
        if file.is_file() and file.is_relative_to(folder.absolute()):
            description["page"] = quote(file.relative_to(folder.absolute()).as_posix())
        descriptions.append(description)
        for question, text in _summary(run, as_json, MOST_NUMBERS // len(runs)).items():
            answers[f"{number}/{question}"] = text
    answers["runs"] = as_json.text(descriptions)
    return rendered(answers)


def rendered(answers: dict[str, str]) -> str:
    """The page with these answers, whose texts are JSON."""
    entries = [f"{json_text(question)}:{text}" for question, text in answers.items()]
    content = {
        "styles": list(map(asset, STYLES)),
        "scripts": list(map(asset, SCRIPTS)),
        "answers": "{" + ",\n".join(entries) + "}",
    }
    return jinja2.Template(asset("page.html")).render(content)


def _answers(runs: list[RunState]) -> dict[str, str]:
    """The JSON text of each answer, by its question: `runs`, or `0/group/40/3`, which is group 3 of
    step 40 of the first run."""
    as_json = Json([run.folder for run in runs])
    answers = {}
    descriptions = []
    for number, run in enumerate(runs):
        description = describe(run)
        descriptions.append(description)
        answers_of_run = _answers_of(run, description, as_json, LARGEST // len(runs))
        for question, text in answers_of_run.items():
            answers[f"{number}/{question}"] = text
    answers["runs"] = as_json.text(descriptions)
    return answers


def _answers_of(run: RunState, description: dict, as_json: "Json", room: int) -> dict[str, str]:
    """The answers about one run, in about `room` bytes."""
    answers = _summary(run, as_json)
    room -= size_of(answers)
    evaluations = description["evaluations"]
    for benchmark, labels in evaluations.items():
        if len(labels) > 1:
            share = max(0, room) // 3 // len(evaluations)
            answers |= _evaluation(run.folder, benchmark, labels, as_json, share)
    return answers | _groups(run.folder, description, as_json, room - size_of(answers))


def _summary(run: RunState, as_json: "Json", limit: int | None = None) -> dict[str, str]:
    """What an overview of a run shows. `limit`: how many numbers of its curves."""
    return {
        "curves": as_json.answer(curves, run, limit),
        "advice": as_json.answer(advice, run),
        "results": as_json.answer(results, run.folder),
        "about": as_json.answer(about, run),
    }


def size_of(answers: dict[str, str]) -> int:
    """The bytes of answers and of their questions, which are ASCII."""
    return sum(len(question) + len(text) for question, text in answers.items())


class Json:
    """Writes answers as JSON that may stand in a script element, with the public names of folders.

    Args:
        folders: the folders of the page's runs.
    """

    def __init__(self, folders: Sequence[Path]):
        self.folders = folders
        private = [*(folder.absolute() for folder in folders), Path.cwd()]
        private.append(os.path.expanduser("~"))  # noqa: PTH111, which raises where there is none
        self.private = [json_text(str(folder))[1:-1] for folder in private]

    def text(self, value: Any) -> str:
        """The JSON text of a value. Raises ValueError for a number that JSON lacks."""
        text = json_text(value)
        if any(folder in text for folder in self.private):
            text = json_text(self._public(value))
        return text

    def answer(self, function: Callable, *arguments: Any) -> str:
        """The JSON text of what a function returns; of its message, where it cannot."""
        try:
            return self.text(function(*arguments))
        except (ValueError, OSError) as error:
            return self.text({"error": str(error)})

    def _public(self, value: Any) -> Any:
        if isinstance(value, str):
            return public(value, *self.folders)
        if isinstance(value, dict):
            return {self._public(key): self._public(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [self._public(entry) for entry in value]
        return value


def json_text(value: Any) -> str:
    """JSON in ASCII without a <, so that nothing in it ends a script element or begins a
    comment."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c")


# The groups ---------------------------------------------------------------------------------------


def _groups(run: Path, description: dict, as_json: Json, room: int) -> dict[str, str]:
    """The list of groups, and each of them. At most half of the room is for the questions that
    every evaluation samples."""

    def read(file: Path, limit: int | None) -> Step:
        return _step(file, description, as_json, limit)

    repeated = completion_files(run, (SAME_QUESTIONS,))
    trained = completion_files(run)
    steps = _even_sample(repeated, read, room // 2)
    steps += _even_sample(trained, read, room - sum(step.size for step in steps))
    entries = []
    answers = {}
    errors = []
    for step in steps:
        entries += step.entries
        answers |= step.answers
        if step.error:
            errors.append(step.error)
    entries.sort(key=lambda entry: (entry["step"], entry["group"] < 0, abs(entry["group"])))
    index = {"groups": entries, "unreadable": len(errors), "why": next(iter(errors), None)}
    index["of"] = sum(step.count for step in steps)
    if len(steps) < len(repeated) + len(trained):
        index["of"] = 0
        for file in repeated + trained:
            with suppress(ValueError, OSError):  # being written, or torn by a full disk
                index["of"] += groups.count(file, description)
    return {"groups": as_json.text(index)} | answers


def _step(file: Path, description: dict, as_json: Json, limit: int | None) -> Step:
    """The groups of a step's file, at most `limit` of them, chosen evenly."""
    try:
        read = groups.of_step(file, description)
    except (ValueError, OSError) as error:  # being written, torn by a full disk, or a stranger's
        return Step([], {}, 0, 0, str(error))
    chosen = read if limit is None else evenly(read, limit)
    answers = {}
    for entry, group in chosen:
        answers[f"group/{entry['step']}/{entry['group']}"] = as_json.text(group)
    entries = [entry for entry, _ in chosen]
    return Step(entries, answers, size_of(answers) + len(as_json.text(entries)), len(read))


def _even_sample(
    files: list[Path], read: Callable[[Path, int | None], Step], room: int
) -> list[Step]:
    """What the files hold where there is room for it. Else of as many of them as have room, chosen
    evenly, a few groups each. The first, the middle and the last file show how much that is."""
    for limit in (None, GROUPS):
        examples = [read(file, limit) for file in evenly(files, 3)]
        mean = 1 + sum(step.size for step in examples) // max(1, len(examples))
        if mean * len(files) <= room:
            break
    steps = [read(file, limit) for file in evenly(files, room // mean)]
    size = sum(step.size for step in steps)
    while steps and size > room:
        steps = evenly(steps, min(len(steps) - 1, len(steps) * room // size))
        size = sum(step.size for step in steps)
    return steps


# The evaluations ----------------------------------------------------------------------------------


def _evaluation(
    run: Path, benchmark: str, labels: list[str], as_json: Json, room: int
) -> dict[str, str]:
    """What changed on a benchmark, for each two of the models that were judged on it."""
    answers = {}
    errors = {}
    for label in labels:
        try:
            answers[label] = first_completions(run, benchmark, label)
        except (ValueError, OSError) as error:
            errors[label] = str(error)
    pairs = list(combinations(labels, 2))
    texts = {}
    for before, after in pairs:
        name = f"{benchmark}/{before}/{after}"
        if before in answers and after in answers:
            texts |= _changes(name, answers, (before, after), as_json, room // len(pairs))
        else:
            reason = errors.get(before) or errors[after]
            texts[f"changed/{name}"] = as_json.text({"error": reason})
    return texts


def _changes(
    name: str,
    answers: dict[str, dict[int, dict]],
    models: tuple[str, str],
    as_json: Json,
    room: int,
) -> dict[str, str]:
    """The list of the questions, the won and the lost first, and both answers to each; as many as
    have room. `models`: the labels before and after."""
    changes = changed(answers, *models)
    flips = changes["counts"]["won"] + changes["counts"]["lost"]
    limit = QUESTIONS
    size = room + 1
    while size > room:
        number = min(limit, flips)
        rows = changes["rows"][:number] + evenly(changes["rows"][number:], limit - number)
        texts = {}
        for row in rows:
            question = row["id"]
            texts[f"pair/{name}/{question}"] = as_json.answer(pair, answers, *models, question)
        size = size_of(texts)
        limit = min(limit - 1, limit * room // max(1, size))
    return {f"changed/{name}": as_json.text(changes | {"rows": rows})} | texts
