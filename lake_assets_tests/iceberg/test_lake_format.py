"""The version that the lake's tables and positions carry: written, read, and refused if it is of a newer release.

Here: each kind, without Spark. Not here: lakes that earlier releases wrote (`upgrade/test_upgrade.py`).
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from lake_assets.bronze.log import file_log
from lake_assets.commands.show.status import status
from lake_assets.iceberg import lake_format, ops_table
from lake_assets.iceberg.catalog import ensure_namespace
from lake_assets.iceberg.lake_format import FORMAT, FORMAT_VERSION, NewerFormat
from lake_assets.iceberg.ops_table import NAMESPACE, OpsTable, ops_schema
from lake_assets.lake import Lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.rounds.due_maintenance import upkeep
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets.rounds.ops_upkeep import due_ops, maintain_ops
from lake_assets.silver.batch_log import batches_table
from lake_assets.silver.batch_log.batches_table import BatchLog
from lake_assets.silver.table.position import Position, read_position
from lake_assets_tests.helpers.constants.batch_rows import batch_row
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS_HEADER, small_lake, write_file

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
NEWER = FORMAT_VERSION + 1
REFUSED = rf"was written by a newer release of lake_assets: its lake\.format is {NEWER}, .* up to {FORMAT_VERSION}\."


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return small_lake(tmp_path)


def numbers(lake: Lake) -> OpsTable[list[int]]:
    """A small table of the lake's own."""
    schema = ops_schema(number="long not null")
    return OpsTable(lake.runtime.catalog, "numbers", schema, lambda rows: [row["number"] for row in rows])


def set_format(lake: Lake, identifier: str, version: int | None) -> Table:
    """The table as another release has left it; without a version for None."""
    table = lake.runtime.catalog.load_table(identifier)
    with table.transaction() as change:
        if version is None:
            change.remove_properties(FORMAT)
        else:
            change.set_properties({FORMAT: str(version)})
    return table


def format_in(lake: Lake, identifier: str) -> str | None:
    return lake.runtime.catalog.load_table(identifier).properties.get(FORMAT)


def test_a_table_of_the_lakes_own(lake: Lake) -> None:
    numbers(lake).append(lambda known: [{"number": 1}])
    assert format_in(lake, "lake_ops.numbers") == str(FORMAT_VERSION)
    before = set_format(lake, "lake_ops.numbers", NEWER).metadata_location
    table, asked = numbers(lake), list[int]()

    def decide(known: list[int]) -> list[dict[str, int]]:
        asked.append(len(known))
        return [{"number": 2}]

    calls: list[Callable[[], object]] = [
        table.parsed,
        lambda: table.append(decide),
        lambda: table.replace(decide),
        lambda: table.rename("number", "1", "2"),
    ]
    for call in calls:
        with pytest.raises(NewerFormat, match=rf"^lake_ops\.numbers {REFUSED}"):
            call()
    assert asked == []
    assert lake.runtime.catalog.load_table("lake_ops.numbers").metadata_location == before


def test_a_table_without_a_version_is_of_the_first(lake: Lake) -> None:
    numbers(lake).append(lambda known: [{"number": 1}])
    set_format(lake, "lake_ops.numbers", None)
    numbers(lake).append(lambda known: [{"number": 2}])
    assert sorted(numbers(lake).parsed()) == [1, 2]


