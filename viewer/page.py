"""The page itself: as its server sends it, in parts, or written as one file that needs neither server nor network."""

import base64
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from viewer.answers import answer
from viewer.groups import index
from viewer.runs import describe

FOLDER = Path(__file__).parent / "page"
OURS = ("text.js", "data.js", "curves.js", "arithmetic.js", "groups.js", "tokens.js", "changed.js", "lab.js", "app.js")
SCRIPTS = ("vendor/uPlot.iife.min.js", *OURS)
STYLES = ("vendor/uPlot.min.css", "style.css")
ASSETS = dict.fromkeys(SCRIPTS, "text/javascript") | dict.fromkeys(STYLES, "text/css")
# Of a large run, one file holds so many completions and questions at most.
COMPLETIONS = 4_000
QUESTIONS = 300


def asset(name: str) -> str:
    """The text of one of the page's parts."""
    return (FOLDER / name).read_text(encoding="utf-8")


@cache
def _body() -> str:
    return asset("index.html")


def served() -> str:
    """The page that asks a server."""
    head = [f'<link rel="stylesheet" href="/{name}">' for name in STYLES]
    head += [f'<script defer src="/{name}"></script>' for name in SCRIPTS]
    return _body().replace("<!-- head -->", "\n".join(head))


def whole(runs: list[Path]) -> str:
    """The page with its data in it. Of a run with many groups it holds an even sample, and says so."""
    answers = dict(_answers(runs))
    scripts = [asset(name) for name in SCRIPTS]
    # Only these scripts may run, whatever a completion says, and none may reach the network.
    allowed = " ".join(f"'sha256-{_digest(each)}'" for each in scripts)
    policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
    head = [f'<meta http-equiv="Content-Security-Policy" content="{policy}">']
    head += [f"<style>{asset(name)}</style>" for name in STYLES]
    # In a script element only `</script` and `<!--` mean anything, and JSON can spell every < otherwise.
    data = json.dumps(answers, allow_nan=False, ensure_ascii=True).replace("<", "\\u003c")
    tail = [f'<script type="application/json" id="answers">{data}</script>']
    tail += [f"<script>{each}</script>" for each in scripts]
    return _body().replace("<!-- head -->", "\n".join(head)).replace("<!-- tail -->", "\n".join(tail))


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _answers(runs: list[Path]) -> Iterator[tuple[str, Any]]:
    yield "runs", answer(runs, "runs")
    for number, run in enumerate(runs):
        described = describe(run)
        for question in ("curves", "advice"):
            yield f"{number}/{question}", answer(runs, f"{number}/{question}")
        found = index(run)
        every = found["groups"]
        kept = evenly(every, max(1, COMPLETIONS // len(runs) // max([each["n"] for each in every], default=1)))
        yield f"{number}/groups", found | {"groups": kept}
        for each in kept:
            question = f"{number}/group/{each['step']}/{each['group']}"
            yield question, answer(runs, question)
        there = answer(runs, f"{number}/explained")
        yield f"{number}/explained", there
        for each in there:
            question = f"{number}/tokens/{each['step']}/{each['row']}"
            yield question, answer(runs, question)
        for benchmark, labels in described["evaluations"].items():
            for before, after in ((a, b) for i, a in enumerate(labels) for b in labels[i + 1 :]):
                found = answer(runs, f"{number}/changed/{benchmark}/{before}/{after}")
                flips = [row for row in found["rows"] if row["kind"] in ("won", "lost")][:QUESTIONS]
                rows = flips + evenly(found["rows"][len(flips) :], QUESTIONS - len(flips))
                pairs = f"{number}/pair/{benchmark}/{before}/{after}"
                yield f"{number}/changed/{benchmark}/{before}/{after}", found | {"rows": rows}
                for row in rows:
                    yield f"{pairs}/{row['id']}", answer(runs, f"{pairs}/{row['id']}")


def evenly(rows: list, most: int) -> list:
    """So many of the rows, at even distances, the first and the last among them."""
    if len(rows) <= most or most < 2:
        return rows[: max(0, most)]
    return [rows[round(i * (len(rows) - 1) / (most - 1))] for i in range(most)]
