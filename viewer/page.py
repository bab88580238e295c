"""The page itself, as its server sends it, in parts, or written as one file that needs neither
server nor network; and what it can ask, as paths, with the answers to them. Its server is on this
machine only, and only reads, but for the completions that it works out when it is asked to."""

import asyncio
import base64
import hashlib
import json
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from viewer import groups
from viewer.results import results
from viewer.runs import about, advice, changed, curves, describe, pair

FOLDER = Path(__file__).parent / "page"
MEMORY = FOLDER / "memory.json"  # made by tests/bench/sizes.py
OURS = ("text.js", "data.js", "curves.js", "overview.js", "arithmetic.js", "groups.js", "tokens.js")
OURS += ("changed.js", "bandit.js", "play.js", "lab.js", "app.js")
SCRIPTS = ("vendor/uPlot.iife.min.js", *OURS)
STYLES = ("vendor/uPlot.min.css", "style.css")
ASSETS = dict.fromkeys(SCRIPTS, "text/javascript") | dict.fromkeys(STYLES, "text/css")
# Of a large run, one file holds so many completions and questions at most.
COMPLETIONS = 4_000
FLIPS = 300
PROGRESS = 5  # seconds between two lines while one file is written
# What the lab offers, and what its settings are to begin with. A setting of a recipe's `grpo`
# section has its name there. The page works everything out itself: page/bandit.js.
LAB = {
    "algorithms": ["grpo", "reinforce", "reinforce_baseline", "rloo", "ppo", "reinforce_plus_plus"],
    "landscapes": ["one peak", "two peaks", "linear"],
    "defaults": {
        "num_generations": 8,
        "num_iterations": 2,
        "max_steps": 200,
        "learning_rate": 0.5,
        "temperature": 1.0,
        "epsilon": 0.2,
        "beta": 0.0,
        "scale_rewards": "group",
        "matched": True,  # whether the algorithms' learning rates are
        "noise": 0.0,  # standard deviation of what is added to each reward
        "peak": 5,  # of the landscape "one peak"
        "logits": [0.0] * 10,  # to start from; this policy is the reference too
        "seed": 0,
    },
}
# What else a page could do in the browser that shows it: nothing is fetched from elsewhere, sent
# there or framed.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
HOSTS = ["127.0.0.1", "localhost"]


def asset(name: str) -> str:
    """The text of one of the page's parts."""
    return (FOLDER / name).read_text(encoding="utf-8")


def served() -> str:
    """The page that asks a server."""
    head = [f'<link rel="stylesheet" href="/{name}">' for name in STYLES]
    head += [f'<script defer src="/{name}"></script>' for name in SCRIPTS]
    return asset("index.html").replace("<!-- head -->", "\n".join(head))


def whole(runs: list[Path], progress: Callable[[int], None] = lambda parts: None) -> str:
    """The page with its data in it. Of a run with many groups it holds an even sample, and says so.
    `progress` hears every few seconds how many of its parts are read."""
    answers, last = {}, time.monotonic()
    for question, found in _answers(runs):
        answers[question] = found
        if time.monotonic() - last >= PROGRESS:
            progress(len(answers))
            last = time.monotonic()
    scripts = [asset(name) for name in SCRIPTS]
    # Only these scripts may run, whatever a completion says, and none may reach the network.
    digests = [
        base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts
    ]
    allowed = " ".join(f"'sha256-{each}'" for each in digests)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:;"
        " base-uri 'none'"
    )
    head = [f'<meta http-equiv="Content-Security-Policy" content="{policy}">']
    head += [f"<style>{asset(name)}</style>" for name in STYLES]
    # In a script element only `</script` and `<!--` mean anything, and JSON can spell every <
    # otherwise.
    data = json.dumps(answers, allow_nan=False, ensure_ascii=True).replace("<", "\\u003c")
    tail = [f'<script type="application/json" id="answers">{data}</script>']
    tail += [f"<script>{each}</script>" for each in scripts]
    return (
        asset("index.html")
        .replace("<!-- head -->", "\n".join(head))
        .replace("<!-- tail -->", "\n".join(tail))
    )


def _answers(runs: list[Path]) -> Iterator[tuple[str, Any]]:
    def asked(question: str) -> tuple[str, Any]:
        return question, answer(runs, question)

    yield asked("runs")
    yield asked("lab")
    for number, run in enumerate(runs):
        yield from (
            asked(f"{number}/{question}") for question in ("curves", "advice", "results", "about")
        )
        question, found = asked(f"{number}/groups")
        most = COMPLETIONS // len(runs) // max([each["n"] for each in found["groups"]], default=1)
        kept = evenly(found["groups"], max(1, most))
        yield question, found | {"groups": kept}
        yield from (asked(f"{number}/group/{each['step']}/{each['group']}") for each in kept)
        question, there = asked(f"{number}/explained")
        yield question, there
        yield from (asked(f"{number}/tokens/{each['step']}/{each['row']}") for each in there)
        for benchmark, labels in describe(run)["evaluations"].items():
            for before, after in combinations(labels, 2):
                question, found = asked(f"{number}/changed/{benchmark}/{before}/{after}")
                flips = [row for row in found["rows"] if row["kind"] in ("won", "lost")][:FLIPS]
                rows = flips + evenly(found["rows"][len(flips) :], FLIPS - len(flips))
                yield question, found | {"rows": rows}
                yield from (
                    asked(f"{number}/pair/{benchmark}/{before}/{after}/{row['id']}") for row in rows
                )


