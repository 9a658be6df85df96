"""A connection to Snowflake, by its connector for Python.

Here: opening one, with the secrets of today, and executing a statement. Not here: the statements (`statements.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import SecretStr

from lake_assets.config import SnowflakeConfig
from lake_assets.errors import LakeError
from lake_assets.storage.secret_values import Secrets

PATIENCE = {
    "login_timeout": 15,
    "network_timeout": 30,
    "session_parameters": {"STATEMENT_TIMEOUT_IN_SECONDS": 60, "QUERY_TAG": "lake_assets"},
}
"""Seconds; by default, the connector tries for minutes, or for ever, and a statement may take two days."""
Connect = Callable[..., Any]
"""Opens a DB-API connection with these parameters."""


class Unreached(Exception):
    """No connection could be opened."""


class SnowflakeConnection:
    """A DB-API connection that is opened on first use."""

    def __init__(self, config: SnowflakeConfig, secrets: Secrets, connect: Connect | None = None) -> None:
        self._config, self._secrets, self._connect = config, secrets, connect
        self._open: Any = None

    def rows(self, statement: str) -> list[Sequence[Any]]:
        """The rows that the statement returns. Raises Unreached, what the connector raises for the statement, and
        LakeError if the connector is missing."""
        with self._cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def records(self, statement: str) -> list[Mapping[str, Any]]:
        """The rows by the names of their columns."""
        with self._cursor() as cursor:
            cursor.execute(statement)
            columns = [column[0] for column in cursor.description]
            return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]

    def close(self) -> None:
        """Forgets the connection: the next statement opens another one."""
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()

    def _cursor(self) -> Any:
        if self._open is None:
            connect = self._connect or _connector()
            try:
                self._open = self._secrets.use(self._parameters, lambda given: connect(**given), Exception)
            except Exception as error:
                raise Unreached from error
        return self._open.cursor()

    def _parameters(self) -> dict[str, Any]:
        given = {
            name: self._secrets.filled(value.get_secret_value()) if isinstance(value, SecretStr) else value
            for name, value in self._config.connect.items()
        }
        return {**PATIENCE, "application": "lake_assets", **given}


def _connector() -> Connect:
    try:
        from snowflake.connector import connect
    except ImportError:
        raise LakeError(
            "warehouses.snowflake needs Snowflake's connector: install lake_assets[snowflake]"
        ) from None
    found: Connect = connect
    return found
