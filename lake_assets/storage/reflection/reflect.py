"""Reads a source database's tables by SQLAlchemy's reflection, with the types that lake.yaml declares for them.

Here: selecting schemas and tables, and the names of SQLAlchemy's types. Not here: connecting
(`storage/database_connection.py`), converting a name (a module for each engine), the text of lake.yaml
(`lake_yaml_text.py`).
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import cast

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import DOMAIN
from sqlalchemy.engine.interfaces import ReflectedColumn

from lake_assets.config import TableName, did_you_mean
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.database_connection import SourceError, backend_name, connected
from lake_assets.storage.reflection import mysql, oracle, postgresql, sql_server
from lake_assets.storage.reflection.declared import Declared, TypeName, parse_type, undecided
from lake_assets.storage.reflection.postgresql_catalog import Catalog, Storage, read_catalog
from lake_assets.storage.secret_values import Secrets
from lake_assets.words import many

Settings = Mapping[str, str]
"""Settings of DMS's source endpoint, by name in lower case."""
NO_SETTINGS: Settings = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Engine:
    """What is particular to one."""

    name: str
    declared: Callable[[TypeName, Settings], Declared]
    is_lob: Callable[[TypeName], bool]
    system_schemas: re.Pattern[str]
    leaves_out: Callable[[TypeName], bool] = lambda kind: False
    """Whether it does not log a large value of this type that an update leaves as it is."""


_MYSQL = (lambda kind, settings: mysql.declared_type(kind), mysql.is_lob, mysql.SYSTEM_SCHEMAS)
ENGINES: Mapping[str, Engine] = {
    "postgresql": Engine(
        "PostgreSQL",
        postgresql.declared_type,
        postgresql.is_lob,
        postgresql.SYSTEM_SCHEMAS,
        postgresql.is_left_out,
    ),
    "mysql": Engine("MySQL", *_MYSQL),
    "mariadb": Engine("MariaDB", *_MYSQL),
    "oracle": Engine("Oracle", oracle.declared_type, oracle.is_lob, oracle.SYSTEM_SCHEMAS),
    "mssql": Engine(
        "SQL Server",
        lambda kind, settings: sql_server.declared_type(kind),
        sql_server.is_lob,
        sql_server.SYSTEM_SCHEMAS,
    ),
}
"""By SQLAlchemy's dialect name."""

_ONE_SCHEMA = ("oracle", "mysql", "mariadb")
"""Engines where every user or every database of the server is a schema: by default, only the user's own is read."""
_CONTROL_TABLES = re.compile(r"awsdms_.*", re.IGNORECASE)
_UNRECOGNISED = re.compile(r"Did not recognize type '(.*)' of column '(.*)'")
MOST_NAMED = 20


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
    """Unique constraints and indexes on NOT NULL columns: candidates for a key if the table has none."""
    storage: Storage | None = None
    """Of PostgreSQL's tables only."""
    partitions: tuple[str, ...] = ()
    """Tables of its schema that are its partitions, and no tables of their own in lake.yaml."""
    folders: tuple[str, ...] = ()
    """Globs that match them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read."""

    engine: str
    tables: tuple[SourceTable, ...]
    """By schema and name."""
    left_out: tuple[str, ...] = ()
    """What was not read, a phrase for each kind."""


def read_tables(
    address: str,
    schemas: Sequence[str] = (),
    secrets: Secrets | None = None,
    settings: Settings = NO_SETTINGS,
) -> Reading:
    """The tables of the schemas: by default, all of the database that are not the engine's own; with Oracle and MySQL,
    the user's.

    `address` is a SQLAlchemy URL, which may refer to secrets: `secrets` are those of a lake.yaml, by default those that
    AWS's own configuration leads to. Raises SourceError, also for a schema that the database does not have, and
    SecretUnavailable.
    """
    secrets = secrets or Aws().secrets
    backend = _known_backend(address, secrets)
    with connected(address, secrets) as engine:
        inspector = sa.inspect(engine)
        catalog = read_catalog(engine) if backend == "postgresql" else None
        every = catalog.schemas if catalog is not None else tuple(inspector.get_schema_names())
        wanted, left_out = _selected(inspector, schemas, every)
        reader = _Reader(inspector, engine.dialect, catalog, settings)
        tables = tuple(table for schema in wanted for table in reader.tables(schema))
    if not tables:
        raise SourceError(
            f"No tables in {', '.join(wanted) or 'any schema'}: name the schema with --schema, in the database's "
            "spelling, and see that the user may read it."
        )
    return Reading(ENGINES[backend].name, tables, (*left_out, *reader.left_out()))


