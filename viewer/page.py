"""The page: served in parts, or written as one file that needs neither server nor network; and the
answers to its questions, which are paths. The server is for who has its address, in which a random
token stands: other accounts of the machine reach its port too. It only reads."""

import base64
import hashlib
import json
import re
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from runs.folder import public
from viewer import groups
from viewer.runs import about, advice, changed, curves, describe, pair, results

FOLDER = Path(__file__).parent / "page"
# The lab's choices and default settings, which page/lab.js explains.
LAB = json.loads((FOLDER / "lab.json").read_text(encoding="utf-8"))
OURS = ("text.js", "data.js", "curves.js", "overview.js", "arithmetic.js", "groups.js")
OURS += ("changed.js", "bandit.js", "lessons.js", "widgets.js")
# The lab's, in the order in which it shows them.
WIDGETS = ("group", "signal", "ratio", "drift", "credit", "hacking", "bandit", "memory")
OURS += (*(f"lab-{name}.js" for name in WIDGETS), "lab.js", "app.js")
SCRIPTS = ("vendor/uPlot.iife.min.js", *OURS)
STYLES = ("vendor/uPlot.min.css", "style.css")
ASSETS = dict.fromkeys(SCRIPTS, "text/javascript") | dict.fromkeys(STYLES, "text/css")
# The most completions, and questions of an evaluation, of a run in one file.
COMPLETIONS = 4_000
FLIPS = 300
LONGEST_ANSWER = 200  # characters of an answer that a reader of the lab types
# The browser that shows the page may fetch nothing from other sites, send nothing to them, and
# frame nothing.
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


def asset(name: str) -> str:
    """The text of one of the page's files."""
    return (FOLDER / name).read_text(encoding="utf-8")


def served_page() -> str:
    """The page that gets its data from a server."""
    head = [f'<link rel="stylesheet" href="{name}">' for name in STYLES]
    head += [f'<script defer src="{name}"></script>' for name in SCRIPTS]
    return asset("index.html").replace("<!-- head -->", "\n".join(head))


