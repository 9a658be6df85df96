"""Full loads as readers see them: all parts at once or none, replaced at once, never mixed with what was there.

Here: real files, Spark and tables. Not here: the decisions case by case (`test_plan.py`,
`bronze/log/test_admission.py`).
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.mend.full_load_decision import decide
from lake_assets.commands.show.status import status
from lake_assets.errors import LakeError, TableStopped
from lake_assets.silver.apply.engine import apply_table, apply_tables
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.servers.dms_task import Dms, statistics

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COLUMNS = {"id": "long not null", "v": "string"}
ITEMS = {"columns": COLUMNS, "primary_key": ["id"]}
LOAD, CDC = "public/items/LOAD00000001.csv", "public/items"
MINUTE = timedelta(minutes=1)


def part(folder: str, ids: Any, at: float = 0, value: str = "loaded") -> DmsFile:
    """A part of a parallel load: `p0/`, `SEGMENT1_`."""
    rows = load_file("public.items", [{"id": n, "v": value} for n in ids], at=NOON + at * MINUTE).rows
    return DmsFile(f"public/items/{folder}LOAD00000001.csv", rows)


def gated(policy: Any, **more: Any) -> dict[str, Any]:
    return ITEMS | {"full_load_complete": policy} | more


def remove(bench: Bench, *keys: str) -> None:
    assert bench.location is not None
    for key in keys:
        (bench.location / key).unlink()
        del bench.bucket[key]


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Callable[..., Bench]:
    def new(tables: dict[str, Any], **more: Any) -> Bench:
        return Bench(tmp_path, tables, **more)

    return new


# --- by DMS's word


def by_dms(bench: Callable[..., Bench], dms: Dms) -> Bench:
    """Items by DMS's word, events at once."""
    assert dms.task.access_key_id is not None
    assert dms.task.secret_access_key is not None
    task = dms.task.model_dump(exclude={"access_key_id", "secret_access_key", "path_style"}) | {
        "access_key_id": dms.task.access_key_id.get_secret_value(),
        "secret_access_key": dms.task.secret_access_key.get_secret_value(),
    }
    return bench({"public.items": gated("dms"), "public.events": ITEMS}, source={"dms_task": task})


def why(result: TableResult) -> str:
    assert result.error is None
    assert result.batches == []
    return result.waiting or ""


def test_parallel_parts_in_any_order_wait_for_dms(bench: Callable[..., Bench], dms: Dms) -> None:
    lake = by_dms(bench, dms)
    dms.stats = {"FullLoadProgressPercent": 60, "TablesLoading": 1}
    lake.put(part("p2/", [7, 8], at=1), load_file("public.events", [{"id": 1, "v": "e"}]))
    results = lake.turn()
    assert why(results["items"]) == (
        "full load of 1 file: DMS has done 60 % of its task's full load, 1 table is loading or queued"
    )
    assert lake.rows("events") == lake.truth("public.events")

    lake.put(part("SEGMENT1_", [5]), part("p0/", [1, 2, 3]))
    dms.tables = [statistics("public.items", "Full load"), statistics("public.events", "Table completed")]
    assert "DMS reports public.items as: Full load" in why(lake.turn()["items"])

    # DMS is done, and its last part was written after the last look.
    lake.look()
    lake.put(part("p1/", [4], at=2))
    dms.tables[0] |= {"TableState": "Table completed"}
    (result,) = apply_tables(lake.reopened().runtime, [lake.lake.targets[0]])
    assert why(result) == "full load of 3 files: public/items/p1/LOAD00000001.csv is yet to be logged"

    (batch,) = lake.apply()["items"]
    assert (batch.kind, batch.files) == ("full_load", 4)
    assert lake.rows() == lake.truth()


@pytest.mark.long
def test_dms_is_silent_or_the_task_unknown(bench: Callable[..., Bench], dms: Dms) -> None:
    silent = dms.task.model_copy(update={"endpoint": "http://127.0.0.1:9"})
    lake = by_dms(bench, Dms(silent))
    lake.put(part("", [1]), load_file("public.events", [{"id": 1, "v": "e"}]))
    results = lake.turn()
    assert "DMS cannot be reached (EndpointConnectionError)" in why(results["items"])
    assert len(results["events"].batches) == 1
    (items, _) = status(lake.lake)
    assert items.state == "waiting"
    assert "DMS cannot be reached" in (items.reason or "")


