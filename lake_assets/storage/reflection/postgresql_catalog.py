"""What PostgreSQL's own catalog says of tables beyond SQLAlchemy's reflection.

Here: partitions and inheritance, what the write-ahead log has of a table, and names of types. Not here: columns and
keys (`reflect.py`), what a type becomes (`postgresql.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

Name = tuple[str, str]
"""Schema and table."""
Identity = Literal["default", "nothing", "full", "index"]
_IDENTITIES: dict[str, Identity] = {"d": "default", "n": "nothing", "f": "full", "i": "index"}
# SQLAlchemy's list leaves out every schema whose name begins with `pg`: in its LIKE, `_` is any character.
_SCHEMAS = "SELECT nspname FROM pg_catalog.pg_namespace ORDER BY nspname"
_RELATIONS = """
SELECT n.nspname, c.relname, c.relkind::text, c.relpersistence::text, c.relreplident::text, c.relispartition,
    (SELECT array_agg(a.attname::text ORDER BY k.place)
     FROM pg_catalog.pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY k (number, place)
     JOIN pg_catalog.pg_attribute a ON a.attnum = k.number
     WHERE i.indrelid = c.oid AND i.indisreplident AND a.attrelid = c.oid AND k.place <= i.indnkeyatts)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p')
"""
_PARENTS = """
SELECT cn.nspname, c.relname, pn.nspname, p.relname
FROM pg_catalog.pg_inherits i
JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid JOIN pg_catalog.pg_namespace cn ON cn.oid = c.relnamespace
JOIN pg_catalog.pg_class p ON p.oid = i.inhparent JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
WHERE c.relkind IN ('r', 'p') ORDER BY 1, 2, i.inhseqno
"""
_DOMAINS = "SELECT typname, format_type(typbasetype, typtypmod) FROM pg_catalog.pg_type WHERE typtype = 'd'"
_COMPOSITES = """
SELECT t.typname FROM pg_catalog.pg_type t JOIN pg_catalog.pg_class c ON c.oid = t.typrelid WHERE c.relkind = 'c'
"""


@dataclass(frozen=True, slots=True)
class Storage:
    """How PostgreSQL keeps a table and logs its changes."""

    logged: bool = True
    """False: UNLOGGED. The write-ahead log has none of its changes."""
    identity: Identity = "default"
    """REPLICA IDENTITY: what the log has of a row before an update or a delete."""
    identity_key: tuple[str, ...] = ()
    """The columns of the index of REPLICA IDENTITY USING INDEX."""
    partitioned: bool = False
    partition: bool = False
    """Whether it is a partition of its parent."""
    parents: tuple[Name, ...] = ()
    """The table of which it is a partition, or those that it inherits from."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """What was read."""

    schemas: tuple[str, ...]
    tables: dict[Name, Storage]
    domains: dict[str, str]
    """The text of each domain's base type; SQLAlchemy drops the digits of these."""
    composites: frozenset[str]


def read_catalog(engine: sa.Engine) -> Catalog:
    """Of all schemas. Raises SQLAlchemy's errors."""
    with engine.connect() as connection:

        def rows(query: str) -> Sequence[Any]:
            return connection.exec_driver_sql(query).all()

        parents: dict[Name, list[Name]] = {}
        for schema, table, *parent in rows(_PARENTS):
            parents.setdefault((str(schema), str(table)), []).append((str(parent[0]), str(parent[1])))
        tables = {
            (str(schema), str(table)): Storage(
                logged=persistence != "u",
                identity=_IDENTITIES[str(identity)],
                identity_key=tuple(key) if isinstance(key, list) else (),
                partitioned=kind == "p",
                partition=bool(partition),
                parents=tuple(parents.get((str(schema), str(table)), ())),
            )
            for schema, table, kind, persistence, identity, partition, key in rows(_RELATIONS)
        }
        return Catalog(
            schemas=tuple(str(row[0]) for row in rows(_SCHEMAS)),
            tables=tables,
            domains={str(name): str(text) for name, text in rows(_DOMAINS)},
            composites=frozenset(str(row[0]) for row in rows(_COMPOSITES)),
        )
