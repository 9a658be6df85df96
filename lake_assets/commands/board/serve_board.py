"""The web server of `lake-assets board`.

Here: the pages and how often the lake is read. Not here: what they show (`board.py`).
"""

import threading
import time
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from lake_assets.commands.board.board import FOLDER, page

# No text of a table can run as a script, even if a template did not escape it.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
        "frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
}


def board_app(read: Callable[[], str], refresh: float) -> Starlette:
    """The board's pages. `read` returns the content; however many browsers there are, it is called at most once in
    `refresh` seconds."""
    lock, kept, read_at = threading.Lock(), "", float("-inf")

    def newest() -> str:
        nonlocal kept, read_at
        with lock:
            if time.monotonic() - read_at >= refresh:
                kept = read()
                read_at = time.monotonic()
            return kept

    def whole(request: Request) -> Response:
        return HTMLResponse(page(newest(), refresh), headers=HEADERS)

    def content(request: Request) -> Response:
        return HTMLResponse(newest(), headers=HEADERS)

    def script(request: Request) -> Response:
        return FileResponse(FOLDER / "board.js", headers=HEADERS)

    return Starlette(routes=[Route("/", whole), Route("/content", content), Route("/board.js", script)])
