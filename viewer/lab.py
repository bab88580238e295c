"""The lab, docs/lab/, as one file, with the recorded run in its widgets or with a run of one's own.
Whatever a model or a data set wrote is text in it."""

import re
from pathlib import Path
from typing import Any

from console.faults import RecipeError
from runs.records import SAME_QUESTIONS, completion_files, name_of
from runs.state import RunState
from viewer import groups
from viewer.page import Json
from viewer.runs import describe, evenly

FOLDER = Path(__file__).parents[1] / "docs/lab"
RECORDED = re.compile(r'(?<=id="run">\n).*?(?=\n</script>)', re.S)  # in index.html
STEPS = 7  # of a run, at most
GROUPS = 4  # of a step, at most
CUT = 1_000  # characters of a completion


def standalone_lab(run: RunState | None = None) -> str:
    """The lab as HTML that needs no file beside it. Raises RecipeError where a run has no groups to
    show."""
    text = _text("index.html")
    if run:
        data = groups_of_run(run, completion_files(run.folder, (SAME_QUESTIONS,)))
        text = with_run(text, Json([run.folder]).text(data))
    text = re.sub(r'<a href="\.\./learn\.md[^"]*">([^<]*)</a>', r"docs/learn.md, \1", text)
    text = re.sub(r'<link rel="stylesheet" href="([\w.]+)">', _style, text)
    return re.sub(r'<script src="([\w.]+)"></script>', _script, text)


def with_run(page: str, data: str) -> str:
    """The page of the lab with another run's data, which are JSON that may stand in a script
    element."""
    return RECORDED.sub(lambda _: data, page)


def groups_of_run(run: RunState, files: list[Path]) -> dict[str, Any]:
    """What the widgets show of a run: its name, its rewards and machine, and steps, each with
    groups: a question, its gold answer, and completions with text, reward (the weighted sum) and
    tokens.

    Args:
        files: of the questions that every evaluation samples; where there are none, the groups of
            training.

    Raises:
        RecipeError: there are no completions, or they cannot be read.
    """
    files = files or completion_files(run.folder)
    name = name_of(run.folder)
    if not files:
        message = f"{name} has no completions to show: a GRPO run logs them (grpo.log_completions)"
        raise RecipeError([message])
    description = describe(run)
    steps = []
    try:
        for file in evenly(files, STEPS):
            sampled = [group for _, group in groups.of_step(file, description)]
            steps.append({"step": sampled[0]["step"], "groups": list(map(_as_data, sampled))})
    except (ValueError, OSError) as error:
        raise RecipeError([f"{name}: {error}"]) from None
    places = _most_changed(steps)
    for step in steps:
        step["groups"] = [step["groups"][place] for place in places]
    rewards = [f"{weight:g} × {reward}" for reward, weight in description["rewards"].items()]
    about = f"Reward: {' + '.join(rewards)}. {'; '.join(description['hardware'])}."
    return {"name": name, "about": about, "steps": steps}


def _as_data(group: dict[str, Any]) -> dict[str, Any]:
    completions = []
    for row in group["rows"]:
        text = row["text"][:CUT]
        completions.append({"text": text, "reward": row["total"] or 0.0, "tokens": row["tokens"]})
    return {"question": group["question"], "gold": group["gold"], "completions": completions}


def _most_changed(steps: list[dict[str, Any]]) -> list[int]:
    """The places of the groups to show, in this order: first those that teach at both ends, then by
    how far their mean reward rises from the first step to the last."""
    places = range(min(len(step["groups"]) for step in steps))

    def worth(place: int) -> tuple[bool, float]:
        first, last = (_rewards(step["groups"][place]) for step in (steps[0], steps[-1]))
        teaches = len(set(first)) > 1 and len(set(last)) > 1
        return teaches, sum(last) / len(last) - sum(first) / len(first)

    return sorted(places, key=worth, reverse=True)[:GROUPS]


def _rewards(group: dict[str, Any]) -> list[float]:
    return [completion["reward"] for completion in group["completions"]]


def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _style(match: re.Match) -> str:
    return f"<style>{_text(match[1])}</style>"


def _script(match: re.Match) -> str:
    return f"<script>{_text(match[1])}</script>"