def evenly(rows: list, most: int) -> list:
    """So many of the rows, at even distances, the first and the last among them."""
    if len(rows) <= most or most < 2:
        return rows[: max(0, most)]
    return [rows[round(i * (len(rows) - 1) / (most - 1))] for i in range(most)]


# What it asks -------------------------------------------------------------------------------------

# The pattern of a question's path, and the function that answers it for a run.
QUESTIONS: dict[str, Callable[..., Any]] = {
    r"curves": curves,
    r"advice": advice,
    r"results": results,
    r"about": about,
    r"search/(.+)": groups.search,
    r"groups": groups.index,
    r"group/(\d+)/(\d+)": lambda run, step, place: groups.group(run, int(step), int(place)),
    r"text/(\d+)/(\d+)": lambda run, step, row: {"text": groups.text(run, int(step), int(row))},
    r"explained": groups.explained,
    r"tokens/(\d+)/(\d+)": lambda run, step, row: groups.tokens(run, int(step), int(row)),
    r"changed/([^/]+)/([^/]+)/([^/]+)": changed,
    r"pair/([^/]+)/([^/]+)/([^/]+)/(\d+)": lambda run, name, a, b, i: pair(run, name, a, b, int(i)),
}
# What may be raised by files that no run wrote.
ODD = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, OSError)


def complaint(error: Exception) -> str:
    """What to say of one of these."""
    return (
        str(error)
        if isinstance(error, ValueError | OSError)
        else f"a file is not what a run wrote ({error})"
    )


def answer(runs: list[Path], question: str) -> Any:
    """The answer, as JSON, to a path such as `runs` or `0/group/40/3`, where 0 is the place of a
    run among those shown.

    Raises:
        ValueError: there is no such question, or nothing that answers it; the message is for the
            reader of the page.
    """
    if question == "runs":
        return [describe(run) for run in runs]
    if question == "lab":
        return LAB | {"memory": json.loads(MEMORY.read_text(encoding="utf-8"))}
    number, _, asked = question.partition("/")
    if not re.fullmatch(r"\d{1,4}", number) or int(number) >= len(runs):
        raise ValueError(f"there is no run {number:.20}")
    for pattern, function in QUESTIONS.items():
        if found := re.fullmatch(pattern, asked):
            return function(runs[int(number)], *found.groups())
    raise ValueError(f"nothing answers {asked:.80}")


# Its server ---------------------------------------------------------------------------------------


def app(runs: list[Path]) -> Starlette:
    """The application that shows these runs. Another site's page cannot read it through a name of
    its own that leads to this machine: the Host header has to be ours."""
    return Starlette(
        routes=[
            Route("/", _page),
            *(Route(f"/{name}", partial(_asset, name=name)) for name in ASSETS),
            Route(
                "/api/{run:int}/explain/{step:int}/{row:int}", _explaining(runs), methods=["POST"]
            ),
            Route("/api/{question:path}", _asked(runs)),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)],
    )


def serve(runs: list[Path], port: int, ready: Callable[[int], None]):
    """Serve the page on 127.0.0.1 until Ctrl-C; port 0 takes a free one. `ready` gets the port.

    Raises:
        OSError: the port is taken.
    """
    config = uvicorn.Config(app(runs), log_level="warning", access_log=False, server_header=False)
    server = uvicorn.Server(config)
    # An interrupt that is raised while the loop is made would leave half a loop, of which Python
    # complains.
    signal.signal(signal.SIGINT, server.handle_exit)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen()
        ready(listening.getsockname()[1])
        server.run(sockets=[listening])


async def _page(request: Request) -> Response:
    return Response(served(), media_type="text/html", headers=HEADERS)


async def _asset(request: Request, name: str) -> Response:
    return Response(asset(name), media_type=ASSETS[name], headers=HEADERS)


def _explaining(runs: list[Path]) -> Callable:
    """Works one completion out token by token, as `make explain` does, and answers when that has
    ended. Only the page itself may ask: a browser says whose page sends a POST, and nothing else
    can say so in its place.
    """
    working = asyncio.Lock()  # the weights of one are enough

    async def asked(request: Request) -> Response:
        if request.headers.get("sec-fetch-site") != "same-origin":
            return JSONResponse({"error": "only this page may ask"}, 403, headers=HEADERS)
        given = request.path_params
        if given["run"] >= len(runs) or working.locked():
            why = (
                "another completion is being worked out"
                if working.locked()
                else f"there is no run {given['run']}"
            )
            return JSONResponse({"error": why}, 409, headers=HEADERS)
        async with working:
            words = [
                str(runs[given["run"]].absolute()),
                f"--step={given['step']}",
                f"--row={given['row']}",
            ]
            pipe = asyncio.subprocess.PIPE
            command = [sys.executable, "-m", "stages.explain", *words]
            process = await asyncio.create_subprocess_exec(
                *command, stdout=pipe, stderr=asyncio.subprocess.STDOUT
            )
            said = (await process.communicate())[0].decode("utf-8", "replace").strip()
        if process.returncode:
            return JSONResponse(
                {"error": said[-1000:] or "it ended without a word"}, 409, headers=HEADERS
            )
        return JSONResponse({}, headers=HEADERS)

    return asked


def _asked(runs: list[Path]) -> Callable:
    async def asked(request: Request) -> Response:
        # Browsers say so where another site's page asks, to be shown an image, say.
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return JSONResponse({"error": "only this page may ask"}, 403, headers=HEADERS)
        try:
            found = await run_in_threadpool(answer, runs, request.path_params["question"])
            return JSONResponse(found, headers=HEADERS)
        except ODD as error:
            return JSONResponse({"error": complaint(error)}, 404, headers=HEADERS)

    return asked
