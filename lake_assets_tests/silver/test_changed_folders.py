"""`folders` of lake.yaml are changed after files were logged: silver has the rows of the folders that are the table's
now, or the table stops and says what happened.

Here: real tables. Not here: folders that do not change (`test_partition_folders.py`).
"""

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.commands.mend.quarantine_commands import retry
from lake_assets.commands.show.status import status
from lake_assets.errors import TableStopped
from lake_assets.silver.apply.rebuild import rebuild, replay
from lake_assets.silver.batch.quarantine import BatchQuarantine
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, load_file, transaction_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.transaction_tables import TRANSACTIONS
from lake_assets_tests.helpers.processes.faults import Killed, killed

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SALES, JAN, FEB = "public.sales", "public.sales_2026_01", "public.sales_2026_02"
COLUMNS = {"id": "long not null", "v": "string"}
HOUR = timedelta(hours=1)
KINDS: dict[str, dict[str, Any]] = {
    "current": {"primary_key": ["id"]},
    "append_log": {"mode": "append_log"},
    "change_log": {"mode": "change_log"},
}


def sales(*folders: str, **more: Any) -> dict[str, Any]:
    return {SALES: {"columns": COLUMNS, "folders": list(folders)} | (more or KINDS["current"])}


def target(bench: Bench) -> Target:
    return bench.lake.targets[0]


def values(bench: Bench) -> dict[int, Any]:
    return bench.stored_by_id("v", "sales")


def insert(clock: Clock, table: str, key: int, value: str) -> tuple[str, Any]:
    return table, clock.change("I", {"id": key, "v": value})


def land(bench: Bench, hour: int, *changes: tuple[str, Any]) -> None:
    """A transaction file lands, whatever the table's folders are."""
    now, bench.tables = bench.tables, {SALES: {**bench.tables[SALES], "folders": ["sales_*"]}}
    bench.put(transaction_file(NOON + hour * HOUR, list(changes)))
    bench.tables = now


def shop(folder: Path, *folders: str, **more: Any) -> tuple[Bench, Clock]:
    """A load of the table's own folder, and a transaction file with rows of it and of two partitions."""
    bench, clock = Bench(folder, sales("sales_*", **more), TRANSACTIONS), Clock(NOON + HOUR)
    bench.put(load_file(SALES, [{"id": 1, "v": "loaded"}]))
    changes = [insert(clock, name, key, "logged") for name, key in ((SALES, 2), (JAN, 3), (FEB, 4))]
    bench.put(transaction_file(NOON + 2 * HOUR, changes))
    bench.edit(sales(*folders, **more))
    bench.apply()
    return bench, clock


OWN = {1: "loaded", 2: "logged"}


@pytest.mark.parametrize(
    ("kind", "later"), [pytest.param("current", False, marks=pytest.mark.long), ("append_log", True)]
)
def test_rows_that_were_logged_before_the_glob(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, later: bool
) -> None:
    bench, clock = shop(tmp_path, "sales_2026_02", **KINDS[kind])
    assert values(bench) == OWN | {4: "logged"}
    if later:
        land(bench, 3, insert(clock, JAN, 5, "later"))
    bench.edit(sales("sales_*", **KINDS[kind]))
    (line,) = status(bench.lake)
    assert line.state == "pending", line.reason
    assert line.reason is not None
    assert (
        "silver_shop.sales lacks the rows of public.sales_2026_01: lake.yaml joins them to public.sales "
        '(folders: ["sales_*"]) only since their files were logged, cdc/CDC_TXN-'
    ) in line.reason
    with caplog.at_level(logging.WARNING):
        bench.apply()
    assert line.reason in " ".join(caplog.messages)
    expected = OWN | {3: "logged", 4: "logged"} | ({5: "later"} if later else {})
    assert values(bench) == expected
    assert rebuild(bench.lake.runtime, target(bench), publish=False).equal
    assert bench.apply() == {"sales": []}, "it is computed again once"


