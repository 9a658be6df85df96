"""Something outside changes the lake: the table stays right, or it stops with a reason and a command that mends it.

Here: each case once, with real files, Spark and tables. Not here: random mixtures of them (`outside`), the decisions on
single cases (`bronze/test_copies.py`, `test_load_doubt.py`).
"""

import gzip
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io import InputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyspark.sql import SparkSession

from lake_assets.automation.tending import tend_silver
from lake_assets.bronze import discovery
from lake_assets.bronze.log_record import LoggedFile
from lake_assets.build import Lake, open_lake
from lake_assets.commands.detach import detach
from lake_assets.commands.full_load import decide
from lake_assets.commands.recover import recover
from lake_assets.commands.restore import restore
from lake_assets.commands.status import status
from lake_assets.errors import LakeError
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.rebuild import rebuild
from lake_assets_tests.dms_files import NOON, Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.lakes import sequence
from lake_assets_tests.silver.bench import Bench

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ITEMS = {"columns": {"id": "long not null", "v": "string"}, "primary_key": ["id"]}
HOUR = timedelta(hours=1)


def loaded(values: dict[int, str], *, part: int = 1, at: datetime = NOON) -> DmsFile:
    rows = [{"id": n, "v": v} for n, v in values.items()]
    return load_file("public.items", rows, part=part, at=at)


def changed(clock: Clock, *changes: tuple[str, int, str]) -> DmsFile:
    rows = [clock.change(op, {"id": n, "v": v}) for op, n, v in changes]
    return cdc_file("public.items", clock.now + timedelta(minutes=1), rows)


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Callable[..., Bench]:
    def new(tables: dict[str, Any] | None = None, **more: Any) -> Bench:
        return Bench(tmp_path, tables or {"public.items": ITEMS}, **more)

    return new


@pytest.fixture
def shop(bench: Callable[..., Bench]) -> Bench:
    """A load of three rows, of which changes have updated one and deleted another."""
    found, clock = bench(), Clock()
    found.put(loaded({1: "a", 2: "b", 3: "c"}))
    found.put(changed(clock, ("U", 1, "changed"), ("D", 2, "b"), ("I", 4, "new")))
    found.apply()
    assert values(found) == {1: "changed", 3: "c", 4: "new"}
    return found


def values(bench: Bench, name: str = "items") -> dict[int, str]:
    rows = bench.table(name).scan().to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows), "no row is doubled"
    return {row["id"]: row["v"] for row in rows}


def reason(bench: Bench, name: str = "items") -> str:
    """Why the table has stopped: as its turn and `status` say."""
    error = bench.turn()[name].error
    assert isinstance(error, LakeError), error
    line = next(line for line in status(bench.reopened()) if line.table == f"silver_shop.{name}")
    assert line.state in ("stopped", "failing")
    assert line.reason is not None
    return str(error)


def sql(bench: Bench, statement: str) -> None:
    with bench.lake.runtime.sessions.isolated() as spark:
        spark.sql(statement.format(table=f"{bench.lake.config.catalog.name}.silver_shop.items"))


def path_of(address: str) -> Path:
    """Of a file's address, as PyIceberg or Spark writes it."""
    return Path("/" + address.removeprefix("file:").lstrip("/"))


def read_anew(file: InputFile, encoding: str = "utf-8") -> TableMetadata:
    with file.open() as stream:
        return TableMetadataUtil.parse_raw(stream.read().decode(encoding))


def told(lake: Lake) -> str:
    """What `status` says of a lake whose catalog is not as it was."""
    try:
        (line,) = status(lake)
    except LakeError as error:
        return str(error)
    assert line.state == "stopped"
    return str(line.reason)


def reopen(bench: Bench) -> None:
    bench.lake = bench.reopened()


# --- objects are copied, corrected, put back


