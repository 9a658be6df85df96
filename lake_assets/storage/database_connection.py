"""Connections to a source database, by SQLAlchemy.

Here: the address, the driver, rotated passwords, and errors without secrets. Not here: what is read
(`storage/reflection/reflect.py`, `checks/source_figures.py`). No other module gets the password.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, quote_plus

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from lake_assets.config.aws.secret_references import has_reference
from lake_assets.errors import LakeError
from lake_assets.storage.secret_values import Secrets

EXAMPLE = "postgresql://user:password@host:5432/database"
_PACKAGES = {
    "psycopg": "psycopg[binary]",
    "psycopg2": "psycopg2-binary",
    "MySQLdb": "mysqlclient",
    "mysql": "mysql-connector-python",
}
"""The package on PyPI by the module of a driver, where they differ."""
_OTHER_DRIVER = {
    "postgresql": ("postgresql+psycopg", "psycopg[binary]"),
    "mysql": ("mysql+pymysql", "pymysql"),
    "mariadb": ("mariadb+pymysql", "pymysql"),
    "oracle": ("oracle+oracledb", "oracledb"),
    "mssql": ("mssql+pymssql", "pymssql"),
}
"""By engine, a driver that needs no further library: its URL and its package."""
ESCAPE = "In its user and its password, write @ as %40, / as %2F, : as %3A, ? as %3F, # as %23 and % as %25."


CONNECT_SECONDS = 15
"""How long a driver waits for a database that does not answer. Without a limit, a table would wait for a firewall that
drops its packets for minutes."""
_LIMITED = ("psycopg", "psycopg2", "pymysql", "mysqldb")
"""The drivers that take `connect_timeout` from a URL."""


class SourceError(LakeError):
    """A source database cannot be read. The message has neither its address nor its password."""


def backend_name(address: str) -> str:
    """The engine that a SQLAlchemy URL names, such as `postgresql`. Raises SourceError."""
    return _url(address).get_backend_name()


@contextmanager
def connected(address: str, secrets: Secrets) -> Iterator[sa.Engine]:
    """An engine for the database at a SQLAlchemy URL, which may refer to secrets, inside of the block. Raises
    SourceError, also for errors of the database inside of the block, and SecretUnavailable."""

    def of_now() -> URL:
        found = _url(secrets.filled(address))
        if found.drivername == "postgresql":
            # The driver that the extra `init` brings.
            found = found.set(drivername="postgresql+psycopg")
        if found.get_driver_name() not in _LIMITED or "connect_timeout" in found.query:
            return found
        return found.update_query_dict({"connect_timeout": str(CONNECT_SECONDS)})

    url = of_now()
    try:
        engine = sa.create_engine(url)
        if has_reference(address):
            follow_rotation(engine, of_now, secrets)
        try:
            yield engine
        finally:
            engine.dispose()
    except ModuleNotFoundError as error:
        raise SourceError(_missing(error.name or "", url.get_backend_name())) from None
    except (sa.exc.SQLAlchemyError, UnicodeError) as error:
        raise SourceError(f"The database cannot be read: {_without_secrets(error, url)}") from None


def _missing(module: str, backend: str) -> str:
    package = _PACKAGES.get(module, module)
    other = _OTHER_DRIVER.get(backend)
    instead = (
        "" if other is None or other[1] == package else f", or write {other[0]}://… and install {other[1]}"
    )
    return f"The driver {module} is not installed: pip install '{package}'{instead}."


def follow_rotation(engine: sa.Engine, address: Callable[[], URL], secrets: Secrets) -> None:
    """Makes the engine open each connection with the secrets of that moment. A connection that is open stays open."""

    @sa.event.listens_for(engine, "do_connect")
    def connect(dialect: sa.Dialect, record: object, arguments: object, settings: object) -> Any:
        def opened(url: URL) -> Any:
            found, named = dialect.create_connect_args(url)
            return dialect.connect(*found, **named)

        return secrets.use(address, opened, dialect.loaded_dbapi.Error)


def _url(address: str) -> URL:
    try:
        url = make_url(address)
        # libpq and many tools call PostgreSQL so.
        if url.drivername == "postgres" or url.drivername.startswith("postgres+"):
            url = url.set(drivername=url.drivername.replace("postgres", "postgresql", 1))
    except (
        sa.exc.ArgumentError,
        ValueError,
    ):  # ValueError: the port is not a number, but perhaps a part of a password
        raise SourceError(f"The address of the database is not a URL such as {EXAMPLE}. {ESCAPE}") from None
    # With an unescaped sign, the rest of a password would be read as the host or the database, which a driver names in
    # its errors.
    if "@" in address.partition("://")[2].partition("@")[2] or "@" in f"{url.host}{url.database}{url.query}":
        raise SourceError(f"The address of the database is ambiguous. {ESCAPE}")
    return url


def _without_secrets(error: Exception, url: URL) -> str:
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else error
    text = " ".join(str(cause).split()) or type(cause).__name__
    known = [str(secret) for secret in (url.password, *url.query.values()) if secret]
    # A driver may repeat the secrets as they were written, still escaped.
    for secret in sorted((*known, *map(quote_plus, known), *map(quote, known)), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
