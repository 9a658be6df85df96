"""Slices of a silver table against its files: what is found, where, and how progress is kept.

Here: a table that an outside writer has changed unnoticed. Not here: repairs (`test_repair.py`).
"""

import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.checks.reconcile_rule import equals_files
from lake_assets.config import Mode, Reconcile
from lake_assets.errors import LakeError, TableStopped
from lake_assets.silver.reconcile import compare_slices
from lake_assets.silver.reconcile.compare_slices import begun_cycle, compare, key_slices, known_cycle, note
from lake_assets.silver.reconcile.cycle import Cycle, chosen_slices
from lake_assets.silver.reconcile.key_slices import bucket
from lake_assets.silver.table.guard import refuse_unfit
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.reconcile.outside_writer import rewrite
from lake_assets_tests.helpers.reconcile.reconciled_shop import ITEMS, NOON, ReconciledShop, lines
from lake_assets_tests.helpers.reconcile.restored import restorer

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], ReconciledShop]:
    return restorer(ReconciledShop(tmp_path_factory.mktemp("shop")))


@pytest.fixture
def shop(made: Callable[[], ReconciledShop]) -> ReconciledShop:
    return made()


def test_a_healthy_table_equals_its_files_in_every_slice(shop: ReconciledShop) -> None:
    for name, slices in (("items", 2), ("pairs", 2)):
        target, cycle = shop.target(name), shop.cycle(slices, name)
        found = [compare(shop.bench.lake.runtime, target, cycle, [one]) for one in range(slices)]
        assert all(not each.different for each in found), lines(found[0])
        # Every row is in one slice.
        assert sum(each.rows for each in found) == len(shop.bench.rows(name))
        most = len(shop.bench.rows(name)) / slices
        assert all(most / 3 <= each.rows <= 2 * most for each in found), "of about the same size"


def test_every_kind_of_difference_is_located(shop: ReconciledShop) -> None:
    """Though the guard takes all commits but the last for the engine's own."""
    lake = shop.bench.lake
    table = "silver_shop.items"
    rewrite(lake, table, "id = 33")
    rewrite(
        lake,
        table,
        "id IN (30, 31, 32, 34)",
        price="IF(id = 30, price + 0.01, price)",
        v="IF(id = 31, NULL, v)",
        r="IF(id = 31, 0.25D, r)",
        at="IF(id = 32, at + INTERVAL 1 MICROSECOND, at)",
        id="IF(id = 34, 900L, id)",
    )
    refuse_unfit(shop.target(), shop.bench.table())
    name = f"{lake.config.catalog.name}.{table}"
    lake.runtime.sessions.root().sql(f"INSERT INTO {name} SELECT * FROM {name} WHERE id = 40")
    found = shop.compared(4)
    assert lines(found) == [
        "id=30: price is 30.51, the files give 30.50",
        "id=31: v is NULL, the files give v31; r is 0.25, the files give 0.5",
        "id=32: at is 2026-03-01 12:00:00.000001, the files give 2026-03-01 12:00:00",
        "id=33: the table lacks the row",
        "id=34: the table lacks the row",
        "id=40: the table has the row 2 times",
        "id=900: the files do not give the row",
    ]
    assert sum(found.different.values()) == 7


def test_the_same_value_in_another_column_is_a_difference(shop: ReconciledShop) -> None:
    """1.00 and the 100th microsecond are one number to a checksum that passes over NULLs."""
    shop.change("U", {"id": 30, "v": None, "price": Decimal("1.00"), "at": None, "r": None})
    shop.bench.apply()
    rewrite(shop.bench.lake, "silver_shop.items", "id = 30", price="NULL", at="timestamp_micros(100)")
    assert lines(shop.compared(4)) == [
        "id=30: price is NULL, the files give 1.00; at is 1970-01-01 00:00:00.0001, the files give NULL"
    ]