def test_a_load_that_was_compressed_or_touched_changes_nothing(shop: Bench) -> None:
    assert shop.location is not None
    (load,) = shop.location.rglob("LOAD*.csv")
    load.with_name(f"{load.name}.gz").write_bytes(gzip.compress(load.read_bytes()))
    load.unlink()
    for path in shop.location.rglob("*.csv*"):
        os.utime(path)
    assert shop.apply() == {"items": []}
    assert values(shop) == {1: "changed", 3: "c", 4: "new"}
    target = shop.lake.targets[0]
    assert rebuild(shop.lake.runtime, target, publish=False).equal, "the copy is read where it is now"


def test_a_value_that_was_corrected_in_a_load_keeps_the_changes(shop: Bench) -> None:
    shop.put(loaded({1: "a", 2: "b", 3: "corrected"}))
    shop.apply()
    assert values(shop) == {1: "changed", 3: "corrected", 4: "new"}


def test_a_corrected_load_needs_all_changes(shop: Bench) -> None:
    assert shop.location is not None
    (changes,) = shop.location.rglob("2*.csv")
    content = changes.read_bytes()
    changes.unlink()
    shop.put(loaded({1: "a", 2: "b", 3: "corrected"}))
    assert "gone from the bucket" in reason(shop)
    assert values(shop) == {1: "changed", 3: "c", 4: "new"}, "nothing was guessed"
    changes.write_bytes(content)
    shop.apply()
    assert values(shop) == {1: "changed", 3: "corrected", 4: "new"}


@pytest.mark.parametrize("reload", [False, True])
def test_under_the_tasks_start_other_content_is_asked_about(
    bench: Callable[..., Bench], reload: bool
) -> None:
    found = bench(dms={"use_task_start_time_for_full_load_timestamp": True})
    found.put(loaded({1: "a", 2: "b"}))
    found.put(changed(Clock(), ("U", 1, "changed")))
    found.apply()
    found.put(loaded({1: "again"}))
    assert "lake-assets full-load" in reason(found)
    assert values(found) == {1: "changed", 2: "b"}
    if reload:
        with pytest.raises(LakeError, match="--began"):
            decide(found.lake, "public.items", None, reload=True)
        decide(found.lake, "public.items", None, reload=True, began=NOON + 2 * HOUR)
    else:
        decide(found.lake, "public.items", None, reload=False)
    found.apply()
    assert values(found) == ({1: "again"} if reload else {1: "changed"})


def test_a_stale_part_that_is_touched_does_not_join_the_reload(bench: Callable[..., Bench]) -> None:
    found = bench()
    found.put(loaded({1: "a"}), loaded({2: "stale"}, part=2, at=NOON))
    found.apply()
    found.put(loaded({1: "reloaded"}, at=NOON + HOUR))
    found.apply()
    assert values(found) == {1: "reloaded"}
    assert found.location is not None
    os.utime(found.location / "public/items/LOAD00000002.csv")
    found.apply()
    assert values(found) == {1: "reloaded"}


@pytest.mark.parametrize("reload", [False, True])
def test_two_loads_days_apart_are_asked_about(bench: Callable[..., Bench], reload: bool) -> None:
    found = bench()
    found.put(loaded({2: "stale"}, part=2), loaded({1: "new"}, at=NOON + 72 * HOUR))
    assert "may be of two loads" in reason(found)
    decide(found.lake, "public.items", None, reload=reload)
    found.apply()
    assert values(found) == ({1: "new"} if reload else {1: "new", 2: "stale"})


# --- the file log and the contracts are lost


def more(shop: Bench, at: datetime = NOON + HOUR) -> dict[int, str]:
    """A further file of changes, not applied yet; what the table is with it."""
    clock = Clock(at)
    shop.put(changed(clock, ("U", 3, "later"), ("I", 5, "newest")))
    return {1: "changed", 3: "later", 4: "new", 5: "newest"}


def drop_log(shop: Bench) -> None:
    shop.lake.runtime.catalog.drop_table("lake_ops.bronze_files")


def purge_log(shop: Bench) -> None:
    table = shop.lake.runtime.catalog.load_table("lake_ops.bronze_files")
    drop_log(shop)
    shutil.rmtree(path_of(table.location()))


def roll_back_log(shop: Bench) -> None:
    """To before the first file."""
    table = shop.lake.runtime.catalog.load_table("lake_ops.bronze_files")
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()


