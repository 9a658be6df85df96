"""Each published batch is in the batch log once, with the figures of its commit, whatever happens to the commit.

Here: recording beside other recorders, kills, maintenance and rollbacks. Not here: how the log stays small
(`test_long_logs.py`), what is shown of it (`commands/test_batches.py`).
"""

import json
import signal
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.history.time_travel import commits, go_back
from lake_assets.iceberg.file_io.pyiceberg_private import append_rows
from lake_assets.iceberg.publish import Attempt
from lake_assets.iceberg.table_io import RESTAMP_OF, summary
from lake_assets.lake import Lake
from lake_assets.outputs.batch_log_output import BatchLogOutput
from lake_assets.rounds import maintenance
from lake_assets.silver.batch.result import OPERATIONS, BatchResult
from lake_assets.silver.batch_log import batches_table
from lake_assets.silver.batch_log.batch_row import BatchRow, committed_batches
from lake_assets.silver.batch_log.batches_table import BatchLog
from lake_assets.silver.batch_log.record_batches import batches_since, record_batches
from lake_assets.silver.table.position import BATCH
from lake_assets_tests.helpers.lakes.keyed_shop import COLUMNS, KEYED, MaintainedShop, maintained_shop
from lake_assets_tests.helpers.processes.child import PATIENCE, run_python
from lake_assets_tests.helpers.processes.same_lake import same_lake

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("keep_little")]
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
TABLES: dict[str, dict[str, Any]] = {
    "items": KEYED,
    "versions": KEYED | {"mode": "history"},
    "changes": {"columns": COLUMNS, "mode": "change_log"},
}
NAMES = [f"silver_shop.{name}" for name in TABLES]


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> MaintainedShop:
    """With a table of each shape."""
    shop = maintained_shop(tmp_path, **TABLES)
    shop.bench.lake.runtime.run_id = "run-7"
    return shop


@pytest.fixture
def small_shop(spark: SparkSession, tmp_path: Path) -> MaintainedShop:
    return maintained_shop(tmp_path, items=KEYED)


def changed(shop: MaintainedShop) -> dict[str, BatchResult]:
    """One more batch of each table."""
    shop.change()
    return {f"silver_shop.{name}": batch for name, (batch,) in shop.bench.apply().items()}


def record(lake: Lake) -> list[str]:
    followed = BatchLogOutput(lake).follow()
    assert not followed.problems
    return followed.done


def logged(shop: MaintainedShop) -> list[BatchRow]:
    """All rows of the log; none is there twice."""
    found = BatchLog(shop.bench.lake.runtime.catalog).since(LONG_AGO, NAMES)
    assert max(Counter(row.key for row in found).values(), default=0) <= 1, "a batch is there twice"
    assert sorted(row.number for row in found) == list(range(1, len(found) + 1))
    return sorted(found, key=lambda row: row.number)


def test_the_figures_are_those_of_the_commits(shop: MaintainedShop) -> None:
    batches = changed(shop)
    assert record(shop.bench.lake) == ["6 batches were recorded"], (
        "a full load and a batch of changes of each"
    )
    assert record(shop.bench.lake) == []
    rows = logged(shop)
    newest = {row.table: row for row in rows}
    assert set(newest) == set(NAMES)
    for name, batch in batches.items():
        row, target = newest[name], name.partition(".")[2]
        assert row.snapshot_id == batch.position.snapshot_id
        given = summary(shop.bench.table(target).snapshot_by_id(row.snapshot_id))
        shown = ("kind", "strategy", "files", "bytes", "rows-read", "rows-quarantined", "unmatched")
        operations = [f"rows-{operation}" for operation in OPERATIONS.values()]
        for figure in (*shown, *operations):
            assert str(getattr(row, figure.replace("-", "_"))) == given[f"{BATCH}{figure}"], figure
        assert (row.files, row.bytes, row.rows, row.position) == (
            batch.files,
            batch.bytes,
            batch.rows,
            batch.position.log_offset,
        )
        assert {op: getattr(row, f"rows_{of}") for op, of in OPERATIONS.items()} == {
            op: batch.by_op[op] for op in OPERATIONS
        }
        assert (row.run_id, row.newest_commit) == ("run-7", batch.position.max_commit_ts)
        assert batch.published_at is not None
        assert row.published_at is not None
        assert abs(row.published_at - batch.published_at) < timedelta(seconds=2)
        assert row.committed_at <= row.published_at
        assert row.passage is not None
        assert row.latency_seconds == pytest.approx(row.passage.from_file, abs=0.001)
        assert {"write", "publish"} <= set(row.stages)
        measured = {
            stage: seconds for stage, seconds in row.stages.items() if stage not in ("write", "publish")
        }
        assert measured or target == "changes", "which only appends"
        for stage, seconds in measured.items():
            assert 0 < seconds <= batch.seconds[stage]
        assert sum(row.stages.values()) == pytest.approx(row.seconds, abs=0.05)
        assert sum(batch.seconds.values()) <= row.seconds + 1
    assert len(given[f"{BATCH}stages"]) + len(given[f"{BATCH}began-at"]) < 300


