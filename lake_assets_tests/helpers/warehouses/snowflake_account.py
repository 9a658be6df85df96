"""An account of Snowflake as far as the lake uses it: a DB-API connection that records every statement, and that knows
of each table which metadata file was read last.

Snowflake's own state is in a file, so that processes share it as they share an account. Here: the statements that the
lake sends, and their effects. Not here: Snowflake's syntax, which no program can check here.
"""

import fcntl
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog

_TABLE = r'"LAKE"\."(?P<schema>[^"]+)"\."(?P<table>[^"]+)"'
_CREATE = re.compile(rf"CREATE ICEBERG TABLE IF NOT EXISTS {_TABLE}")
_REFRESH = re.compile(rf"ALTER ICEBERG TABLE {_TABLE} REFRESH")
_INFORMATION = re.compile(rf"SELECT SYSTEM\$GET_ICEBERG_TABLE_INFORMATION\('{_TABLE}'\)")
CONNECTOR = '''\
"""In place of Snowflake's connector."""
import os
from pathlib import Path

from lake_assets_tests.helpers.warehouses.snowflake_account import SnowflakeAccount


def connect(**given):
    return SnowflakeAccount(Path(os.environ["SNOWFLAKE_ACCOUNT"]), Path(os.environ["LAKE_CONFIG"])).connect(**given)
'''


class Refused(Exception):
    """Snowflake refuses a statement."""


@dataclass(frozen=True)
class SnowflakeAccount:
    """An account whose state is in a file; it reads the catalog of a lake.yaml."""

    state: Path
    lake: Path

    def connect(self, **given: Any) -> "Connection":
        with self.changed() as state:
            if (reason := state["faults"].get("connect")) is not None:
                raise Refused(reason)
            state["connections"].append(given)
        return Connection(self)

    @contextmanager
    def changed(self) -> Iterator[dict[str, Any]]:
        """The state, to be changed."""
        with self.state.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            state = (
                json.loads(text)
                if text
                else {"tables": {}, "statements": [], "connections": [], "faults": {}, "auto": []}
            )
            try:
                yield state
            finally:
                file.seek(0)
                file.truncate()
                json.dump(state, file)

    def statements(self, beginning: str = "") -> list[str]:
        """The statements that were executed, and forgets them."""
        with self.changed() as state:
            found, state["statements"] = state["statements"], []
        return [statement for statement in found if statement.startswith(beginning)]

    def fail(self, **faults: str | None) -> None:
        """From now on, statements that contain a key are refused; `connect` for connections. None ends a fault."""
        with self.changed() as state:
            state["faults"] = {k: v for k, v in {**state["faults"], **faults}.items() if v is not None}

    def poll(self) -> None:
        """Snowflake looks for new commits, as it does after each refresh interval."""
        with self.changed() as state:
            for name in state["auto"]:
                state["tables"][name] = self.newest(name)

    def shows(self) -> Mapping[str, str]:
        """By `SCHEMA.TABLE`, the metadata file that was read last."""
        with self.changed() as state:
            return dict(state["tables"])

    def newest(self, name: str) -> str:
        """The table's metadata file in the lake's catalog."""
        catalog = open_catalog(load_lake(self.lake).catalog)
        return catalog.load_table(tuple(name.lower().split("."))).metadata_location


class Connection:
    """A connection, and its only cursor."""

    description = (("created_on",), ("name",), ("schema_name",))

    def __init__(self, account: SnowflakeAccount) -> None:
        self._account = account
        self._rows: list[tuple[Any, ...]] = []

    def cursor(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def close(self) -> None:
        pass

    def execute(self, statement: str) -> None:
        account = self._account
        with account.changed() as state:
            for part, reason in state["faults"].items():
                if part in statement:
                    raise Refused(reason)
            state["statements"].append(statement)
            self._rows = []
            if statement.startswith("SHOW ICEBERG TABLES"):
                self._rows = [("", *reversed(name.split("."))) for name in state["tables"]]
            elif created := _CREATE.match(statement):
                name = f"{created['schema']}.{created['table']}"
                if name not in state["tables"]:
                    state["tables"][name] = account.newest(name)
                    if "AUTO_REFRESH = TRUE" in statement:
                        state["auto"].append(name)
            elif refreshed := _REFRESH.match(statement):
                name = f"{refreshed['schema']}.{refreshed['table']}"
                state["tables"][name] = account.newest(name)
            elif asked := _INFORMATION.match(statement):
                location = state["tables"][f"{asked['schema']}.{asked['table']}"]
                self._rows = [(json.dumps({"metadataLocation": location, "status": "success"}),)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows


def connector(folder: Path) -> Path:
    """A folder for PYTHONPATH in which the account of SNOWFLAKE_ACCOUNT, a file, stands for Snowflake's connector."""
    package = folder / "snowflake" / "connector"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(CONNECTOR, encoding="utf-8")
    return folder