def test_a_key_that_loses_a_row_in_the_transaction_in_which_it_gets_one(
    shop: ReconciledShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last change alone says that it has none: so does a table that has lost the other one."""
    monkeypatch.setattr(f"{bucket.__module__}.BUCKETS", 4)  # each has other keys, too
    change = shop.clock.change
    shop.put(
        change("U", {"id": 51, "v": "was 8"}, {"id": 8}),
        change("U", {"id": 400, "v": "was 51"}, {"id": 51}, same_transaction=True),
    )
    shop.bench.apply()
    rewrite(shop.bench.lake, "silver_shop.items", "id = 51")
    assert lines(shop.compared(4)) == ["id=51: the table lacks the row"], "and no row too many"


def test_a_row_that_moved_from_another_slice(spark: SparkSession, tmp_path: Path) -> None:
    """By an update that lacks columns: they are found at its former key, which is not compared."""
    table = {"columns": {"id": "long not null", "v": "string", "note": "string"}, "primary_key": ["id"]}
    bench, clock = Bench(tmp_path, {ITEMS: table}, {"csv_no_sup_value": "lacking"}), Clock()
    bench.put(load_file(ITEMS, [{"id": 2, "v": "two", "note": "n"}]))
    moved = clock.change("U", {"id": 21, "v": "moved", "note": "lacking"}, {"id": 2})
    bench.put(cdc_file(ITEMS, clock.now, [moved, clock.change("I", {"id": 2, "v": "new", "note": "n"})]))
    bench.apply()
    found = compare(bench.lake.runtime, bench.lake.targets[0], Cycle(2, NOON, bounds=(10,)), [1])
    assert (found.rows, found.different) == (1, {})


def test_a_later_row_and_a_running_feed_change_nothing(
    shop: ReconciledShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slices of a cycle have no outer bounds, and a comparison reads one snapshot."""
    cycle, runtime = shop.cycle(2), shop.bench.lake.runtime
    shop.change("I", {"id": 10_000, "v": "later"})
    shop.change("I", {"id": -5, "v": "lower"})
    shop.bench.apply()
    located = compare_slices.located

    def with_a_batch_meanwhile(*given: Any) -> Any:
        shop.change("U", {"id": 1, "v": "meanwhile"})
        shop.bench.apply()
        return located(*given)

    monkeypatch.setattr(compare_slices, "located", with_a_batch_meanwhile)
    found = [compare(runtime, shop.target(), cycle, [one]) for one in range(2)]
    assert sum(each.rows for each in found) == len(shop.bench.rows())
    assert all(not each.different for each in found)


WEEK = timedelta(days=7)


def evaluated(shop: ReconciledShop, when: datetime) -> Any:
    """The outcome of the check in a process that has just opened the lake."""
    lake, settings = shop.bench.reopened(), Reconcile(every=WEEK, share=None)
    return equals_files(shop.target(), settings, lambda: when)(lake.runtime, ())


def test_the_check_goes_on_where_another_process_stopped(shop: ReconciledShop) -> None:
    """Its progress is in the lake. A slice that differs stays failed until it is repaired."""
    now, day = datetime.now(UTC), timedelta(days=1)
    rewrite(shop.bench.lake, "silver_shop.items", "id = 3", v="'flipped'")
    first = evaluated(shop, now)
    assert not first.passed
    assert first.figures["slices"] == "1"
    assert "id=3: v is flipped, the files give v3" in first.figures["differences"]
    assert "lake-assets replay public.items --slice different" in first.state
    assert first.figures["percent_of_apply"] > 0
    again = evaluated(shop, now + day)
    assert not again.passed
    assert again.figures["slices"] == "1, 2", "the slice that differs, and the next one"
    rewrite(shop.bench.lake, "silver_shop.items", "id = 3", v="'v3'")
    mended = evaluated(shop, now + 5.5 * day)
    assert (mended.passed, mended.figures["slices"]) == (True, "1, 3, 4, 5, 6, 7"), "missed ones together"
    known = known_cycle(shop.bench.reopened().runtime, shop.target())
    assert known is not None
    assert (known.over, known.completed is not None, known.different) == (True, True, {})
    quiet = evaluated(shop, now + 6 * day)
    assert (quiet.passed, "slices" in quiet.figures) == (True, False)
    assert quiet.state.startswith("No slice is due. 7 of 7 are done in this cycle")


@pytest.mark.long
def test_a_new_cycle_begins_and_keeps_its_slices(
    shop: ReconciledShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while no slice is due, and where a later release has another number of them."""
    now, day = datetime.now(UTC), timedelta(days=1)
    assert evaluated(shop, now).figures["slices"] == "1"
    quiet = evaluated(shop, now + 0.4 * day)
    assert (quiet.passed, "slices" in quiet.figures) == (True, False)
    assert quiet.state.startswith("No slice is due. 1 of 7 are done in this cycle")
    assert evaluated(shop, now + 5.5 * day).figures["slices"] == "2, 3, 4, 5, 6, 7"
    assert evaluated(shop, now + 6 * day).state.startswith("No slice is due")
    assert evaluated(shop, now + 7 * day).figures["slices"] == "1", "a new cycle"
    rewrite(shop.bench.lake, "silver_shop.items", "id = 59", v="'flipped'")
    assert not evaluated(shop, now + 13.5 * day).passed
    monkeypatch.setattr("lake_assets.silver.reconcile.apply_cost.SLICES", 5)
    again = evaluated(shop, now + 14 * day)
    assert (again.passed, again.figures["slices"]) == (False, "1, 7"), "the former slices"


def test_a_share_of_the_cost_of_applying_is_kept(
    shop: ReconciledShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the seconds that applying and comparing really took: slices as they are due while the share allows them; fewer
    readings if not; and a warning if one is too many."""
    target, runtime, now = shop.target(), shop.bench.lake.runtime, datetime.now(UTC)

    def evaluate(day: float, share: float) -> Any:
        settings = Reconcile(every=timedelta(days=7), share=share)
        return equals_files(target, settings, lambda: now + timedelta(days=day))(runtime, ())

    plenty, scarce = 1e6, 1e-6
    first = evaluate(0, plenty)
    assert first.figures["slices"] == "1"
    cost = first.figures["percent_of_apply"]
    assert 0 < cost < 100 * plenty
    second = evaluate(1, scarce)
    assert second.figures["slices"] == "2, 3, 4, 5, 6, 7"
    assert second.passed, "a minute is no warning"
    assert second.figures["cycle"].startswith("7 of 7 slices")
    monkeypatch.setattr("lake_assets.silver.reconcile.apply_cost.SMALL", 0.0)
    one = evaluate(7, scarce)
    assert one.figures["cycle"].startswith("1 of 1 slice")
    assert (one.passed, one.warns) == (False, True)
    assert f"A comparison takes {one.figures['seconds']:.1f} s" in one.state
    enough = re.search(r"or share to (\S+) \(null", one.state)
    assert enough is not None
    assert evaluate(7.1, float(enough[1])).passed
    assert evaluate(7.1, 0.8 * float(enough[1])).warns, "also while no slice is due"


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.CURRENT])
def test_other_shapes_are_refused(tmp_path: Path, mode: Mode) -> None:
    table = {"columns": {"id": "long not null", "v": "string"}, "mode": mode}
    if mode is not Mode.FULL_ROW:
        table["primary_key"] = ["id"]
    bench = Bench(tmp_path, {ITEMS: table})
    with pytest.raises(TableStopped) as refused:
        begun_cycle(bench.lake.runtime, bench.lake.targets[0], 3, None, NOON)
    expected = f"has the mode {mode}; only mode current is compared in slices of keys. Use lake-assets rebuild --check"
    assert expected in str(refused.value)
    with pytest.raises(
        ValueError, match=f"compares tables of mode: current .*, and this one has mode: {mode}"
    ):
        Bench(tmp_path / "declared", {ITEMS: table | {"checks": {"equals_files": {"severity": "warn"}}}})


def test_what_cannot_be_compared_says_why(shop: ReconciledShop) -> None:
    runtime = shop.bench.lake.runtime
    cycle = shop.cycle(3)
    assert shop.bench.location is not None
    gone = sorted((shop.bench.location / "public/items").glob("2*.csv"))[0]
    gone.unlink()
    with pytest.raises(TableStopped, match=f"{gone.name}, which .* is gone from the bucket"):
        compare(runtime, shop.target(), cycle, [0])
    with pytest.raises(LakeError, match="9 is not a slice: expected next, all"):
        chosen_slices("9", cycle)
    assert chosen_slices("2-3", cycle) == (1, 2)


def test_slices_are_of_about_the_same_size_and_named(shop: ReconciledShop) -> None:
    names = [key_slices(Cycle(3, NOON, bounds=(21, 41))).name(one, "id") for one in range(3)]
    assert names == [
        "slice 1 of 3, id below 21",
        "slice 2 of 3, id from 21 on, below 41",
        "slice 3 of 3, id from 41 on",
    ]
    found = shop.compared(3, "pairs")
    note(shop.bench.lake.runtime, shop.target("pairs"), shop.cycle(3, "pairs"), found)
    assert Counter(found.different) == {}
