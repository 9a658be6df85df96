"""Maintenance of the platform's own tables, such as the quarantine: few snapshots and files, and every row as before.

Not here: the file log's maintenance (`bronze/log/test_file_log_maintenance.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from lake_assets.bronze.quarantine.quarantine_log import Quarantine, Quarantined, State
from lake_assets.iceberg.findings import Findings
from lake_assets.iceberg.ops_table import OpsTable, Row
from lake_assets.iceberg.upkeep import ops_maintenance
from lake_assets.iceberg.upkeep.ops_maintenance import maintain_small_table
from lake_assets.rounds.ops_upkeep import OPS

SCHEMA = Schema(NestedField(1, "n", LongType(), required=True))


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")


def numbers(rows: Sequence[Row]) -> list[int]:
    return sorted(row["n"] for row in rows)


def one_more(n: int, known: list[int]) -> list[Row]:
    return [{"n": n}]


def opened(catalog: Catalog) -> OpsTable[list[int]]:
    return OpsTable(catalog, "numbers", SCHEMA, numbers)


def filled(catalog: Catalog, first: int, count: int) -> OpsTable[list[int]]:
    table = opened(catalog)
    for n in range(first, first + count):
        table.append(partial(one_more, n))
    return table


@pytest.mark.parametrize("write", ["append", "replace"])
def test_a_table_of_an_earlier_release_gets_the_columns_that_it_lacks(catalog: Catalog, write: str) -> None:
    filled(catalog, 1, 2)
    newer = Schema(*SCHEMA.fields, NestedField(2, "name", StringType()))
    table = OpsTable(
        catalog, "numbers", newer, lambda rows: sorted((row["n"], row.get("name")) for row in rows)
    )
    assert table.parsed() == [(1, None), (2, None)]
    getattr(table, write)(lambda _: [{"n": 3, "name": "three"}])
    assert table.parsed() == [*([(1, None), (2, None)] if write == "append" else []), (3, "three")]


def test_a_row_that_an_earlier_release_appends_before_the_column_is_added(catalog: Catalog) -> None:
    """The decision is made again: it had not seen that row."""
    older = filled(catalog, 1, 1)
    newer = Schema(*SCHEMA.fields, NestedField(2, "name", StringType()))
    table, seen = OpsTable(catalog, "numbers", newer, numbers), list[list[int]]()

    def decide(known: list[int]) -> list[Row]:
        seen.append(known)
        if len(seen) == 1:
            older.append(partial(one_more, 2))
        return [{"n": len(known) + 1, "name": "new"}]

    table.append(decide)
    assert seen == [[1], [1, 2]]
    assert table.parsed() == [1, 2, 3]


def load(catalog: Catalog) -> Table:
    return catalog.load_table("lake_ops.numbers")


def files(table: Table, pattern: str) -> int:
    return len(list(Path(table.location().removeprefix("file://")).glob(pattern)))


def test_small_and_whole(catalog: Catalog) -> None:
    follower = filled(catalog, 0, 30)
    for first in (30, 60):
        maintain_small_table(load(catalog))
        table = load(catalog)
        assert len(table.snapshots()) == ops_maintenance.KEEP_SNAPSHOTS
        assert len(list(table.scan().plan_files())) == 1
        assert files(table, "metadata/snap-*.avro") == ops_maintenance.KEEP_SNAPSHOTS
        assert follower.parsed() == opened(catalog).parsed() == list(range(first))
        filled(catalog, first, 30)
    assert opened(catalog).parsed() == list(range(90))


def test_few_are_left_alone(catalog: Catalog) -> None:
    filled(catalog, 0, 5)
    before = load(catalog)
    maintain_small_table(load(catalog))
    assert load(catalog).metadata_location == before.metadata_location


def test_an_append_meanwhile_is_not_lost(catalog: Catalog) -> None:
    filled(catalog, 0, 25)
    stale = load(catalog)
    filled(catalog, 25, 1)
    maintain_small_table(stale)
    assert opened(catalog).parsed() == list(range(26))
    maintain_small_table(load(catalog))
    assert opened(catalog).parsed() == list(range(26))


@pytest.mark.parametrize("change", ["append", "replace"])
def test_the_first_rows_of_two_processes_are_decided_one_after_the_other(
    catalog: Catalog, change: str
) -> None:
    """As two processes that apply a new lake's first files each write the first contract of a table."""
    seen: list[list[int]] = []

    def first_of_both(known: list[int]) -> list[Row]:
        seen.append(known)
        if len(seen) == 1:
            getattr(opened(catalog), change)(lambda known: [{"n": 1}])
        return [] if known else [{"n": 1}]

    opened(catalog).append(first_of_both)
    assert seen == [[], [1]]
    assert opened(catalog).parsed() == [1]