@pytest.mark.long
def test_a_failed_reload_leaves_the_table(bench: Callable[..., Bench], dms: Dms) -> None:
    """Its parts stop arriving, then one of them is damaged; the next attempt replaces the table."""
    lake = by_dms(bench, dms)
    lake.put(part("", [1, 2, 3]), part("p9/", [4]))
    lake.apply()
    before = lake.rows()

    lake.put(part("", [1, 9], at=60, value="again"))
    dms.tables = [statistics("public.items", "Table error")]
    assert "DMS reports public.items as: Table error" in why(lake.turn()["items"])
    assert lake.rows() == before

    dms.tables = [statistics("public.items", "Table completed")]
    lake.put_text("public/items/LOAD00000002.parquet", "not Parquet at all")
    error = lake.turn()["items"].error
    assert isinstance(error, TableStopped)
    assert "LOAD00000002.parquet" in str(error)
    assert "have DMS reload the table" in str(error)
    assert lake.rows() == before

    assert lake.location is not None
    (lake.location / "public/items/LOAD00000002.parquet").unlink()
    lake.put(part("", [1, 5], at=120, value="at last"))
    lake.apply()
    del lake.bucket["public/items/p9/LOAD00000001.csv"]  # of the load before
    assert lake.rows() == lake.truth()


# --- replacing


def test_a_reader_sees_the_old_table_or_the_new_one(bench: Callable[..., Bench]) -> None:
    lake = bench({"public.items": ITEMS})
    lake.put(part("", range(1, 6)))
    lake.apply()
    old, seen = lake.rows(), []
    lake.put(part("", [1, 7], at=60, value="reloaded"))
    lake.look()

    def reader(target: Target, stage: str) -> None:
        seen.append((stage, lake.rows()))

    result = apply_table(lake.lake.runtime, lake.lake.targets[0], reader)
    assert result.error is None
    new = lake.truth()
    assert [stage for stage, rows in seen if rows == old] == ["write", "publish"]
    assert [stage for stage, rows in seen if rows == new] == ["done"]
    assert lake.rows() == new


@pytest.mark.long
def test_changes_cached_during_the_load_converge(bench: Callable[..., Bench]) -> None:
    """The load has read some rows before the changes and some after: I, U and D of rows that it has, and of rows that
    it has not."""
    lake = bench({"public.items": gated("first_cdc")})
    clock = Clock(NOON + 2 * MINUTE)
    lake.put(part("", [1, 2, 3, 4, 5]), part("p1/", [6, 7], at=1))
    assert "waiting for the first CDC file" in (lake.turn()["items"].waiting or "")
    changes = [
        clock.change("I", {"id": 4, "v": "inserted, and in the load"}),
        clock.change("U", {"id": 2, "v": "updated"}),
        clock.change("D", {"id": 3, "v": None}),
        clock.change("D", {"id": 99, "v": None}),
        clock.change("U", {"id": 50, "v": "not in the load"}),
        clock.change("U", {"id": 60, "v": "moved"}, {"id": 6}),
        clock.change("I", {"id": 6, "v": "again"}),
    ]
    lake.put(cdc_file("public.items", NOON + 5 * MINUTE, changes))
    kinds = [batch.kind for batch in lake.apply()["items"]]
    assert kinds == ["full_load", "cdc"]
    assert lake.rows() == lake.truth()
    # The same files in another order: the changes are there first.
    other = Bench(lake.folder / "other", {"public.items": gated("first_cdc")})
    for file in sorted(lake.bucket.values(), key=lambda file: file.is_load):
        other.put(file)
        other.turn()
    assert other.rows() == lake.rows()


