"""What the Dagster of tests does without: work that it does again for each of its databases and each of its queries.

Here: for each process of tests. Not here: settings of an instance (`dagster_shop.py`).
"""

from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._core.storage.runs.sqlite import sqlite_run_storage
from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage


def remember_migrations() -> None:
    """Dagster asks for the newest migration of each database, and every run has a database of its own. Alembic executes
    the fifty files of all migrations for that; they stay the same. Call it once in a process."""
    read, known = ScriptDirectory.from_config, dict[str, ScriptDirectory]()

    def found(config: Config) -> ScriptDirectory:
        place = str(config.get_main_option("script_location"))
        if place not in known:
            known[place] = read(config)
        return known[place]

    ScriptDirectory.from_config = staticmethod(found)  # type: ignore[method-assign]


def remember_engines() -> None:
    """Dagster makes an engine of SQLAlchemy for each query, which asks SQLite for its version and compiles the query
    again. An engine keeps no connection. Call it once in a process."""

    @lru_cache(maxsize=64)
    def engine(address: str, timeout: float | None) -> sa.Engine:
        options = {} if timeout is None else {"connect_args": {"timeout": timeout}}
        return sa.create_engine(address, poolclass=sa.NullPool, **options)

    def known(address: str, poolclass: type[sa.NullPool], connect_args: Any = None) -> sa.Engine:
        return engine(address, (connect_args or {}).get("timeout"))

    storages: list[Any] = [sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage]
    for storage in storages:
        storage.create_engine = known
