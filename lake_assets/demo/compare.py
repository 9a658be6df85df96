"""Compares the lake's tables with the source database, row by row and bit by bit.

Here: reading both sides completely and finding every difference. It uses no code of the lake, so that an error there
cannot hide itself.
"""

import sqlite3
import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from lake_assets.demo.source.bike_schema import TABLES, SourceTable
from lake_assets.demo.source.source_values import decoder
from lake_assets.demo.source_masks import NO_MASKS, SourceMasks

Values = tuple[Any, ...]

NOTHING_ADDED: Mapping[str, Collection[str]] = {}
_EXAMPLES = 5


@dataclass
class TableComparison:
    """The result of one table's comparison.

    For a keyed table, `missing` and `unexpected` count keys, and `different` counts keys whose other columns differ;
    every surplus copy of a key in the lake is unexpected. For a table without a key, they count rows as a multiset,
    and `different` is always 0. `examples` has up to five keys (or rows) of each kind.
    """

    table: str
    rows_in_source: int = 0
    rows_in_lake: int = 0
    missing: int = 0
    unexpected: int = 0
    different: int = 0
    examples: dict[str, list[Values]] = field(default_factory=dict)
    schema_problems: list[str] = field(default_factory=list)
    """What is wrong with the lake's table: columns that are missing, surplus, misplaced or of another type; or the
    whole table is missing."""

    @property
    def equal(self) -> bool:
        """Whether the lake's table is exactly the source's."""
        return not (self.missing or self.unexpected or self.different or self.schema_problems)


def _bits(value: float | None) -> bytes | None:
    return None if value is None else struct.pack(">d", value)


def source_rows(database_path: Path) -> dict[str, list[Values]]:
    """All tables' rows as Python values in column order, from one snapshot: a feed may run meanwhile.

    Doubles are compared by their eight bytes. Raises FileNotFoundError.
    """
    if not database_path.exists():
        raise FileNotFoundError(database_path)
    connection = sqlite3.connect(database_path, isolation_level=None)
    try:
        connection.execute("BEGIN")
        return {name: list(_read_source(connection, table)) for name, table in TABLES.items()}
    finally:
        connection.close()


def _read_source(connection: sqlite3.Connection, table: SourceTable) -> Iterator[Values]:
    decoders = [_bits if column.type == "double" else decoder(column.type) for column in table.columns]
    for stored in connection.execute(f"SELECT {', '.join(table.column_names)} FROM {table.name}"):
        yield tuple(
            value if decode is None or value is None else decode(value)
            for value, decode in zip(stored, decoders, strict=True)
        )


def _expected_type(type_name: str) -> pa.DataType:
    if type_name.startswith("decimal("):
        precision, scale = type_name[len("decimal(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return {
        "int": pa.int32(),
        "long": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamptz": pa.timestamp("us", tz="UTC"),
        "string": pa.string(),
    }[type_name]


def _schema_problems(table: SourceTable, lake: pa.Table, added: Collection[str]) -> list[str]:
    problems = []
    if [name for name in lake.column_names if name not in added] != list(table.column_names):
        problems.append(f"columns are {lake.column_names}, expected {list(table.column_names)}")
    for column in table.columns:
        if column.name in lake.column_names:
            # Depending on its version, PyIceberg reads strings with 64-bit offsets; the values are the same.
            found = lake.schema.field(column.name).type
            found = pa.string() if found == pa.large_string() else found
            if found != _expected_type(column.type):
                problems.append(f"{column.name} is {found}, expected {_expected_type(column.type)}")
    return problems


def _lake_rows(table: SourceTable, lake: pa.Table) -> list[Values]:
    columns = []
    for column in table.columns:
        values = (
            lake.column(column.name).to_pylist()
            if column.name in lake.column_names
            else [None] * lake.num_rows
        )
        columns.append([_bits(value) for value in values] if column.type == "double" else values)
    return list(zip(*columns, strict=True))


def compare_rows(table: SourceTable, source: Iterable[Values], lake: Iterable[Values]) -> TableComparison:
    """Compare rows of values in column order, doubles as their bytes."""
    source, lake = list(source), list(lake)
    found = TableComparison(table.name, len(source), len(lake))

    def note(kind: str, key: Values) -> None:
        examples = found.examples.setdefault(kind, [])
        if len(examples) < _EXAMPLES:
            examples.append(key)

    if not table.primary_key:
        missing, unexpected = Counter(source) - Counter(lake), Counter(lake) - Counter(source)
        found.missing, found.unexpected = missing.total(), unexpected.total()
        for kind, rows in (("missing", missing), ("unexpected", unexpected)):
            for row in list(rows)[:_EXAMPLES]:
                note(kind, row)
        return found

    expected = {tuple(row[at] for at in table.key_positions): row for row in source}
    seen: set[Values] = set()
    for row in lake:
        key = tuple(row[at] for at in table.key_positions)
        if key not in expected or key in seen:
            found.unexpected += 1
            note("unexpected", key)
        elif row != expected[key]:
            found.different += 1
            note("different", key)
        seen.add(key)
    for key in expected.keys() - seen:
        found.missing += 1
        note("missing", key)
    return found


def compare_with_source(
    catalog: Catalog,
    namespace: str,
    database_path: Path,
    masks: SourceMasks = NO_MASKS,
    added: Mapping[str, Collection[str]] = NOTHING_ADDED,
) -> list[TableComparison]:
    """Compare the Iceberg tables `<namespace>.<table>` with the database, in the order of `schema.TABLES`.

    Values and types must equal those of the source exactly: decimals with their scale, timestamps in UTC to the
    microsecond, doubles to the bit; a masked column has the masked values of the source. For a table that the catalog
    does not have, all rows are missing. `added`: by table, columns that silver has in addition.
    """
    source = source_rows(database_path)
    comparisons = []
    for name, table in TABLES.items():
        rows = masks.applied(table, source[name])
        try:
            lake = catalog.load_table(f"{namespace}.{name}").scan().to_arrow()
        except NoSuchTableError:
            comparison = compare_rows(table, rows, [])
            comparison.schema_problems.append(f"the catalog has no table {namespace}.{name}")
        else:
            comparison = compare_rows(table, rows, _lake_rows(table, lake))
            comparison.schema_problems += _schema_problems(table, lake, added.get(name, ()))
        comparisons.append(comparison)
    return comparisons
