"""The token of a Spark Connect server on this machine: only clients that have it may use the server.

Here: the file with the token, by the server's port, readable by its owner only. It is in the user's state folder and
not beside a lake, because several lakes may share a server. Not here: the server (`connect_server.py`), sessions on it
(`session.py`).
"""

import contextlib
import os
import tempfile
from pathlib import Path


def keep_token(port: int, token: str) -> None:
    """Writes the token of the server at the port, and replaces a former one. Raises OSError."""
    path = _path(port)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # `mkstemp` makes the file readable by its owner only; the replacement is atomic for readers.
    descriptor, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)
    Path(name).replace(path)


def token_at(port: int) -> str | None:
    """The token of the server that this user has started at the port, or None."""
    try:
        return _path(port).read_text(encoding="ascii")
    except OSError:
        return None


def drop_token(port: int) -> None:
    """Removes the token of a server that has stopped."""
    with contextlib.suppress(OSError):
        _path(port).unlink()


def _path(port: int) -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "lake_assets" / f"spark-connect-{port}.token"