def standalone_page(runs: list[Path]) -> str:
    """The page with its data in it; a run with many groups has an even sample of them, and the page
    says so."""
    answers = json.dumps(dict(_answers(runs)), allow_nan=False, ensure_ascii=False)
    answers = json.loads(public(answers, *runs))
    sources = ""
    tail = ""
    for script in map(asset, SCRIPTS):
        digest = hashlib.sha256(script.encode()).digest()
        sources += f" 'sha256-{base64.b64encode(digest).decode()}'"
        tail += f"\n<script>{script}</script>"
    # Only these scripts may run, whatever a completion contains, and none may reach the network.
    policy = (
        f"default-src 'none'; script-src{sources}; style-src 'unsafe-inline';"
        " img-src data:; base-uri 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    for style in map(asset, STYLES):
        head += f"\n<style>{style}</style>"
    # In a script element only `</script` and `<!--` have a meaning, and JSON can escape every <.
    data = json.dumps(answers, allow_nan=False, ensure_ascii=True).replace("<", "\\u003c")
    tail = f'<script type="application/json" id="answers">{data}</script>{tail}'
    return asset("index.html").replace("<!-- head -->", head).replace("<!-- tail -->", tail)


def _answers(runs: list[Path]) -> Iterator[tuple[str, Any]]:
    """Every question that the standalone page can ask, with its answer."""
    for question in ("runs", "lab"):
        yield question, answer(runs, question)
    for number in range(len(runs)):
        ask = partial(_ask, runs, number)
        for name in ("curves", "advice", "results", "about"):
            yield ask(name)
        yield from _group_answers(ask, COMPLETIONS // len(runs))
        yield from _evaluation_answers(ask, describe(runs[number])["evaluations"])


def _ask(runs: list[Path], number: int, path: str) -> tuple[str, Any]:
    """A question about a run, and its answer."""
    return f"{number}/{path}", answer(runs, f"{number}/{path}")


def _group_answers(ask: Callable, completions: int) -> Iterator[tuple[str, Any]]:
    question, index = ask("groups")
    entries = index["groups"]
    largest = max([entry["n"] for entry in entries], default=1)
    limit = max(1, completions // largest)
    trained = [place for place, entry in enumerate(entries) if entry["group"] >= 0]
    again = [place for place, entry in enumerate(entries) if entry["group"] < 0]
    # Of each question that every evaluation samples, about as many steps.
    again.sort(key=lambda place: entries[place]["group"])
    again = evenly(again, limit // 2)
    chosen = sorted(again + evenly(trained, limit - len(again)))
    entries = [entries[place] for place in chosen]
    yield question, index | {"groups": entries}
    for entry in entries:
        yield ask(f"group/{entry['step']}/{entry['group']}")


def _evaluation_answers(ask: Callable, evaluations: dict) -> Iterator[tuple[str, Any]]:
    for benchmark, labels in evaluations.items():
        for before, after in combinations(labels, 2):
            models = f"{benchmark}/{before}/{after}"
            question, changes = ask(f"changed/{models}")
            number = min(FLIPS, changes["counts"]["won"] + changes["counts"]["lost"])
            rows = changes["rows"][:number] + evenly(changes["rows"][number:], FLIPS - number)
            yield question, changes | {"rows": rows}
            for row in rows:
                yield ask(f"pair/{models}/{row['id']}")


def evenly(rows: list, count: int) -> list:
    """At most `count` of the rows, at even distances, including the first and the last."""
    if len(rows) <= count or count < 2:
        return rows[: max(0, count)]
    return [rows[round(i * (len(rows) - 1) / (count - 1))] for i in range(count)]


# The questions ------------------------------------------------------------------------------------

# The pattern of a question's path, and the function that answers it for a run.
QUESTIONS: dict[str, Callable[..., Any]] = {
    r"curves": curves,
    r"advice": advice,
    r"results": results,
    r"about": about,
    r"search/(.+)": groups.search,
    r"groups": groups.index,
    r"group/(\d+)/(-?\d+)": lambda run, step, place: groups.group(run, int(step), int(place)),
    r"changed/([^/]+)/([^/]+)/([^/]+)": changed,
    r"pair/([^/]+)/([^/]+)/([^/]+)/(\d+)": lambda run, name, a, b, i: pair(run, name, a, b, int(i)),
}
# The errors that files which no run wrote can cause.
FILE_ERRORS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, OSError)
FILE_ERRORS += (RecursionError, MemoryError)


def error_message(error: Exception) -> str:
    """The message for a reader about one of `FILE_ERRORS`."""
    if isinstance(error, ValueError | OSError):
        return str(error)
    return f"a file is not what a run wrote ({error})"


def answer(runs: list[Path], question: str) -> Any:
    """The answer, as JSON, to a path such as `runs` or `0/group/40/3`, where 0 is the run's place
    in `runs`. Raises ValueError where there is none; the message is for the reader of the page."""
    if question == "runs":
        return list(map(describe, runs))
    if question == "lab":
        return LAB | {"memory": json.loads(asset("memory.json"))}
    if question.startswith("judge/"):
        return _judge(question.removeprefix("judge/"))
    number, _, path = question.partition("/")
    if not re.fullmatch(r"\d{1,4}", number) or int(number) >= len(runs):
        raise ValueError(f"there is no run {number:.20}")
    for pattern, function in QUESTIONS.items():
        match = re.fullmatch(pattern, path)
        if match:
            return function(runs[int(number)], *match.groups())
    raise ValueError(f"nothing answers {path:.80}")


def _judge(text: str) -> dict:
    """{right, reason}: what the reward says of an answer to the question of the lab's group, by the
    verifier's processes and within their time."""
    from evaluation.answers import judged  # loads the verifier, for which no page waits

    if len(text) > LONGEST_ANSWER:
        raise ValueError(f"an answer has at most {LONGEST_ANSWER} characters here")
    row = {"problem": LAB["group"]["question"], "solution": LAB["group"]["gold"]}
    [verdict] = judged([row], [f"<answer>{text}</answer>"], strict=True)
    return {"right": verdict["right"], "reason": verdict["reason"]}


# The server ---------------------------------------------------------------------------------------


def app(runs: list[Path], token: str) -> Starlette:
    """The application that shows these runs, at `/<token>/` alone: neither another account of this
    machine nor a page of another site knows that address."""
    routes = [Route("/", _page)]
    for name in ASSETS:
        routes.append(Route(f"/{name}", partial(_asset, name=name)))
    routes += [Route("/api/{question:path}", _answer_endpoint(runs))]
    refused = _error("open the complete address that `make view` has printed", 403)
    return Starlette(routes=[Mount(f"/{token}", routes=routes), Mount("", refused)])


def serve(runs: list[Path], port: int, ready: Callable[[int, str], None]):
    """Serve the page on 127.0.0.1 until Ctrl-C; port 0 takes a free port. `ready` is called with
    the port and the token. Raises OSError where the port is taken."""
    token = secrets.token_urlsafe(16)
    application = app(runs, token)
    config = uvicorn.Config(application, log_level="warning", access_log=False, server_header=False)
    server = uvicorn.Server(config)
    # An interrupt raised while the event loop starts would leave half a loop, and Python would
    # complain about it.
    signal.signal(signal.SIGINT, server.handle_exit)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen()
        ready(listening.getsockname()[1], token)
        server.run(sockets=[listening])


def _page(request: Request) -> Response:
    return Response(served_page(), media_type="text/html", headers=HEADERS)


def _asset(request: Request, name: str) -> Response:
    return Response(asset(name), media_type=ASSETS[name], headers=HEADERS)


def _answer_endpoint(runs: list[Path]) -> Callable:
    def respond(request: Request) -> Response:
        try:
            return JSONResponse(answer(runs, request.path_params["question"]), headers=HEADERS)
        except FILE_ERRORS as error:
            return _error(error_message(error), 404)

    return respond


def _error(message: str, status: int) -> Response:
    return JSONResponse({"error": message}, status, headers=HEADERS)
