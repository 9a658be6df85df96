"""Dropping tables of the lake with their files, and what `lake_ops` has of them.

The files in the source's location and their records in the file log stay: a table that is added again is loaded from
them. Here: which tables, and dropping them; every step can be repeated after a kill. Not here: options and questions
(`remove_cli.py`).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from pyiceberg.table import Table

from lake_assets.errors import LakeError
from lake_assets.gold.consumption import PREFIX
from lake_assets.iceberg.lake_format import refuse_newer
from lake_assets.iceberg.ops_table import NAMESPACE
from lake_assets.iceberg.table_io import (
    current_snapshot,
    drop,
    drop_with_files,
    folder_of,
    live_rows,
    load_table,
    sharing_folder,
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
    shares_folder: bool = False
    """Whether another table has its folder: one that was renamed, as by `detach`, keeps the folder of its name."""


def tables_called(lake: Lake, name: str) -> list[Removable]:
    """The silver tables and marts that have this name, or this source table, and that lake.yaml does not have any more.
    Raises LakeError without one, for one that lake.yaml has, and if it is unknown which ones lake.yaml has."""
    if lake.broken:
        raise LakeError(f"{name} may be in lake.yaml, of which a part cannot be used: correct that first.")
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
    """All tables of silver, all marts and the lake's own, those in `lake_ops` last: without them nothing shows what is
    left. Raises NewerFormat for a lake of a newer release."""
    return [*_tables(lake, _spaces(lake)), *_tables(lake, {NAMESPACE}, others_too=True)]


def remove(lake: Lake, table: Removable) -> str | None:
    """Drops the table with its files, and what `lake_ops` has of it. Returns a sentence if its files stay, because
    another table has the same folder. Raises LakeError if the catalog still has it."""
    runtime, sharing = lake.runtime, None
    # The table last: as long as it is there, the command can be repeated.
    if table.of:
        runtime.contracts.forget(table.identifier)
        runtime.quarantine.forget(table.identifier)
        runtime.findings.forget(table.identifier)
    if (found := load_table(runtime.catalog, table.identifier)) is not None:
        sharing = sharing_folder(runtime.catalog, found) if table.shares_folder else None
        if sharing is None:
            drop_with_files(runtime.catalog, found)
        else:
            drop(runtime.catalog, table.identifier)
    if load_table(runtime.catalog, table.identifier) is not None:
        raise LakeError(
            f"{table.identifier} could not be dropped: see the rights of the catalog and of its location."
        )
    return sharing and f"The files of {table.identifier} stay: {sharing} has the same folder."


def _spaces(lake: Lake) -> set[str]:
    return {GOLD, *(f"silver_{name}" for name in lake.config.sources)}


def _tables(lake: Lake, spaces: set[str], *, others_too: bool = False) -> Iterator[Removable]:
    """The lake's tables in these namespaces; `others_too`: those that others may have made."""
    catalog, configured = lake.runtime.catalog, {*lake.tables}
    names = sorted(chain.from_iterable(tables_in(catalog, space) for space in sorted(spaces)))
    found = {name: table for name in names if (table := load_table(catalog, name)) is not None}
    folders = Counter(map(folder_of, found.values()))
    for identifier, table in found.items():
        refuse_newer(identifier, table.properties)
        if others_too or identifier in configured or SOURCE_TABLE in table.properties or _is_mart(table):
            yield _removable(identifier, table, shares_folder=folders[folder_of(table)] > 1)


def _is_mart(table: Table) -> bool:
    """Whether a commit of the table is one of a mart: others may have tables in the same namespace."""
    return any(name.startswith(PREFIX) for one in table.metadata.snapshots for name in summary(one))


def _removable(identifier: str, table: Table, *, shares_folder: bool) -> Removable:
    properties = summary(current_snapshot(table))
    return Removable(
        identifier,
        live_rows(properties),
        int(properties.get("total-files-size", "0")),
        table.properties.get(SOURCE_TABLE, ""),
        shares_folder,
    )
