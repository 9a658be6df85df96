"""Dropping tables of the lake with their files, and what `lake_ops` has of them.

The files in the source's location and their records in the file log stay: a table that is added again is loaded from
them. Here: which tables, and dropping them; every step can be repeated after a kill. Not here: options and questions
(`remove_cli.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from pyiceberg.table import Table

from lake_assets.errors import LakeError
from lake_assets.iceberg.ops_table import NAMESPACE
from lake_assets.iceberg.table_io import (
    current_snapshot,
    drop_with_files,
    live_rows,
    load_table,
    summary,
    tables_in,
)
from lake_assets.lake import Lake
from lake_assets.silver.table.guard import SOURCE_TABLE

GOLD = "gold"


@dataclass(frozen=True, slots=True)
class Removable:
    """A table of the lake."""

    identifier: str
    rows: int
    bytes: int
    of: str
    """Its source and table (`source/schema.table`); empty for a table of gold or of `lake_ops`."""


def tables_called(lake: Lake, name: str) -> list[Removable]:
    """The silver tables and tables of gold that have this name, or this source table, and that lake.yaml does not have
    any more. Raises LakeError without one, and for one that lake.yaml has."""
    spaces = {name.rpartition(".")[0]} - {"", NAMESPACE}
    found = [
        one
        for one in _tables(lake, _spaces(lake) | spaces)
        if name in (one.identifier, one.of, one.of.partition("/")[2])
    ]
    if kept := sorted({one.identifier for one in found}.intersection(lake.tables)):
        raise LakeError(
            f"{kept[0]} is in lake.yaml, and the next sync would load it again: take it out first, with the marts and "
            "checks that read it."
        )
    if not found:
        known = {one.identifier for one in _tables(lake, _spaces(lake))} - {*lake.tables}
        others = ", ".join(sorted(known)) or "none"
        raise LakeError(
            f"{name} is no table of the lake. Tables that lake.yaml does not have any more: {others}."
        )
    return found


def every_table(lake: Lake) -> list[Removable]:
    """All tables of silver, of gold and of the lake's own, those in `lake_ops` last: without them nothing shows what
    is left."""
    return [*_tables(lake, _spaces(lake)), *_tables(lake, {NAMESPACE}, others_too=True)]


def remove(lake: Lake, table: Removable) -> None:
    """Drops the table with its files, and what `lake_ops` has of it. Raises LakeError if the catalog still has it."""
    runtime = lake.runtime
    if (found := load_table(runtime.catalog, table.identifier)) is not None:
        drop_with_files(runtime.catalog, found)
    if load_table(runtime.catalog, table.identifier) is not None:
        raise LakeError(
            f"{table.identifier} could not be dropped: see the rights of the catalog and of its location."
        )
    if table.of:
        runtime.contracts.forget(table.identifier)
        runtime.quarantine.forget(table.identifier)
        runtime.findings.forget(table.identifier)


def _spaces(lake: Lake) -> set[str]:
    return {GOLD, *(f"silver_{name}" for name in lake.config.sources)}


def _tables(lake: Lake, spaces: set[str], *, others_too: bool = False) -> Iterator[Removable]:
    """The lake's tables in these namespaces; `others_too`: those that others may have made."""
    catalog = lake.runtime.catalog
    for identifier in sorted(chain.from_iterable(tables_in(catalog, space) for space in sorted(spaces))):
        table = load_table(catalog, identifier)
        if table is not None and (
            others_too or SOURCE_TABLE in table.properties or identifier.startswith(f"{GOLD}.")
        ):
            yield _removable(identifier, table)


def _removable(identifier: str, table: Table) -> Removable:
    properties = summary(current_snapshot(table))
    return Removable(
        identifier,
        live_rows(properties),
        int(properties.get("total-files-size", "0")),
        table.properties.get(SOURCE_TABLE, ""),
    )