@pytest.mark.parametrize("lose", [drop_log, purge_log, roll_back_log])
def test_a_log_that_is_lost_stops_the_table_and_is_recovered(
    bench: Callable[..., Bench], lose: Callable[[Bench], None]
) -> None:
    found, clock = bench(), Clock()
    found.put(loaded({1: "a", 2: "b", 3: "c"}))
    found.look()
    found.put(changed(clock, ("U", 1, "changed"), ("D", 2, "b"), ("I", 4, "new")))
    found.apply()
    lose(found)
    reopen(found)
    # It comes late, and so takes the offset that another file had.
    expected = more(found, NOON + timedelta(minutes=2))
    assert "lake-assets recover" in reason(found)
    assert values(found) == {1: "changed", 3: "c", 4: "new"}
    assert list(recover(found.lake))
    reopen(found)
    (batch,) = found.apply()["items"]
    assert values(found) == expected
    assert (batch.kind, batch.files) == ("cdc", 1), "nothing was applied twice"
    assert list(recover(found.lake)) == []


def test_a_purged_log_is_recovered_though_old_files_have_expired(shop: Bench) -> None:
    assert shop.location is not None
    for path in shop.location.rglob("LOAD*"):
        path.unlink()
    purge_log(shop)
    reopen(shop)
    expected = more(shop)
    assert "lake-assets recover" in reason(shop)
    list(recover(shop.lake))
    reopen(shop)
    (batch,) = shop.apply()["items"]
    assert (batch.kind, batch.files) == ("cdc", 1)
    assert values(shop) == expected
    with pytest.raises(LakeError, match="gone from the bucket"):
        rebuild(shop.lake.runtime, shop.lake.targets[0])


@pytest.mark.parametrize("purged", [False, True])
def test_contracts_that_are_lost(shop: Bench, purged: bool) -> None:
    catalog = shop.lake.runtime.catalog
    folder = path_of(catalog.load_table("lake_ops.contracts").location())
    catalog.drop_table("lake_ops.contracts")
    if purged:
        shutil.rmtree(folder)
    reopen(shop)
    expected = more(shop)
    assert "lake_ops.contracts" in reason(shop)
    list(recover(shop.lake))
    reopen(shop)
    shop.apply()
    assert values(shop) == expected