@pytest.mark.parametrize("change", ["forget", "rename"])
def test_rows_are_changed_beside_other_processes(
    catalog: Catalog, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `remove` and `detach` do while sensors note what they find."""
    table, others = filled(catalog, 1, 2), [4]
    as_arrow = table._as_arrow

    def overtaken(rows: list[Row]) -> object:
        if others:
            opened(catalog).append(partial(one_more, others.pop()))
        return as_arrow(rows)

    monkeypatch.setattr(table, "_as_arrow", overtaken)
    getattr(table, change)("n", 1, *([9] if change == "rename" else []))
    assert opened(catalog).parsed() == ([2, 4] if change == "forget" else [2, 4, 9])


def test_former_findings_are_forgotten(catalog: Catalog) -> None:
    """A finding that is noted again and again does not make the table grow; the newest of each subject stays."""
    noted = Findings(catalog)
    noted.note("kind", "resolved", {"n": 0})
    noted.note("kind", "resolved", {})
    for n in range(2 * ops_maintenance.MAX_SMALL_FILES):
        noted.note("kind", f"table {n % 3}", {"n": n})
    before = noted.of("kind")
    assert len(before) == 3
    table = catalog.load_table("lake_ops.findings")
    OPS["lake_ops.findings"](table)
    assert table.refresh().scan().count() == 4
    assert Findings(catalog).of("kind") == noted.of("kind") == before
    noted.note("kind", "table 0", {"n": "later"})
    assert Findings(catalog).of("kind")["table 0"].content == {"n": "later"}
    assert table.refresh().scan().count() == 5


def test_the_quarantine_keeps_each_entry_in_its_newest_state(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the request of a retry, by which the row is read in every replay."""
    monkeypatch.setattr(ops_maintenance, "MAX_SMALL_FILES", 2)
    log = Quarantine(catalog)
    held = [replace(HELD, row=row, line=row + 1) for row in range(4)]
    log.add(held)
    log.becomes(held[:2], State.RETRIED)
    log.becomes(held[1:2], State.RELEASED)
    log.becomes(held[2:3], State.DISCARDED)
    before, requested = Quarantine(catalog).all(), Quarantine(catalog).requested(HELD.silver_table)
    assert [entry.state for entry in before] == ["retried", "released", "discarded", "held"]
    table = catalog.load_table("lake_ops.quarantine")
    assert table.scan().count() == 8
    OPS["lake_ops.quarantine"](table)
    assert table.refresh().scan().count() == 5, "the released one has its request, too"
    assert Quarantine(catalog).all() == before
    assert Quarantine(catalog).requested(HELD.silver_table) == requested
    assert log.becomes(held[3:], State.DISCARDED) != []
    assert log.add(held[2:3]) == [], "what was discarded stays discarded"


HELD = Quarantined(
    silver_table="silver_shop.items",
    source="shop",
    table="public.items",
    key="public/items/20260301-120000000.csv",
    version="v1",
    log_offset=1,
    row=0,
    line=1,
    raw="U,x",
    reason="x is not a number",
    batch="one",
    at=datetime(2026, 3, 1, tzinfo=UTC),
)
