"""Rows and files that cannot be used are quarantined, found again, and come back in their rightful order.

Here: the engine with the quarantine. Not here: why a row is bad
(`bronze/reader/test_reader.py`), rows that stop their table (`test_bad_rows.py`).
"""

import gzip
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.quarantine.quarantine_log import State
from lake_assets.commands.mend.quarantine_commands import chosen, discard, retry
from lake_assets.commands.show.status import status
from lake_assets.errors import LakeError, TableStopped
from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.batch.quarantine import BatchQuarantine
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.narrow_shop import LONG, ONE, TABLE, WIDE, NarrowShop, config
from lake_assets_tests.helpers.processes.faults import Killed, killed
from lake_assets_tests.helpers.reconcile.restored import restorer

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> NarrowShop:
    return NarrowShop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], NarrowShop]:
    return restorer(NarrowShop(tmp_path_factory.mktemp("bare"), also=[]))


@pytest.fixture
def bare(made: Callable[[], NarrowShop]) -> NarrowShop:
    """Without a change log, and with nothing in quarantine."""
    return made()


def test_a_bad_row_is_quarantined_and_the_others_are_applied(shop: NarrowShop) -> None:
    key = shop.put(
        shop.change("U", 1, "good"),
        shop.change("U", 2, 'bad, "quoted"\nover two lines', LONG),
        shop.change("U", 3, "bad too", LONG),
        shop.change("I", 6, "good"),
    )
    batches = shop.bench.apply()
    assert [(b.rows_read, b.rows_quarantined) for b in batches["items"]] == [(4, 2)]
    assert shop.values() == {1: "good", 2: "loaded", 3: "loaded", 4: "loaded", 5: "loaded", 6: "good"}
    first, second = shop.held()
    assert (first.table, first.key, first.row, first.line) == (TABLE, key, 1, 3)
    assert (second.row, second.line) == (2, 5)
    assert first.reason == "n is not a valid decimal(3, 1): '123.4'"
    assert 'bad, ""quoted""\nover two lines' in first.raw
    assert [held.row for held in shop.held("items_changes")] == [1, 2], "each shape decides by itself"
    assert shop.bench.summary()["lake.batch.rows-quarantined"] == "2"
    assert {s.table: s.quarantined for s in status(shop.bench.lake)} == {
        "silver_shop.items": 2,
        "silver_shop.items_changes": 2,
    }


def test_later_changes_of_its_key_apply(shop: NarrowShop) -> None:
    shop.put(shop.change("U", 2, "later"))
    shop.bench.apply()
    assert shop.values()[2] == "later"
    assert len(shop.held()) == 2


def test_a_retry_with_the_old_contract_changes_nothing(shop: NarrowShop) -> None:
    before = shop.bench.rows(), shop.bench.rows("items_changes")
    logged = retry(shop.runtime, chosen(shop.runtime, TABLE, []))
    assert [file.retry for file in logged] == [True]
    shop.bench.apply()
    assert (shop.bench.rows(), shop.bench.rows("items_changes")) == before
    assert [(held.row, held.state) for held in shop.held()] == [(1, State.HELD), (2, State.HELD)]


def test_a_late_file_replays_past_it(shop: NarrowShop) -> None:
    """The replay reads the file again as it was first decided: its bad rows stay out."""
    late = cdc_file(
        TABLE,
        NOON + timedelta(minutes=3),
        [Clock(NOON + timedelta(minutes=2)).change("U", {"id": 4, "v": "late", "n": ONE})],
    )
    shop.bench.put(late)
    (batch,) = shop.bench.apply()["items"]
    assert batch.replayed_bytes > 0
    assert shop.values()[4] == "late"
    assert len(shop.held()) == 2


def test_a_retry_with_a_corrected_contract_comes_in_its_rightful_order(shop: NarrowShop) -> None:
    shop.bench.edit(config(WIDE))
    first, second = shop.held()
    changes_of_it = [held for held in shop.held("items_changes") if held.row == first.row]
    retry(shop.runtime, [first, *changes_of_it])
    shop.bench.apply()
    assert shop.values()[2] == "later", "what came after it is newer"
    assert shop.values()[3] == "loaded", "nobody asked for that one"
    assert [held.id for held in shop.held()] == [second.id]
    retry(shop.runtime, chosen(shop.runtime, TABLE, []))
    shop.bench.apply()
    assert shop.values()[3] == "bad too"
    assert shop.held() == shop.held("items_changes") == []
    assert {held.state for held in shop.runtime.quarantine.all()} == {State.RELEASED}
    shop.check()


