"""Reads a source database's tables by SQLAlchemy's reflection, with the types that lake.yaml declares for them.

Here: selecting tables, and the names of SQLAlchemy's types. Not here: connecting (`storage/database_connection.py`),
converting a name (a module for each engine), the text of lake.yaml (`lake_yaml_text.py`).
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import DOMAIN
from sqlalchemy.engine.interfaces import ReflectedColumn

from lake_assets.config import TableName
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.database_connection import SourceError, backend_name, connected
from lake_assets.storage.reflection import mysql, oracle, postgresql, sql_server
from lake_assets.storage.reflection.declared import Declared, TypeName, parse_type, undecided
from lake_assets.storage.secret_values import Secrets

ENGINES: Mapping[str, tuple[str, Callable[[TypeName], Declared]]] = {
    "postgresql": ("PostgreSQL", postgresql.declared_type),
    "mysql": ("MySQL", mysql.declared_type),
    "mariadb": ("MariaDB", mysql.declared_type),
    "oracle": ("Oracle", oracle.declared_type),
    "mssql": ("SQL Server", sql_server.declared_type),
}
"""By SQLAlchemy's dialect name."""

_SYSTEM_SCHEMAS = re.compile(
    r"information_schema|pg_.*|mysql|performance_schema|sys|guest|db_.*|INFORMATION_SCHEMA", re.ASCII
)
_CONTROL_TABLES = re.compile(r"awsdms_.*", re.IGNORECASE)
_UNRECOGNISED = re.compile(r"Did not recognize type '(.*)' of column '(.*)'")


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """One column, in the source's spelling."""

    name: str
    declared: Declared
    required: bool
    comment: str | None = None
    """What the source's own comment says of it."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One table, its columns in the source's order."""

    schema: str
    name: str
    columns: tuple[SourceColumn, ...]
    primary_key: tuple[str, ...]
    unique_keys: tuple[tuple[str, ...], ...] = ()
    """Unique constraints on NOT NULL columns: candidates for a key if the table has none."""


def read_tables(
    address: str, schemas: Sequence[str] = (), secrets: Secrets | None = None
) -> tuple[str, list[SourceTable]]:
    """The engine's name and the tables of the schemas (by default all schemas of the user), by schema and name.

    `address` is a SQLAlchemy URL, which may refer to secrets: `secrets` are those of a lake.yaml, by default those that
    AWS's own configuration leads to. Raises SourceError and SecretUnavailable.
    """
    secrets = secrets or Aws().secrets
    backend = backend_name(secrets.filled(address))
    if backend not in ENGINES:
        known = ", ".join(dict.fromkeys(name for name, _ in ENGINES.values()))
        raise SourceError(f"{backend} is not a known engine: DMS's types are known for {known}.")
    with connected(address, secrets) as engine:
        inspector = sa.inspect(engine)
        wanted = list(schemas) or _own_schemas(inspector)
        tables = [table for schema in wanted for table in _tables(inspector, engine.dialect, schema)]
    if not tables:
        raise SourceError(
            f"No tables in {', '.join(wanted) or 'any schema'}: name the schema with --schema, in the database's "
            "spelling, and see that the user may read it."
        )
    return ENGINES[backend][0], tables


def read_table(address: str, name: str, secrets: Secrets) -> SourceTable | None:
    """The table `schema.table`, in the source's spelling; None without one. `address` and `secrets` as in
    `read_tables`. Raises SourceError and SecretUnavailable."""
    schema, table = TableName.parse(name)
    with connected(address, secrets) as engine:
        inspector = sa.inspect(engine)
        if engine.dialect.requires_name_normalize:
            schema = cast("Callable[[str], str]", engine.dialect.normalize_name)(schema)
        found = list(_tables(inspector, engine.dialect, schema, only=table))
    return found[0] if found else None


