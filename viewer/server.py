"""The page's server: on this machine only, and it only reads. What a browser may ask of it stands in `routes`."""

import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from viewer import page
from viewer.page import ODD, answer, complaint

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