@pytest.mark.long
def test_from_the_beginning_it_is_the_same(shop: NarrowShop) -> None:
    """Each file by the contract of its newest record in the log."""
    before = shop.bench.rows()
    shop.runtime.catalog.drop_table("silver_shop.items")
    shop.bench.apply()
    assert shop.bench.rows() == before
    assert shop.held() == []


def test_ids_that_are_nobodys_or_several_rows(shop: NarrowShop) -> None:
    with pytest.raises(
        LakeError, match="no quarantined row has this id; `lake-assets quarantine list` shows"
    ):
        chosen(shop.runtime, None, ["zzz"])
    with pytest.raises(LakeError, match="rows begin with it"):
        chosen(shop.runtime, None, [""], every=True)


@pytest.mark.long
def test_a_discarded_row_stays_out(spark: SparkSession, tmp_path: Path) -> None:
    shop = NarrowShop(tmp_path)
    shop.put(shop.change("U", 1, "bad", LONG))
    shop.bench.apply()
    assert len(discard(shop.runtime, shop.held())) == 1
    assert shop.held() == []
    shop.put(shop.change("U", 2, "good"))
    shop.bench.apply()
    assert shop.values() == {1: "loaded", 2: "good", 3: "loaded", 4: "loaded", 5: "loaded"}
    assert [held.state for held in shop.runtime.quarantine.all("silver_shop.items")] == [State.DISCARDED]


@pytest.mark.long
@pytest.mark.parametrize("death", ["before publishing", "after publishing"])
def test_a_run_that_dies_quarantines_nothing_twice(
    bare: NarrowShop, monkeypatch: pytest.MonkeyPatch, death: str
) -> None:
    bare.put(bare.change("U", 1, "bad", LONG), bare.change("U", 2, "good"))
    if death == "before publishing":
        monkeypatch.setattr(Attempt, "publish", killed)
    else:
        monkeypatch.setattr(BatchQuarantine, "release", killed)
    with pytest.raises(Killed):
        bare.bench.apply()
    monkeypatch.undo()
    bare.bench.lake = bare.bench.reopened()
    bare.bench.apply()
    assert [held.row for held in bare.held()] == [0]
    bare.bench.edit(config(WIDE, also=[]))
    retry(bare.runtime, bare.held())
    if death == "after publishing":
        monkeypatch.setattr(BatchQuarantine, "release", killed)
        with pytest.raises(Killed):
            bare.bench.apply()
        monkeypatch.undo()
        assert len(bare.held()) == 1, "applied, and not yet told"
        bare.put(bare.change("U", 3, "next"))
    bare.bench.apply()
    assert bare.values()[1] == "bad"
    assert bare.held() == []


def test_a_contract_that_was_corrected_before_anything_was_published(bare: NarrowShop) -> None:
    """The batch is quarantined, dies, and is read by another contract the next time."""
    bare.put(bare.change("U", 1, "bad", LONG))
    runtime = bare.runtime
    bare.bench.look()
    with pytest.MonkeyPatch.context() as patched:

        def kill(*anything: Any) -> None:
            raise KeyboardInterrupt

        patched.setattr(Attempt, "publish", kill)
        with pytest.raises(KeyboardInterrupt):
            bare.bench.apply()
    assert len(runtime.quarantine.open()) == 1
    bare.bench.edit(config(WIDE, also=[]))
    bare.bench.apply()
    assert bare.values()[1] == "bad"
    assert bare.held() == []


def test_a_file_that_cannot_be_read_is_quarantined_whole(bare: NarrowShop) -> None:
    assert bare.bench.location is not None
    bare.clock.now += timedelta(minutes=1)
    damaged = cdc_file(TABLE, bare.clock.now, [bare.change("U", 1, "whole")], "csv.gz")
    bare.bench.put(damaged)
    path = bare.bench.location / damaged.key
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    bare.put(bare.change("U", 2, "good"))
    (batch,) = bare.bench.apply()["items"]
    assert (batch.files_quarantined, batch.rows_quarantined, batch.rows_read) == (1, 0, 1)
    assert bare.values()[2] == "good"
    (held,) = bare.held()
    assert (held.key, held.row, held.line) == (damaged.key, None, None)
    assert "gzip" in held.reason
    # DMS writes it again: the new version of the file is applied, in its order.
    path.write_bytes(whole)
    bare.bench.apply()
    assert bare.values()[1] == "whole"
    bare.check_current()
    assert bare.held() == []
    (told,) = chosen(bare.runtime, TABLE, [], every=True)
    assert told.state is State.SUPERSEDED