def test_recorders_at_once(small_shop: MaintainedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that reads the log, and appends after another has; then some as fast as they can."""
    lake = small_shop.bench.lake
    others = list[Lake]()

    def overtaken(table: Any, rows: Any) -> None:
        if others:
            assert record(others.pop()) == ["1 batch was recorded"]
        append_rows(table, rows)

    record(lake)
    monkeypatch.setattr(batches_table, "append_rows", overtaken)
    changed(small_shop)
    others.append(small_shop.bench.reopened())
    assert record(lake) == [], "it has lost the race, and found all recorded"
    monkeypatch.undo()
    for _ in range(2):
        changed(small_shop)
    lakes = [small_shop.bench.reopened() for _ in range(4)]
    together, said = threading.Barrier(len(lakes)), list[str]()

    def go(own: Lake) -> None:
        together.wait()
        said.extend(record(own))

    threads = [threading.Thread(target=go, args=(own,)) for own in lakes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["2 batches were recorded"]
    assert len(logged(small_shop)) == 4


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_while_recording(small_shop: MaintainedShop, when: str) -> None:
    for again in range(2):
        changed(small_shop)
        arguments = same_lake(small_shop.bench) | {"kill": when}
        program = "lake_assets_tests.helpers.processes.record_process"
        process = run_python("-m", program, json.dumps(arguments), timeout=PATIENCE)
        assert process.returncode == -signal.SIGKILL, process.stderr[-4000:]
        there = {row.key for row in logged(small_shop)}
        found = {row.key for row in committed_batches(small_shop.bench.table())}
        assert (found <= there) is (when == "after")
        record(small_shop.bench.lake)
        assert len(logged(small_shop)) == 2 + again


def test_expiry_does_not_outrun_the_log(shop: MaintainedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maintenance re-stamps and expires; what nobody has recorded yet is recorded first, or nothing expires."""
    for _ in range(2):
        changed(shop)
    batches = {row.key for name in TABLES for row in committed_batches(shop.bench.table(name))}
    assert len(batches) == 9

    def refuse(log: BatchLog, tables: object) -> None:
        raise OSError("no bucket")

    with monkeypatch.context() as patched:
        patched.setattr(maintenance, "record_batches", refuse)
        with pytest.raises(OSError, match="no bucket"):
            shop.maintain()
    assert {row.key for row in committed_batches(shop.bench.table())} <= batches
    assert len(committed_batches(shop.bench.table())) == 3, "nothing has expired"

    shop.maintain()
    for name in TABLES:
        assert len(shop.chain(name)) == 1
        assert RESTAMP_OF in summary(shop.chain(name)[0])
        assert committed_batches(shop.bench.table(name)) == []
    assert {row.key for row in logged(shop)} == batches
    assert record(shop.bench.lake) == [], "a re-stamp is no batch"
    changed(shop)
    tables = {name: shop.bench.lake.runtime.catalog.load_table(name) for name in NAMES}
    found = batches_since(shop.bench.lake.runtime.catalog, tables, LONG_AGO)
    assert [len(rows) for rows in found.values()] == [4, 4, 4]
    for rows in found.values():
        assert [row.committed_at for row in rows] == sorted(row.committed_at for row in rows)
        assert [bool(row.number) for row in rows] == [True, True, True, False], (
            "the newest is in its commit only"
        )
    newest = found["silver_shop.items"][-1].committed_at
    assert [
        len(rows)
        for rows in batches_since(
            shop.bench.lake.runtime.catalog, {"silver_shop.items": tables["silver_shop.items"]}, newest
        ).values()
    ] == [1]


def test_batches_that_come_during_maintenance(
    small_shop: MaintainedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that are published between the recording and the expiry do not expire."""
    late = list[BatchResult]()

    def then_more(log: BatchLog, tables: Any) -> list[BatchRow]:
        done = record_batches(log, tables)
        if not late:
            for _ in range(2):
                late.append(changed(small_shop)["silver_shop.items"])
        return done

    monkeypatch.setattr(maintenance, "record_batches", then_more)
    changed(small_shop)
    assert maintenance.maintain_silver(small_shop.bench.lake.runtime, (), small_shop.items).error is None
    left = {row.snapshot_id for row in committed_batches(small_shop.bench.table())}
    assert left == {batch.position.snapshot_id for batch in late}
    record(small_shop.bench.lake)
    assert len([row for row in logged(small_shop) if row.table == "silver_shop.items"]) == 4


def test_published_batches_alone(small_shop: MaintainedShop) -> None:
    """Those before a rollback of main, too; not what an attempt has left on its branch."""
    lake = small_shop.bench.lake
    changed(small_shop)
    target = small_shop.items
    first = next(one for one in commits(lake.runtime, target)[::-1] if one.position is not None)
    go_back(lake.runtime, target, first)
    assert len(small_shop.chain()) < len(small_shop.bench.table().snapshots())
    left = Attempt(lake.runtime.sessions.root(), lake.config.catalog.name, target.identifier)
    left.start(small_shop.bench.table().metadata.current_snapshot_id)
    own = {name: value for name, value in small_shop.bench.summary().items() if name.startswith("lake.")}
    left.write_nothing(own | {f"{BATCH}kind": "cdc"})
    assert record(lake) == ["2 batches were recorded"]
