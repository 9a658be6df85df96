"""Silver after files of a stream were merged: late changes, rebuilds, retries. Not here: the files themselves
(`bronze/stream/test_merging.py`)."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.stream import merging
from lake_assets.bronze.stream.merging import Merged, merged_files
from lake_assets.config import ContinuousConfig
from lake_assets.iceberg.upkeep.table_maintenance import Maintained
from lake_assets.orchestration.runs.continuous_run import Continuous
from lake_assets.rounds import maintenance, merged_landings
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets.rounds.merged_landings import merge_landed
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets.storage.object_store import ObjectStore
from lake_assets_tests.helpers.files.dms_messages import NOON, MemoryStream, message
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.oracles.random_history import TABLE
from lake_assets_tests.silver.test_stream_histories import loaded, stream, stream_bench

__all__ = ["stream"]
pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(autouse=True)
def merged_soon(stream: MemoryStream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files are enough, and nobody waits for messages that DMS puts late."""
    monkeypatch.setattr(merged_landings, "SETTLED_AFTER", timedelta(0))
    monkeypatch.setattr(merging, "FEWEST", 2)
    monkeypatch.setattr("lake_assets.bronze.stream.backlog.ASK_SECONDS", 0)
    monkeypatch.setattr("lake_assets.runtime.opened_client", lambda config, aws: stream.client())


def row(number: int, v: str) -> dict[str, Any]:
    return {"v": v, "id": number, "part": "x", "n": number}


def change(operation: str, number: int, v: str, transaction: int, at: datetime = NOON) -> bytes:
    image: dict[str, Any] | None = {} if operation == "update" else None
    return message(operation, row(number, v), before=image, table=TABLE, transaction=transaction, at=at)


def merge(bench: Bench) -> Maintained:
    done = Maintained("files of shop")
    merge_landed(bench.lake.runtime, "shop", done)
    return done


def test_a_lake_whose_files_were_merged(stream: MemoryStream, tmp_path: Path, spark: SparkSession) -> None:
    bench = stream_bench(tmp_path, "mysql", ["id"], also=["change_log", "history"])
    stream.put("a", *loaded([row(n, "loaded") for n in range(1, 4)], NOON - timedelta(minutes=5)))
    bench.apply()
    for number in range(1, 5):
        stream.put("a", change("update", 1 + number % 3, f"v{number}", 10 * number))
        bench.apply()
    assert merge(bench).files_rewritten == 0, "silver keeps a snapshot at each of them"
    for target in bench.lake.targets:
        maintain_silver(bench.lake.runtime, (), target, keep_commits=1)
    before = {name: bench.rows(name) for name in ("items", "items_changes", "items_history")}
    done = merge(bench)
    # The newest one says up to where the shard was read, and is at the position of silver.
    assert (done.files_rewritten, done.files_before - done.files_after) == (3, 2)
    for target in bench.lake.targets:
        assert rebuild(bench.lake.runtime, target, publish=False).equal, target.name
    assert bench.apply() == {"items": [], "items_changes": [], "items_history": []}
    assert {name: bench.rows(name) for name in before} == before
    # Late: between two changes of a merged file. And one that supplies a part of the row.
    stream.put("b", change("delete", 2, "v1", 15))
    part = {"id": 3, "n": 7}
    stream.put("b", message("update", part, before={}, table=TABLE, transaction=200))
    bench.apply()
    assert bench.stored_by_id("v") == {1: "v3", 2: "v4", 3: "v2"}
    assert bench.stored_by_id("n")[3] == 7
    # A change log quarantines a row that is not whole.
    assert len(bench.rows("items_changes")) == len(before["items_changes"]) + 1
    for target in bench.lake.targets:
        assert rebuild(bench.lake.runtime, target, publish=False).equal, target.name


def test_a_file_with_a_quarantined_row_stays(
    stream: MemoryStream, tmp_path: Path, spark: SparkSession
) -> None:
    bench = stream_bench(tmp_path, "mysql", ["id"], quarantine={"max_rows": 5})
    for number in range(1, 11):
        bad = {"n": "x"} if number == 5 else {}
        stream.put("a", message("insert", row(number, "v") | bad, table=TABLE, transaction=number))
        bench.look()
    bench.apply()
    files = bench.lake.runtime.file_log.files("shop")
    (held,) = bench.lake.runtime.quarantine.open()
    assert held.key == files[4].key
    merge(bench)
    left = bench.lake.runtime.file_log.files("shop")
    assert [file.offset for file in left] == [4, 5, 9, 10]
    assert left[1] == files[4]
    # A message that is still in the stream may be a full load of before.
    stream.put("a", *[change("insert", number, "v", number) for number in range(20, 25)])
    assert merge(bench).files_rewritten == 0


def test_the_continuous_run_merges_by_itself(
    stream: MemoryStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.setattr(maintenance, "APART", 1)
    bench = stream_bench(tmp_path, "mysql", ["id"])
    monkeypatch.setattr(maintenance, "MAINTAIN_AFTER", 3)
    lake, settings = bench.lake, ContinuousConfig(keep_commits=2)
    instance = dg.DagsterInstance.ephemeral()
    rounds = Continuous(lake.runtime, "shop", lake.targets, lake.marts, instance, settings=settings)
    maintained: list[Maintained] = []
    for number in range(1, 11):
        stream.put("a", change("insert", number, f"v{number}", number))
        bench.look()
        maintained += rounds.round().maintained
    assert [one.error for one in maintained] == [None] * len(maintained)
    rewritten = {one.table: one.files_rewritten for one in maintained}
    assert rewritten["files of shop"] >= 2
    assert len(lake.runtime.file_log.files("shop")) < 8
    assert bench.stored_by_id("v") == {number: f"v{number}" for number in range(1, 11)}
    assert rebuild(lake.runtime, lake.targets[0], publish=False).equal


def test_positions_that_lake_yaml_does_not_show(
    stream: MemoryStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """Of a shape that was taken out and may come back, and of a table that moves while files are merged."""
    bench = stream_bench(tmp_path, "mysql", ["id"], also=["change_log"])
    for number in range(1, 4):
        stream.put("a", change("insert", number, f"v{number}", number))
        bench.apply()
    before = bench.lake.runtime.file_log.head()
    bench.edit({TABLE: {name: value for name, value in bench.tables[TABLE].items() if name != "also"}})
    for number in range(4, 9):
        stream.put("a", change("insert", number, f"v{number}", number))
        bench.look()
    bench.apply()
    maintain_silver(bench.lake.runtime, (), bench.lake.targets[0], keep_commits=1)

    with monkeypatch.context() as patched:

        def moved(run: list[LoggedFile], store: ObjectStore) -> list[Merged]:
            found = [*merged_files(run, store)]
            patched.setattr(merged_landings, "positions_of", lambda table: {run[1].offset})
            return found

        patched.setattr(merged_landings, "merged_files", moved)
        assert merge(bench).files_rewritten == 0
    files = {file.key for file in bench.lake.runtime.file_log.files("shop") if file.offset <= before}
    assert merge(bench).files_rewritten == 4
    assert files <= {file.key for file in bench.lake.runtime.file_log.files("shop")}
    bench.edit({TABLE: {**bench.tables[TABLE], "also": ["change_log"]}})
    bench.apply()
    assert len(bench.rows("items_changes")) == len(bench.rows()) == 8