def test_what_is_superseded_is_no_longer_held(bare: NarrowShop) -> None:
    assert bare.bench.location is not None
    rewritten = bare.put(bare.change("U", 1, "bad", LONG), bare.change("U", 2, "good"))
    bare.put(bare.change("U", 3, "bad too", LONG))
    bare.bench.apply()
    first, second = bare.held()
    # Asked for again, and then the file is another one: its rows at that place are not those that were held.
    retry(bare.runtime, [first])
    changes = [bare.change("U", 2, "other"), bare.change("U", 1, "corrected")]
    bare.bench.put(DmsFile(rewritten, tuple(changes)))
    bare.bench.apply()
    assert bare.values() == {1: "corrected", 2: "other", 3: "loaded", 4: "loaded", 5: "loaded"}
    assert [held.id for held in bare.held()] == [second.id]
    # A reload has everything that was flushed before it began.
    began = bare.clock.now + timedelta(hours=1)
    bare.bench.put(load_file(TABLE, [{"id": 3, "v": "reloaded", "n": ONE}], at=began))
    bare.bench.apply()
    assert bare.values() == {3: "reloaded"}
    assert bare.held() == []
    assert {held.state for held in chosen(bare.runtime, TABLE, [], every=True)} == {State.SUPERSEDED}


def test_rows_of_an_object_that_was_put_again_are_retried(bare: NarrowShop) -> None:
    """Its newest record has another version, and the same content."""
    assert bare.bench.location is not None
    path = bare.bench.location / bare.put(bare.change("U", 1, "bad", LONG), bare.change("U", 2, "good"))
    content, compressed = path.read_bytes(), path.with_name(f"{path.name}.gz")
    path.unlink()
    compressed.write_bytes(gzip.compress(content, 1))
    bare.bench.apply()
    (held,) = bare.held()
    compressed.write_bytes(gzip.compress(content, 9))
    bare.bench.look()
    newest = bare.runtime.file_log.files("shop", TABLE)[-1]
    assert (newest.key, newest.version == held.version) == (held.key, False), "put again"
    bare.bench.edit(config(WIDE, also=[]))
    (asked,) = retry(bare.runtime, [held])
    assert (asked.key, asked.version, asked.retry) == (held.key, held.version, True)
    bare.bench.apply()
    assert bare.values()[1] == "bad", "n has room now"
    assert bare.held() == []


def test_limits_stop_the_table(bare: NarrowShop) -> None:
    bare.bench.edit(config(also=[], quarantine={"max_rows": 1}))
    bare.put(*(bare.change("U", n, "bad", LONG) for n in (1, 2)))
    error = bare.bench.turn()["items"].error
    assert isinstance(error, TableStopped)
    assert "(2 rows in all; quarantine.max_rows is 1)" in str(error)
    assert bare.held() == []
    bare.bench.edit(config(also=[], quarantine={"max_rows": 50, "max_share": 0.05}))
    bare.put(*(bare.change("U", 1 + n % 5, "good") for n in range(18)))
    error = bare.bench.turn()["items"].error
    assert isinstance(error, TableStopped), "2 of 20 is more than a twentieth"
    assert "(2 rows in all; quarantine.max_share is 0.05 of the batch's 20 rows)" in str(error)
    bare.bench.edit(config(also=[], quarantine={"max_rows": 50, "max_share": 0.1}))
    bare.bench.apply()
    assert len(bare.held()) == 2


@pytest.mark.long
def test_what_is_known_already_is_no_news(bare: NarrowShop) -> None:
    """Rows that were quarantined batch by batch, within the limits, do not stop a table that is built anew."""
    bare.bench.edit(config(also=[], quarantine={"max_rows": 1}))
    for n in (1, 2, 3):
        bare.put(bare.change("U", n, "bad", LONG))
        bare.bench.apply()
    first, *others = bare.held()
    discard(bare.runtime, [first])
    before = bare.bench.rows()
    bare.runtime.catalog.drop_table("silver_shop.items")
    bare.bench.apply()
    assert bare.bench.rows() == before
    assert [held.id for held in bare.held()] == [held.id for held in others], (
        "and what was discarded stays so"
    )