@pytest.mark.parametrize("table", ["silver_shop.items", "lake_ops.bronze_files"])
def test_a_catalog_that_was_restored_names_metadata_that_is_gone(
    shop: Bench, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = more(shop)
    shop.apply()
    catalog = shop.lake.runtime.catalog
    newest = path_of(catalog.load_table(table).metadata_location)
    former = newest.with_name(f"00000-former{newest.name}")
    shutil.copy(newest, former)
    catalog.drop_table(table)
    catalog.register_table(table, f"file://{former}")
    former.unlink()
    # Another process has not read it before.
    monkeypatch.setattr(FromInputFile, "table_metadata", staticmethod(read_anew))
    lake = open_lake(shop.lake.config, LakeRuntime(shop.lake.config), marts=())
    assert "lake-assets recover" in told(lake)
    list(recover(open_lake(shop.lake.config, LakeRuntime(shop.lake.config), marts=())))
    shop.lake = open_lake(shop.lake.config, LakeRuntime(shop.lake.config), marts=())
    assert shop.apply() == {"items": []}
    assert values(shop) == expected


# --- somebody else writes to silver, or names are exchanged


STRANGERS = {
    "insert": "INSERT INTO {table} VALUES (9, 'stray')",
    "update": "UPDATE {table} SET v = 'stray'",
    "delete": "DELETE FROM {table}",
}


@pytest.mark.parametrize("mend", ["restore", "rebuild"])
@pytest.mark.parametrize("statement", STRANGERS)
def test_a_commit_of_somebody_else_stops_the_table(shop: Bench, statement: str, mend: str) -> None:
    sql(shop, STRANGERS[statement])
    expected = more(shop)
    said = reason(shop)
    assert "not by lake_assets" in said
    assert f"lake-assets {mend} silver_shop.items" in said
    target = shop.lake.targets[0]
    upkeep = tend_silver(shop.lake.runtime, (), target)
    assert upkeep.error is not None, "maintenance does not cover it with a commit of its own"
    if mend == "restore":
        assert restore(shop.lake.runtime, target) == 1
    else:
        rebuild(shop.lake.runtime, target)
    shop.apply()
    assert values(shop) == expected


def test_a_commit_of_somebody_else_may_be_tolerated(bench: Callable[..., Bench]) -> None:
    found = bench({"public.items": ITEMS | {"foreign_commits": "tolerate"}})
    found.put(loaded({1: "a"}))
    found.apply()
    sql(found, STRANGERS["insert"])
    found.put(changed(Clock(), ("I", 2, "b")))
    found.apply()
    assert values(found) == {1: "a", 2: "b", 9: "stray"}


def test_compaction_by_another_tool_is_no_strangers_commit(shop: Bench) -> None:
    catalog = shop.lake.config.catalog.name
    sql(
        shop,
        f"CALL {catalog}.system.rewrite_data_files(table => 'silver_shop.items', "
        "options => map('rewrite-all', 'true'))",
    )
    expected = more(shop)
    shop.apply()
    assert values(shop) == expected


def test_a_position_that_another_tool_has_expired_is_found_again_by_a_rebuild(shop: Bench) -> None:
    catalog = shop.lake.config.catalog.name
    name = "table => 'silver_shop.items'"
    sql(shop, f"CALL {catalog}.system.rewrite_data_files({name}, options => map('rewrite-all', 'true'))")
    sql(
        shop,
        f"CALL {catalog}.system.expire_snapshots({name}, older_than => TIMESTAMP '2099-01-01 00:00:00', "
        "retain_last => 1)",
    )
    expected = more(shop)
    assert "lake-assets rebuild" in reason(shop)
    rebuild(shop.lake.runtime, shop.lake.targets[0])
    shop.apply()
    assert values(shop) == expected


def test_names_that_are_exchanged_do_not_mix_two_tables(bench: Callable[..., Bench]) -> None:
    found = bench({"public.items": ITEMS, "public.goods": ITEMS})
    found.put(loaded({1: "item"}), load_file("public.goods", [{"id": 1, "v": "good"}]))
    found.apply()
    found.edit({"public.items": ITEMS | {"name": "goods"}, "public.goods": ITEMS | {"name": "items"}})
    assert "lake-assets detach" in reason(found, "goods")
    assert (values(found, "items"), values(found, "goods")) == ({1: "item"}, {1: "good"})
    for target in found.lake.targets:
        assert detach(found.lake.runtime, target).startswith(f"silver_shop.{target.name}_of_")
    reopen(found)
    found.apply()
    assert (values(found, "items"), values(found, "goods")) == ({1: "good"}, {1: "item"})
    assert values(found, "items_of_public_items") == {1: "item"}


# --- a table of which only changes are there


def test_changes_of_rows_that_the_table_never_had_are_counted(bench: Callable[..., Bench]) -> None:
    found, clock = bench(), Clock()
    found.put(changed(clock, ("I", 1, "a"), ("U", 2, "b"), ("D", 3, "c")))
    found.apply()
    found.put(changed(clock, ("D", 4, "d"), ("U", 1, "known")))
    found.apply()
    (line,) = status(found.lake)
    assert line.unknown_rows == 3
    assert line.reason is not None
    assert "3 rows" in line.reason
    found.edit({"public.items": ITEMS | {"cdc_only": True}})
    (line,) = status(found.lake)
    assert (line.unknown_rows, line.reason) == (3, None)


def test_files_of_other_tables_do_not_move_a_position(shop: Bench) -> None:
    """The record at a position is the table's own: that is how a log of another lake is told."""
    log = shop.lake.runtime.file_log.files("shop", "public.items")
    offset = int(shop.summary()["lake.log-offset"])
    (at,) = [file for file in log if file.offset == offset]
    assert isinstance(at, LoggedFile)
    assert shop.summary()["lake.log-file"] == at.key
    assert datetime.fromisoformat(shop.summary()["lake.logged-at"]).astimezone(UTC) == at.logged_at


# --- several of these at once


def test_a_reload_that_was_pending_when_the_log_was_lost_is_applied(shop: Bench) -> None:
    shop.put(loaded({1: "reloaded", 7: "new"}, at=NOON + HOUR))
    purge_log(shop)
    reopen(shop)
    assert "lake-assets recover" in reason(shop)
    list(recover(shop.lake))
    reopen(shop)
    shop.apply()
    assert values(shop) == {1: "reloaded", 7: "new"}


def test_a_table_that_is_behind_others_keeps_what_is_pending(bench: Callable[..., Bench]) -> None:
    """Its old files have expired, so that the checksum proves nothing; other tables are further."""
    found, clock = bench({"public.items": ITEMS, "public.goods": ITEMS}), Clock()
    found.put(loaded({1: "a"}), load_file("public.goods", [{"id": 1, "v": "good"}]))
    found.put(changed(clock, ("U", 1, "changed")))
    found.apply()
    clock.now += HOUR
    found.put(changed(clock, ("I", 2, "pending")))
    found.put(cdc_file("public.goods", clock.now + 2 * HOUR, [clock.change("U", {"id": 1, "v": "ahead"})]))
    found.apply(only=["goods"])
    assert found.location is not None
    (found.location / "public/items/LOAD00000001.csv").unlink()
    purge_log(found)
    reopen(found)
    assert "lake-assets recover" in reason(found)
    list(recover(found.lake))
    reopen(found)
    found.apply()
    assert (values(found), values(found, "goods")) == ({1: "changed", 2: "pending"}, {1: "ahead"})


@pytest.mark.parametrize("reload", [False, True])
def test_a_load_without_timestamps_that_cannot_be_compared_is_asked_about(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, reload: bool
) -> None:
    """As of an earlier version, whose log has no digests, or too large for one."""
    found = bench(dms={"timestamp_column_name": None})
    inspect = discovery.inspect_file
    monkeypatch.setattr(discovery, "inspect_file", lambda *args: replace(inspect(*args), content=None))
    header = "Op,id,v,change_seq,BI_id"
    for part, row in ((1, "I,1,a,,"), (2, "I,2,b,,")):
        found.put_text(f"public/items/LOAD{part:08X}.csv", header, row)
    found.put_text("public/items/20260301-121000000.csv", header, f"U,1,z,{sequence(5)},")
    found.apply()
    assert values(found) == {1: "z", 2: "b"}
    # The size is the same: nothing says whether it was only encrypted again.
    found.put_text("public/items/LOAD00000001.csv", header, "I,1,n,,")
    assert "lake-assets full-load" in reason(found)
    assert values(found) == {1: "z", 2: "b"}
    decide(found.lake, "public.items", None, reload=reload)
    found.apply()
    assert values(found) == ({1: "n"} if reload else {1: "z", 2: "b"})


def test_a_corrected_load_is_not_appended_to_a_change_log_again(bench: Callable[..., Bench]) -> None:
    found = bench({"public.items": ITEMS | {"also": ["change_log"]}})
    found.put(loaded({1: "a", 2: "b"}))
    found.put(changed(Clock(), ("U", 1, "changed")))
    found.apply()
    before = found.rows("items_changes")
    found.put(loaded({1: "a", 2: "corrected"}))
    found.turn()
    assert values(found) == {1: "changed", 2: "corrected"}
    assert [row for row in found.rows("items_changes") if "corrected" not in row] == before


def test_a_corrected_reload_keeps_the_beginning_that_was_given(bench: Callable[..., Bench]) -> None:
    found = bench(dms={"use_task_start_time_for_full_load_timestamp": True})
    found.put(loaded({1: "a", 2: "b"}))
    found.put(changed(Clock(), ("U", 1, "old change")))
    found.apply()
    for value, reload in (("reloaded", True), ("corrected", False)):
        found.put(loaded({1: value}))
        assert "lake-assets full-load" in reason(found)
        decide(found.lake, "public.items", None, reload=reload, began=NOON + HOUR if reload else None)
        found.apply()
        assert values(found) == {1: value}