def test_what_dms_still_had_from_before_a_reload_does_not_end_it(bench: Callable[..., Bench]) -> None:
    """By the first CDC file: the reload has two parts, of which one comes after changes from before the reload."""
    lake = bench({"public.items": gated("first_cdc")})
    clock = Clock(NOON + 2 * MINUTE)
    lake.put(part("", [1, 2]), part("p1/", [3]))
    lake.put(cdc_file("public.items", NOON + 4 * MINUTE, [clock.change("U", {"id": 3, "v": "changed"})]))
    lake.apply()
    before = lake.rows()

    clock.now = NOON + 59 * MINUTE
    tail = [clock.change("I", {"id": 8, "v": "from before"}), clock.change("D", {"id": 8, "v": None})]
    lake.put(part("", [1], at=60, value="reloaded"))
    lake.put(cdc_file("public.items", NOON + 60.5 * MINUTE, tail))
    assert "full load of 1 file: waiting" in (lake.turn()["items"].waiting or "")
    assert lake.rows() == before

    clock.now = NOON + 62 * MINUTE
    lake.put(part("p1/", [3, 4], at=61, value="reloaded"))
    lake.put(cdc_file("public.items", NOON + 64 * MINUTE, [clock.change("U", {"id": 4, "v": "changed"})]))
    lake.apply()
    assert lake.rows() == lake.truth()

    # A file from before the reload, weeks late.
    clock.now = NOON + 30 * MINUTE
    lake.put(cdc_file("public.items", NOON + 31 * MINUTE, [clock.change("I", {"id": 70, "v": "stale"})]))
    lake.apply()
    assert lake.rows() == lake.truth()


# --- reloads whose keys are all new


@pytest.mark.long
def test_a_reload_with_folders_replaces_a_load_without(bench: Callable[..., Bench]) -> None:
    """Changes between the two tell them apart, also to a lake that sees all files at once."""
    lake = bench({"public.items": gated({"quiet_period": "0s"})})
    clock = Clock(NOON + 2 * MINUTE)
    lake.put(part("", range(1, 6)))
    lake.put(cdc_file("public.items", NOON + 4 * MINUTE, [clock.change("U", {"id": 3, "v": "changed"})]))
    lake.apply()
    lake.put(part("p1/", [3], at=61, value="reloaded"))
    lake.apply()
    lake.put(part("p0/", [1], at=60, value="reloaded"))
    lake.apply()
    files = dict(lake.bucket)
    del lake.bucket[LOAD]  # of the load before, and still in the bucket
    assert lake.rows() == lake.truth()
    assert len(lake.rows()) == 2

    fresh = Bench(lake.folder / "fresh", {"public.items": gated({"quiet_period": "0s"})})
    fresh.put(*files.values())
    fresh.apply()
    assert fresh.rows() == lake.rows()


@pytest.mark.long
@pytest.mark.parametrize("decision", ["reload", "same load"])
def test_what_nothing_tells_is_asked(bench: Callable[..., Bench], decision: str) -> None:
    lake = bench({"public.items": gated({"quiet_period": "0s"}, also=["change_log"]), "public.events": ITEMS})
    lake.put(part("", range(1, 6)))
    lake.apply()
    before = lake.rows()
    with pytest.raises(LakeError, match="no full-load file is ambiguous"):
        decide(lake.lake, "public.items", None, reload=True)
    lake.put(part("p0/", [1], at=60, value="new"), part("p1/", [7], at=61, value="new"))
    lake.put(load_file("public.events", [{"id": 1, "v": "e"}]))
    results = lake.turn()
    assert isinstance(results["items"].error, TableStopped)
    assert "Run `lake-assets full-load public.items --reload` if DMS" in str(results["items"].error)
    assert len(results["events"].batches) == 1
    assert lake.rows() == before
    (items, _, _) = status(lake.lake)
    assert (items.state, items.rows) == ("stopped", 5)
    assert "late part of it or of a reload (2 such files)" in (items.reason or "")

    logged = decide(lake.lake, "public.items", None, reload=decision == "reload")
    assert [file.key.split("/")[2] for file in logged] == ["p0", "p1"]
    lake.apply()
    ids = sorted(row["id"] for row in lake.table().scan().to_arrow().to_pylist())
    assert ids == ([1, 7] if decision == "reload" else [1, 2, 3, 4, 5, 7])
    # The decision is in the log: built anew, the table is the same.
    rows = lake.rows()
    lake.lake.runtime.catalog.drop_table("silver_shop.items")
    lake.apply(only=["items"])
    assert lake.rows() == rows
    with pytest.raises(LakeError, match=r"no full-load file|lake.yaml has no"):
        decide(lake.lake, "public.items", None, reload=True)
