"""Connections to a source database.

Here: a database that does not answer. Not here: passwords in errors (`onboarding/reflection/test_init_passwords.py`).
"""

import socket
import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from lake_assets.storage import database_connection
from lake_assets.storage.database_connection import SourceError, connected
from lake_assets.storage.secret_values import Secrets


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that accepts connections and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.mark.parametrize("query", ["", "?connect_timeout=2"])
def test_a_database_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, silent: int, query: str) -> None:
    """The limit of the URL counts, if it has one."""
    monkeypatch.setattr(database_connection, "CONNECT_SECONDS", 60 if query else 2)
    began = time.monotonic()
    address = f"postgresql://user:hush@127.0.0.1:{silent}/shop{query}"
    with (
        pytest.raises(SourceError, match="The database cannot be read") as raised,
        connected(address, Secrets(lambda: None)) as engine,
        engine.connect() as connection,
    ):
        connection.execute(sa.text("SELECT 1"))
    assert time.monotonic() - began < 30
    assert "hush" not in str(raised.value)