def test_what_writes_to_an_older_table_marks_it_first(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the release after this one does: from then on, this one refuses the table."""
    former = numbers(lake)
    former.append(lambda known: [{"number": 1}])
    with monkeypatch.context() as newer:
        for module in (lake_format, ops_table):
            newer.setattr(module, "FORMAT_VERSION", NEWER)
        assert numbers(lake).parsed() == [1]
        assert format_in(lake, "lake_ops.numbers") == str(FORMAT_VERSION), "who only reads changes nothing"
        numbers(lake).append(lambda known: [{"number": 2}])
        assert sorted(numbers(lake).parsed()) == [1, 2]
    with pytest.raises(NewerFormat):
        former.append(lambda known: [{"number": 3}])


def test_the_batch_log(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that records a batch marks the log, so that a former one does not add rows of its own form."""
    catalog = lake.runtime.catalog
    BatchLog(catalog).add([batch_row(1)])
    with monkeypatch.context() as newer:
        for module in (lake_format, ops_table):
            newer.setattr(module, "FORMAT_VERSION", NEWER)
        assert len(BatchLog(catalog).add([batch_row(2)])) == 1
    assert format_in(lake, batches_table.TABLE) == str(NEWER)
    with pytest.raises(NewerFormat):
        BatchLog(catalog).add([batch_row(3)])


def test_the_contracts_and_the_quarantine(lake: Lake) -> None:
    for name, read in (
        ("contracts", lake.runtime.contracts.every),
        ("quarantine", lake.runtime.quarantine.all),
    ):
        ensure_namespace(lake.runtime.catalog, NAMESPACE)
        lake.runtime.catalog.create_table(f"{NAMESPACE}.{name}", ROWS.schema, properties={FORMAT: str(NEWER)})
        with pytest.raises(NewerFormat, match=rf"^lake_ops\.{name} {REFUSED}"):
            read()


def test_the_file_log(lake: Lake, tmp_path: Path) -> None:
    write_file(tmp_path, "public/items/LOAD00000001.csv", [ITEMS_HEADER])
    log_arrivals(lake.runtime, "shop")
    assert format_in(lake, file_log.TABLE) == str(FORMAT_VERSION)
    set_format(lake, file_log.TABLE, None)
    write_file(tmp_path, "public/items/20260301-120000000.csv", [ITEMS_HEADER])
    reopened = small_lake_again(lake)
    log_arrivals(reopened.runtime, "shop")
    assert format_in(lake, file_log.TABLE) == str(FORMAT_VERSION), "a log from before is marked"
    before = set_format(lake, file_log.TABLE, NEWER).metadata_location
    write_file(tmp_path, "public/items/20260301-130000000.csv", [ITEMS_HEADER])
    for each in (reopened, small_lake_again(lake)):
        with pytest.raises(NewerFormat, match=rf"^lake_ops\.bronze_files {REFUSED}"):
            log_arrivals(each.runtime, "shop")
        with pytest.raises(NewerFormat):
            each.runtime.file_log.ensure()
    assert lake.runtime.catalog.load_table(file_log.TABLE).metadata_location == before


def test_a_position(lake: Lake) -> None:
    """The table is stopped; neither a batch nor maintenance touches it."""
    ensure_namespace(lake.runtime.catalog, "silver_shop")
    table = lake.runtime.catalog.create_table("silver_shop.items", ROWS.schema)
    written = Position(log_offset=7).properties()
    assert written[FORMAT] == str(FORMAT_VERSION)
    table.append(ROWS, snapshot_properties={name: written[name] for name in written.keys() - {FORMAT}})
    assert read_position(table).log_offset == 7, "written before there were versions"
    table.append(ROWS, snapshot_properties=written | {FORMAT: str(NEWER)})
    with pytest.raises(NewerFormat, match=rf"^silver_shop\.items {REFUSED}"):
        read_position(table)
    (line,) = status(lake)
    assert line.state == "stopped"
    assert "its lake.format is" in (line.reason or "")
    assert list(upkeep(lake)) == []
    assert isinstance(maintain_silver(lake.runtime, (), lake.targets[0]).error, NewerFormat)


def test_maintenance_of_the_lakes_own_tables(lake: Lake) -> None:
    lake.runtime.findings.note("failure", "silver_shop.items", {"reason": "full"})
    before = set_format(lake, "lake_ops.findings", NEWER).metadata_location
    assert due_ops(lake.runtime) == []
    assert isinstance(maintain_ops(lake.runtime, "lake_ops.findings").error, NewerFormat)
    assert lake.runtime.catalog.load_table("lake_ops.findings").metadata_location == before


def small_lake_again(lake: Lake) -> Lake:
    """The lake as another process opens it."""
    from lake_assets.lake import open_lake

    return open_lake(lake.config, marts=())