def _own_schemas(inspector: sa.Inspector) -> list[str]:
    default = inspector.default_schema_name
    if inspector.dialect.name in ("oracle", "mysql", "mariadb") and default:
        # Every user and every database of the server is a schema there.
        return [default]
    return [name for name in sorted(inspector.get_schema_names()) if not _SYSTEM_SCHEMAS.fullmatch(name)]


def _tables(
    inspector: sa.Inspector, dialect: sa.Dialect, schema: str, only: str | None = None
) -> Iterator[SourceTable]:
    # Oracle's names are upper case in the files, and lower case in SQLAlchemy.
    spelt = cast("Callable[[str], str]", dialect.denormalize_name) if dialect.requires_name_normalize else str
    domains = _domains(inspector) if dialect.name == "postgresql" else {}
    for name in sorted(inspector.get_table_names(schema=schema)):
        if _CONTROL_TABLES.fullmatch(name) or only not in (None, spelt(name)):
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", sa.exc.SAWarning)
            columns = inspector.get_columns(name, schema=schema)
        found = (_UNRECOGNISED.match(str(warning.message)) for warning in caught)
        unknown = {match[2]: match[1] for match in found if match is not None}
        required = {column["name"] for column in columns if not column["nullable"]}
        key = inspector.get_pk_constraint(name, schema=schema).get("constrained_columns") or []
        unique = [tuple(u["column_names"]) for u in inspector.get_unique_constraints(name, schema=schema)]
        yield SourceTable(
            schema=spelt(schema),
            name=spelt(name),
            columns=tuple(
                SourceColumn(
                    spelt(column["name"]),
                    _declared(column, unknown.get(column["name"]), dialect, domains),
                    required=column["name"] in required or column["name"] in key,
                    comment=column.get("comment"),
                )
                for column in columns
            ),
            primary_key=tuple(map(spelt, key)),
            unique_keys=tuple(tuple(map(spelt, names)) for names in unique if set(names) <= required),
        )


def _domains(inspector: sa.Inspector) -> dict[str, str]:
    """PostgreSQL's domains with the text of their base types; SQLAlchemy drops the digits of these."""
    query = "SELECT typname, format_type(typbasetype, typtypmod) FROM pg_catalog.pg_type WHERE typtype = 'd'"
    with inspector.engine.connect() as connection:
        return {row[0]: row[1] for row in connection.exec_driver_sql(query)}


def _declared(
    column: ReflectedColumn, unknown: str | None, dialect: sa.Dialect, domains: Mapping[str, str]
) -> Declared:
    if column.get("computed"):
        return undecided(
            "computed by the source: check whether DMS writes it; if so declare its type, else remove it here"
        )
    if unknown is not None:
        return ENGINES[dialect.name][1](parse_type(unknown))
    return declared_type(column["type"], dialect, domains)


def declared_type(
    kind: sa.types.TypeEngine[object], dialect: sa.Dialect, domains: Mapping[str, str] = MappingProxyType({})
) -> Declared:
    """What a reflected column of this type is declared as; `domains` are the texts of domains' base types."""
    declared = ENGINES[dialect.name][1]
    if isinstance(kind, DOMAIN):
        text = domains.get(kind.name or "")
        if isinstance(kind.data_type, sa.Numeric) and text is not None:
            base = declared(parse_type(text))
        else:
            base = declared_type(kind.data_type, dialect, domains)
        return Declared(base.type, f"domain {kind.name}" + (f": {base.comment}" if base.comment else ""))
    if isinstance(kind, sa.Enum):
        return declared(TypeName("ENUM"))
    if isinstance(kind, sa.ARRAY):
        return declared(TypeName("ARRAY"))
    if isinstance(kind, sa.types.NullType):
        return undecided("SQLAlchemy does not know its type: check what DMS writes, and declare that")
    try:
        return declared(parse_type(kind.compile(dialect=dialect)))
    except sa.exc.UnsupportedCompilationError:
        # SQLAlchemy reflects the type but cannot write it as DDL: Oracle's BFILE.
        return declared(parse_type(type(kind).__name__))
