"""The page's server: on this machine only, and it only reads. What a browser may ask of it stands in `routes`.
What the page can ask, as paths, and the answers to them, which may also be written into a page of its own."""

import json
import re
import socket
from collections.abc import Callable
from functools import partial
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

from viewer import changed, groups, lab, page, tokens
from viewer.runs import advice, curves, describe

MEMORY = Path(__file__).parent / "page/memory.json"  # made by tests/bench/sizes.py
# The pattern of a question's path, and the function that answers it for a run.
QUESTIONS: dict[str, Callable[..., Any]] = {
    r"curves": curves,
    r"advice": advice,
    r"groups": groups.index,
    r"group/(\d+)/(\d+)": lambda run, step, place: groups.group(run, int(step), int(place)),
    r"text/(\d+)/(\d+)": lambda run, step, row: {"text": groups.text(run, int(step), int(row))},
    r"explained": tokens.explained,
    r"tokens/(\d+)/(\d+)": lambda run, step, row: tokens.tokens(run, int(step), int(row)),
    r"changed/([^/]+)/([^/]+)/([^/]+)": changed.changed,
    r"pair/([^/]+)/([^/]+)/([^/]+)/(\d+)": lambda run, benchmark, before, after, question: changed.pair(
        run, benchmark, before, after, int(question)
    ),
}


# What may be raised by files that no run wrote.
ODD = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, OSError)


# What else a page could do in the browser that shows it: nothing is fetched from elsewhere, sent there or framed.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
HOSTS = ["127.0.0.1", "localhost"]


def complaint(error: Exception) -> str:
    """What to say of one of these."""
    return str(error) if isinstance(error, ValueError | OSError) else f"a file is not what a run wrote ({error})"


def answer(runs: list[Path], question: str) -> Any:
    """The answer, as JSON, to a path such as `runs` or `0/group/40/3`, where 0 is the place of a run among those shown.

    Raises:
        ValueError: there is no such question, or nothing that answers it; the message is for the reader of the page.
    """
    if question == "runs":
        return [describe(run) for run in runs]
    if question.startswith("lab/"):
        return _of_lab(question.removeprefix("lab/"))
    number, _, asked = question.partition("/")
    if not re.fullmatch(r"\d{1,4}", number) or int(number) >= len(runs):
        raise ValueError(f"there is no run {number:.20}")
    for pattern, function in QUESTIONS.items():
        if found := re.fullmatch(pattern, asked):
            return function(runs[int(number)], *found.groups())
    raise ValueError(f"nothing answers {asked:.80}")


def _of_lab(asked: str) -> Any:
    """What the lab computes: its `settings`; `memory`, of PPO and GRPO by the size of a model; with settings as
    JSON, `compare` of all algorithms, or a `run` of one."""
    if asked == "memory":
        return json.loads(MEMORY.read_text(encoding="utf-8"))
    if asked == "settings":
        return {
            "algorithms": lab.ALGORITHMS,
            "landscapes": lab.LANDSCAPES,
            "defaults": {name: default for name, (_, default) in lab.SETTINGS.items()},
        }
    kind, _, text = asked.partition("/")
    try:
        given = json.loads(text)
        if kind == "run":
            return lab.run(**given)
        given.pop("algorithm", None)
        runs = {name: lab.run(name, **given) for name in lab.ALGORITHMS if kind == "compare"}
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"settings are a JSON object of the lab's names ({error})") from None
    if not runs:
        raise ValueError(f"the lab has no {kind:.20}")
    return {name: {key: run[key] for key in ("expected_reward", "kl", "diverged")} for name, run in runs.items()}


def app(runs: list[Path]) -> Starlette:
    """The application that shows these runs. Another site's page cannot read it through a name of its own that leads to
    this machine: the Host header has to be ours."""
    return Starlette(
        routes=[
            Route("/", _page),
            *(Route(f"/{name}", partial(_asset, name=name)) for name in page.ASSETS),
            Route("/api/{question:path}", _asked(runs)),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)],
    )


def serve(runs: list[Path], port: int, ready: Callable[[int], None]):
    """Serve the page on 127.0.0.1 until the process is stopped; port 0 takes a free one. `ready` gets the port.

    Raises:
        OSError: the port is taken.
    """
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen()
        ready(listening.getsockname()[1])
        config = uvicorn.Config(app(runs), log_level="warning", access_log=False, server_header=False)
        uvicorn.Server(config).run(sockets=[listening])


async def _page(request: Request) -> Response:
    return Response(page.served(), media_type="text/html", headers=HEADERS)


async def _asset(request: Request, name: str) -> Response:
    return Response(page.asset(name), media_type=page.ASSETS[name], headers=HEADERS)


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