def test_a_change_log_keeps_what_it_has_until_a_rebuild(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = shop(tmp_path, **KINDS["change_log"])
    before = bench.rows("sales")
    land(bench, 3, insert(clock, JAN, 5, "later"))
    bench.edit(sales("sales_*", **KINDS["change_log"]))
    error = bench.turn()["sales"].error
    assert isinstance(error, TableStopped)
    lacking = (
        "silver_shop.sales lacks the rows of public.sales_2026_01, public.sales_2026_02: lake.yaml joins them"
    )
    assert lacking in error.reason
    assert error.next_step.startswith("Run `lake-assets rebuild public.sales`")
    assert bench.rows("sales") == before
    rebuild(bench.lake.runtime, target(bench))
    bench.apply()
    assert values(bench) == OWN | {3: "logged", 4: "logged", 5: "later"}
    assert rebuild(bench.lake.runtime, target(bench), publish=False).equal


@pytest.mark.parametrize(
    ("kind", "left"),
    [("current", ()), pytest.param("append_log", ("sales_2026_02",), marks=pytest.mark.long)],
)
def test_a_glob_that_is_removed(
    spark: SparkSession, tmp_path: Path, kind: str, left: tuple[str, ...]
) -> None:
    bench, clock = shop(tmp_path, "sales_*", **KINDS[kind])
    everything = OWN | {3: "logged", 4: "logged"}
    assert values(bench) == everything
    bench.edit(sales(*left, **KINDS[kind]))
    error = bench.turn()["sales"].error
    assert isinstance(error, TableStopped)
    gone = "public.sales_2026_01" if left else "public.sales_2026_01, public.sales_2026_02"
    now = 'folders: ["sales_2026_02"]' if left else "no folders"
    assert error.reason == (
        f"silver_shop.sales has the rows of {gone}, from cdc/CDC_TXN-20260301140000000.csv, and lake.yaml no longer "
        f'joins them to public.sales: it had folders: ["sales_*"], and now has {now}.'
    )
    assert error.next_step.startswith("Put it back, or run `lake-assets rebuild public.sales`")
    assert values(bench) == everything
    bench.edit(sales("sales_*", **KINDS[kind]))
    assert bench.apply() == {"sales": []}, "it is put back"
    bench.edit(sales(*left, **KINDS[kind]))
    with pytest.raises(TableStopped, match="no longer joins them"):
        rebuild(bench.lake.runtime, target(bench), publish=False)
    rebuild(bench.lake.runtime, target(bench))
    land(bench, 3, insert(clock, SALES, 5, "later"))
    bench.apply()
    assert values(bench) == OWN | ({4: "logged"} if left else {}) | {5: "later"}
    assert rebuild(bench.lake.runtime, target(bench), publish=False).equal


def test_the_only_folder_of_a_table_leaves_it(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = Bench(tmp_path, sales("sales_*"), TRANSACTIONS), Clock(NOON + HOUR)
    land(bench, 2, insert(clock, JAN, 3, "logged"))
    bench.apply()
    bench.edit(sales())
    with pytest.raises(TableStopped, match=r"has the rows of public.sales_2026_01.*Put it back"):
        rebuild(bench.lake.runtime, target(bench))
    bench.edit(sales("sales_2026_01"))
    assert bench.apply() == {"sales": []}, "other globs, the same files"
    land(bench, 3, insert(clock, JAN, 5, "later"))
    bench.apply()
    assert values(bench) == {3: "logged", 5: "later"}


def test_a_table_of_its_own_becomes_a_partition(spark: SparkSession, tmp_path: Path) -> None:
    """Its files were logged under its name."""
    bench, clock = shop(tmp_path, "sales_2026_02")
    as_table = {JAN: {"columns": COLUMNS, "primary_key": ["id"]}}
    bench.edit(sales("sales_2026_02") | as_table)
    bench.apply()
    assert bench.stored_by_id("v", "sales_2026_01") == {3: "logged"}, (
        "a table that is added starts with the log's rows"
    )
    land(bench, 3, insert(clock, SALES, 5, "later"))
    bench.apply()
    bench.edit(sales("sales_*"))
    bench.apply()
    assert values(bench) == OWN | {3: "logged", 4: "logged", 5: "later"}


def test_a_file_that_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = shop(tmp_path, "sales_2026_02")
    assert bench.location is not None
    (key,) = (key for key in bench.bucket if key.startswith("cdc/"))
    content = (bench.location / key).read_bytes()
    (bench.location / key).unlink()
    land(bench, 3, insert(clock, JAN, 5, "later"))
    bench.edit(sales("sales_*"))
    for _ in range(2):
        error = bench.turn()["sales"].error
        assert isinstance(error, TableStopped)
        assert f"{key}, which silver_shop.sales is computed from, is gone from the bucket" in error.reason
        assert values(bench) == OWN | {4: "logged"}
    (bench.location / key).write_bytes(content)
    bench.apply()
    assert values(bench) == OWN | {3: "logged", 4: "logged", 5: "later"}


def test_keys_are_not_replayed_with_other_folders(spark: SparkSession, tmp_path: Path) -> None:
    bench, _ = shop(tmp_path, "sales_2026_02")
    bench.edit(sales("sales_*"))
    (key,) = (key for key in bench.bucket if key.startswith("cdc/"))
    with pytest.raises(TableStopped, match=r"lacks the rows of public\.sales_2026_01"):
        replay(bench.lake.runtime, target(bench), key)


STRICT = {"columns": {"id": "long not null", "v": "string not null"}, "primary_key": ["id"]}
LENIENT = {"columns": COLUMNS, "primary_key": ["id"]}


def with_bad_rows(folder: Path, loaded: str = SALES) -> tuple[Bench, Clock]:
    """A transaction file with a row of each name, then rows without a value: of a partition, and of the table."""
    bench, clock = Bench(folder, sales("sales_*", **STRICT), TRANSACTIONS), Clock(NOON + HOUR)
    bench.put(load_file(loaded, [{"id": 1, "v": "loaded"}]))
    rows = [(JAN, 3, None), (SALES, 2, "logged"), (SALES, 5, None), (JAN, 4, "logged")]
    changes = [(name, clock.change("I", {"id": key, "v": value})) for name, key, value in rows]
    bench.put(transaction_file(NOON + 2 * HOUR, changes))
    bench.apply()
    assert values(bench) == OWN | {4: "logged"}
    assert quarantined(bench) == {0: "held", 2: "held"}
    return bench, clock


def quarantined(bench: Bench) -> dict[int | None, str]:
    """By the row's place in its file, the states of what is quarantined; the newest entry of a place."""
    return {held.row: str(held.state) for held in bench.lake.runtime.quarantine.all()}


def open_rows(bench: Bench) -> list[str]:
    return sorted(held.raw or "" for held in bench.lake.runtime.quarantine.open())


def test_quarantined_rows_of_a_glob_that_goes_and_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    bench, _ = with_bad_rows(tmp_path)
    both = open_rows(bench)
    assert len(both) == 2
    bench.edit(sales(**STRICT))
    runtime = bench.lake.runtime
    retry(runtime, runtime.quarantine.open())
    rebuild(runtime, target(bench))
    bench.apply()
    assert values(bench) == OWN
    assert [raw for raw in both if ",sales," in raw.replace('"', "")] == open_rows(bench), (
        "of its own rows alone"
    )
    assert quarantined(bench) == {0: "superseded", 2: "superseded", 1: "held"}, "nothing of it was applied"
    bench.edit(sales("sales_*", **STRICT))
    bench.apply()
    assert values(bench) == OWN | {4: "logged"}
    assert open_rows(bench) == both
    bench.edit(sales("sales_*", **LENIENT))
    retry(bench.lake.runtime, bench.lake.runtime.quarantine.open())
    bench.apply()
    assert values(bench) == OWN | {3: None, 4: "logged", 5: None}
    assert rebuild(bench.lake.runtime, target(bench), publish=False).equal
    assert open_rows(bench) == []


def test_a_quarantined_row_of_a_folder_that_leaves_with_its_only_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench, clock = Bench(tmp_path, sales("sales_*", **STRICT), TRANSACTIONS), Clock(NOON + HOUR)
    bench.put(load_file(SALES, [{"id": 1, "v": "loaded"}]))
    bench.put(transaction_file(NOON + 2 * HOUR, [(JAN, clock.change("I", {"id": 3, "v": None}))]))
    bench.apply()
    bench.edit(sales(**STRICT))
    runtime = bench.lake.runtime
    assert retry(runtime, runtime.quarantine.open()) == [], "the table has no such file any more"
    assert quarantined(bench) == {0: "held"}
    rebuild(runtime, target(bench))
    assert quarantined(bench) == {0: "superseded"}


def test_a_retried_row_of_a_partition_that_is_loaded_again(spark: SparkSession, tmp_path: Path) -> None:
    """The partition's row of before is gone, and the places of the other rows are others."""
    bench, _ = with_bad_rows(tmp_path, loaded=FEB)
    bench.edit(sales("sales_*", **LENIENT))
    retry(bench.lake.runtime, bench.lake.runtime.quarantine.open())
    bench.apply()
    assert values(bench) == OWN | {3: None, 4: "logged", 5: None}
    bench.put(load_file(JAN, [{"id": 4, "v": "loaded again"}], at=NOON + 3 * HOUR))
    bench.apply()
    assert values(bench) == OWN | {4: "loaded again"}, (
        "the table's own row is bad by the contract of its time"
    )
    retry(bench.lake.runtime, bench.lake.runtime.quarantine.open())
    bench.apply()
    assert values(bench) == OWN | {4: "loaded again", 5: None}
    assert rebuild(bench.lake.runtime, target(bench), publish=False).equal


def test_killed_before_the_former_rows_are_superseded(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are open then, counted among different rows. A retry reads the row that the table has."""
    bench, _ = with_bad_rows(tmp_path)
    bench.edit(sales(**STRICT))
    with monkeypatch.context() as patch:
        patch.setattr(BatchQuarantine, "release", killed)
        with pytest.raises(Killed):
            rebuild(bench.lake.runtime, target(bench))
    assert quarantined(bench) == {0: "held", 2: "held", 1: "held"}
    bench.edit(sales(**LENIENT))
    retry(bench.lake.runtime, bench.lake.runtime.quarantine.open())
    bench.apply()
    assert values(bench) == OWN | {5: None}
    assert quarantined(bench) == {0: "superseded", 2: "superseded", 1: "released"}
    assert rebuild(bench.lake.runtime, target(bench), publish=False).equal


def test_entries_of_an_earlier_release(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did not record among which rows a place counts. A row that is still bad is open once."""
    with monkeypatch.context() as patch:
        patch.setattr(LoggedFile, "counted_among", None)
        bench, _ = with_bad_rows(tmp_path)
    both = open_rows(bench)
    retry(bench.lake.runtime, bench.lake.runtime.quarantine.open())
    bench.apply()
    assert open_rows(bench) == both
    states = sorted(str(held.state) for held in bench.lake.runtime.quarantine.all())
    assert states == ["held", "held", "superseded", "superseded"], "none of them was applied"
    bench.edit(sales("sales_*", **LENIENT))
    retry(bench.lake.runtime, bench.lake.runtime.quarantine.open())
    bench.apply()
    assert values(bench) == OWN | {3: None, 4: "logged", 5: None}
    rebuild(bench.lake.runtime, target(bench))
    assert values(bench) == OWN | {3: None, 4: "logged", 5: None}
    assert open_rows(bench) == []