def read_table(address: str, name: str, secrets: Secrets) -> SourceTable | None:
    """The table `schema.table`, in the source's spelling; None without one. `address` and `secrets` as in
    `read_tables`. Raises SourceError and SecretUnavailable."""
    schema, table = TableName.parse(name)
    _known_backend(address, secrets)
    with connected(address, secrets) as engine:
        inspector = sa.inspect(engine)
        if engine.dialect.requires_name_normalize:
            schema = cast("Callable[[str], str]", engine.dialect.normalize_name)(schema)
        catalog = read_catalog(engine) if engine.dialect.name == "postgresql" else None
        found = list(_Reader(inspector, engine.dialect, catalog).tables(schema, only=table))
    return found[0] if found else None


def _known_backend(address: str, secrets: Secrets) -> str:
    backend = backend_name(secrets.filled(address))
    if backend not in ENGINES:
        known = ", ".join(dict.fromkeys(engine.name for engine in ENGINES.values()))
        raise SourceError(f"{backend} is not a known engine: DMS's types are known for {known}.")
    return backend


def _selected(
    inspector: sa.Inspector, wanted: Sequence[str], every: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The schemas to read, and phrases about the others."""
    engine = ENGINES[inspector.dialect.name]
    if wanted:
        return [_existing(inspector.dialect, schema, every) for schema in wanted], []
    system = sorted(name for name in every if engine.system_schemas.fullmatch(name))
    own = sorted(name for name in every if name not in system)
    left_out = [f"{_schemas(system)}, which {engine.name} itself makes"] if system else []
    default = inspector.default_schema_name
    if inspector.dialect.name in _ONE_SCHEMA and default:
        others = [name for name in own if name != default]
        left_out += [f"{_schemas(others)}, which --schema reads"] if others else []
        return [default], left_out
    return own, left_out


def _existing(dialect: sa.Dialect, name: str, every: Sequence[str]) -> str:
    if name in every:
        return name
    if dialect.requires_name_normalize:
        normalized = cast("Callable[[str], str]", dialect.normalize_name)(name)
        if normalized in every:
            return normalized
    near = did_you_mean(name, every) or "."
    raise SourceError(
        f"The database has no schema {name} that its user can see{near} It has {listing(sorted(every))}."
    )


def _schemas(names: Sequence[str]) -> str:
    return f"the {'schema' if len(names) == 1 else 'schemas'} {listing(names)}"


def listing(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


class _Reader:
    """Reads tables of one database, and remembers what it left out."""

    def __init__(
        self,
        inspector: sa.Inspector,
        dialect: sa.Dialect,
        catalog: Catalog | None,
        settings: Settings = NO_SETTINGS,
    ) -> None:
        self._inspector = inspector
        self._dialect = dialect
        self._catalog = catalog
        self._settings = settings
        self._control: list[str] = []
        self._views: list[str] = []
        # Oracle's names are upper case in the files, and lower case in SQLAlchemy.
        normalized = dialect.requires_name_normalize
        self._spelt = cast("Callable[[str], str]", dialect.denormalize_name) if normalized else str

    def tables(self, schema: str, only: str | None = None) -> Iterator[SourceTable]:
        """The schema's tables, without those that DMS makes."""
        if only is None:
            self._views += [f"{schema}.{view}" for view in self._inspector.get_view_names(schema=schema)]
        for name in sorted(self._inspector.get_table_names(schema=schema)):
            if only not in (None, self._spelt(name)):
                continue
            if _CONTROL_TABLES.fullmatch(name):
                self._control.append(f"{self._spelt(schema)}.{self._spelt(name)}")
            else:
                yield self._table(schema, name)

    def left_out(self) -> list[str]:
        """Phrases about tables and views that were not read."""
        found = []
        if self._control:
            found.append(f"{listing(self._control)}, which DMS itself makes")
        if self._views:
            found.append(
                f"{many(len(self._views), 'view')}, whose changes DMS does not see: {listing(self._views)}"
            )
        return found

    def _table(self, schema: str, name: str) -> SourceTable:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", sa.exc.SAWarning)
            columns = self._inspector.get_columns(name, schema=schema)
        found = (_UNRECOGNISED.match(str(warning.message)) for warning in caught)
        unknown = {match[2]: match[1] for match in found if match is not None}
        key = self._inspector.get_pk_constraint(name, schema=schema).get("constrained_columns") or []
        required = {column["name"] for column in columns if not column["nullable"] or column["name"] in key}
        spelt, catalog = self._spelt, self._catalog
        return SourceTable(
            schema=spelt(schema),
            name=spelt(name),
            columns=tuple(
                SourceColumn(
                    spelt(column["name"]),
                    self._declared(column, unknown.get(column["name"])),
                    required=column["name"] in required,
                    comment=column.get("comment"),
                )
                for column in columns
            ),
            primary_key=tuple(map(spelt, key)),
            unique_keys=tuple(
                tuple(map(spelt, names)) for names in self._unique(schema, name) if set(names) <= required
            ),
            storage=catalog.tables.get((schema, name), Storage()) if catalog is not None else None,
        )

    def _unique(self, schema: str, name: str) -> list[tuple[str, ...]]:
        """The columns of unique constraints and of unique indexes of whole columns and all rows."""
        found = [
            tuple(unique["column_names"])
            for unique in self._inspector.get_unique_constraints(name, schema=schema)
        ]
        for index in self._inspector.get_indexes(name, schema=schema):
            options = index.get("dialect_options", {})
            partial = any(key.endswith("_where") and value for key, value in options.items())
            columns = index["column_names"]
            if index["unique"] and not partial and not index.get("expressions") and None not in columns:
                found.append(tuple(str(column) for column in columns))
        return list(dict.fromkeys(found))

    def _declared(self, column: ReflectedColumn, unknown: str | None) -> Declared:
        if column.get("computed"):
            return undecided(
                "computed by the source: check whether DMS writes it; if so declare its type, else remove it here"
            )
        if unknown is None or isinstance(column["type"], sa.ARRAY):
            domains = self._catalog.domains if self._catalog is not None else {}
            return declared_type(column["type"], self._dialect, domains, self._settings)
        plain = unknown.rpartition(".")[2].strip('"')
        if self._catalog is not None and plain in self._catalog.composites:
            found = declared_kind(TypeName("COMPOSITE"), self._dialect, self._settings)
            return replace(found, comment=f"{plain}, a {found.comment}")
        return declared_kind(parse_type(unknown), self._dialect, self._settings)


def declared_kind(kind: TypeName, dialect: sa.Dialect, settings: Settings = NO_SETTINGS) -> Declared:
    """What a column of this type is declared as."""
    engine = ENGINES[dialect.name]
    found = engine.declared(kind, settings)
    undecided_type = None if found.is_decided else kind.text
    return replace(found, of=undecided_type, lob=engine.is_lob(kind), left_out=engine.leaves_out(kind))


def declared_type(
    kind: sa.types.TypeEngine[object],
    dialect: sa.Dialect,
    domains: Mapping[str, str] = MappingProxyType({}),
    settings: Settings = NO_SETTINGS,
) -> Declared:
    """What a reflected column of this type is declared as; `domains` are the texts of domains' base types."""
    if isinstance(kind, DOMAIN):
        text = domains.get(kind.name or "")
        if isinstance(kind.data_type, sa.Numeric) and text is not None:
            base = declared_kind(parse_type(text), dialect, settings)
        else:
            base = declared_type(kind.data_type, dialect, domains, settings)
        return replace(base, comment=f"domain {kind.name}" + (f": {base.comment}" if base.comment else ""))
    if isinstance(kind, sa.Enum):
        return declared_kind(TypeName("ENUM"), dialect, settings)
    if isinstance(kind, sa.ARRAY):
        return declared_kind(TypeName("ARRAY"), dialect, settings)
    if isinstance(kind, sa.types.NullType):
        return undecided("SQLAlchemy does not know its type: check what DMS writes, and declare that")
    try:
        return declared_kind(parse_type(kind.compile(dialect=dialect)), dialect, settings)
    except sa.exc.UnsupportedCompilationError:
        # SQLAlchemy reflects the type but cannot write it as DDL: Oracle's BFILE.
        return declared_kind(parse_type(type(kind).__name__), dialect, settings)
