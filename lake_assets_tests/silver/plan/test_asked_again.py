"""Rows that are asked for again, when something else happens before their turn, and files that are held.

Here: the quarantine where it meets reloads, late files, edits of lake.yaml, short batches and transactions. Not here:
what it does when nothing comes in between (`test_quarantine.py`), which record decides a row (`test_parts.py`).
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.quarantine.quarantine_log import State
from lake_assets.commands.mend.quarantine_commands import chosen, discard, retry
from lake_assets.errors import TableStopped
from lake_assets_tests.helpers.files.dms_files import (
    NOON,
    Clock,
    DmsFile,
    cdc_file,
    load_file,
    transaction_file,
)
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.narrow_shop import LONG, ONE, TABLE, TIGHT, WIDE, NarrowShop, config
from lake_assets_tests.helpers.lakes.transaction_tables import (
    ITEMS,
    NOTES,
    TABLES,
    TRANSACTIONS,
    item,
    minutes,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ONE_A_BATCH = {"automation": {"max_files_per_batch": 1}}


@pytest.mark.long
def test_a_reload_between_the_request_and_its_turn(spark: SparkSession, tmp_path: Path) -> None:
    """The reload began before the file was flushed, so that the file is a part of it."""
    shop = NarrowShop(tmp_path, also=[])
    shop.put(shop.change("U", 1, "bad", LONG), shop.change("U", 2, "good"))
    shop.bench.apply()
    shop.bench.edit(config(WIDE, also=[]))
    began = shop.clock.now - timedelta(minutes=2)
    shop.bench.put(load_file(TABLE, [{"id": n, "v": "reloaded", "n": ONE} for n in (1, 2, 3)], at=began))
    shop.bench.look()
    retry(shop.runtime, shop.held())
    shop.bench.apply()
    shop.check_current()
    assert shop.held() == []


@pytest.mark.long
def test_short_batches(spark: SparkSession, tmp_path: Path) -> None:
    shop = NarrowShop(tmp_path, ONE_A_BATCH)
    shop.put(shop.change("U", 1, "bad", LONG), shop.change("U", 2, "good"), shop.change("U", 3, "bad", LONG))
    shop.bench.apply()
    shop.bench.edit(config(WIDE))
    # A late file before the request has its turn.
    late = Clock(NOON + timedelta(minutes=2)).change("U", {"id": 2, "v": "late", "n": ONE})
    shop.bench.put(cdc_file(TABLE, NOON + timedelta(minutes=3), [late]))
    shop.bench.look()
    retry(shop.runtime, [held for held in chosen(shop.runtime, TABLE, []) if held.row == 0])
    shop.bench.apply()
    assert tuple(shop.values()[n] for n in (1, 2, 3)) == ("bad", "good", "loaded")
    assert [held.row for held in shop.held()] == [held.row for held in shop.held("items_changes")] == [2]
    # Another late file, of the key that nobody asked for.
    late = Clock(NOON + timedelta(minutes=2, seconds=30)).change("U", {"id": 3, "v": "late", "n": ONE})
    shop.bench.put(cdc_file(TABLE, NOON + timedelta(minutes=3, seconds=1), [late]))
    shop.bench.apply()
    assert shop.values()[3] == "late", "the row is still held"
    before = {name: shop.bench.rows(name) for name in ("items", "items_changes")}
    for name in before:
        shop.runtime.catalog.drop_table(f"silver_shop.{name}")
    shop.bench.apply()
    assert {name: shop.bench.rows(name) for name in before} == before
    assert [held.row for held in shop.held()] == [held.row for held in shop.held("items_changes")] == [2]
    retry(shop.runtime, chosen(shop.runtime, TABLE, []))
    shop.bench.apply()
    shop.check()


def test_asked_for_while_a_batch_is_under_way(spark: SparkSession, tmp_path: Path) -> None:
    """An earlier request, which was in vain, does not stand for one that is yet to be logged."""
    shop = NarrowShop(tmp_path, also=[])
    shop.put(shop.change("U", 1, "bad", LONG))
    shop.bench.apply()
    retry(shop.runtime, shop.held())
    shop.bench.apply()
    shop.bench.edit(config(WIDE, also=[]))
    (held,) = shop.held()
    shop.put(shop.change("U", 2, "next"))
    shop.runtime.quarantine.becomes([held], State.RETRIED)
    shop.bench.apply()
    assert [held.state for held in shop.held()] == [State.RETRIED]
    retry(shop.runtime, shop.held())
    shop.bench.apply()
    assert shop.held() == []
    shop.check_current()


@pytest.mark.long
def test_content_that_is_put_back_is_held_again(spark: SparkSession, tmp_path: Path) -> None:
    shop = NarrowShop(tmp_path, also=[])
    key = shop.put(shop.change("U", 1, "bad", LONG), shop.change("U", 2, "good"))
    shop.bench.apply()
    first = shop.bench.bucket[key]
    shop.bench.put(DmsFile(key, (shop.change("U", 1, "other"),)))
    shop.bench.apply()
    assert shop.held() == []
    shop.bench.put(first)
    (batch,) = shop.bench.apply()["items"]
    assert batch.rows_quarantined == len(shop.held()) == 1
    assert (shop.values()[1], shop.values()[2]) == ("loaded", "good")


@pytest.mark.long
def test_damaged_files_that_are_written_again(spark: SparkSession, tmp_path: Path) -> None:
    """A log has no row of them to take back; those that are known do not stop a table that is made anew; and no table
    depends on any of its files being readable."""
    shop = NarrowShop(tmp_path, quarantine={"max_files": 1})
    assert shop.bench.location is not None
    keys = []
    for n in (1, 2, 3):
        keys.append(shop.put(shop.change("U", n, "whole")))
        path = shop.bench.location / keys[-1]
        path.write_bytes(b"\x1f\x8b" + path.read_bytes())
        shop.bench.apply()
    assert len(shop.held()) == len(shop.held("items_changes")) == 3
    shop.bench.put(shop.bench.bucket[keys[0]])
    shop.bench.apply()
    assert shop.values() == {1: "whole", 2: "loaded", 3: "loaded", 4: "loaded", 5: "loaded"}
    assert [held.key for held in shop.held("items_changes")] == keys[1:]
    shop.bench.put(*(shop.bench.bucket[key] for key in keys))
    shop.bench.apply()
    assert shop.held() == shop.held("items_changes") == []
    shop.check()


@pytest.mark.long
def test_a_table_of_nothing_readable(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, config(also=[]))
    file = cdc_file(TABLE, NOON, [Clock().change("I", {"id": 1, "v": "new", "n": ONE})])
    bench.put(file)
    bench.apply()
    bench.put_text(file.key, "\x1f\ufeff")
    assert bench.location is not None
    (bench.location / file.key).write_bytes(b"\x1f\x8bno")
    bench.apply()
    assert bench.rows() == []
    bench.put(file)
    bench.apply()
    assert bench.rows() == bench.truth() != []


@pytest.mark.long
def test_a_row_of_columns_that_are_gone(spark: SparkSession, tmp_path: Path) -> None:
    """Asked for after one of its columns was renamed and another one removed: both are in its file."""
    shop = NarrowShop(tmp_path, columns=TIGHT | {"old": "string"})
    shop.bench.apply()
    change = {"id": 1, "v": "bad", "n": LONG, "old": "kept"}
    good = {"id": 2, "v": "good", "n": ONE, "old": "kept"}
    shop.put(shop.clock.change("U", change), shop.clock.change("U", good))
    shop.bench.apply()
    columns = {"id": "long not null", "v": "string", "amount": "decimal(4, 1)", "more": "string not null"}
    shop.bench.edit(config(columns, renamed_from={"amount": "n"}, schema_changes={"dropped": "evolve"}))
    retry(shop.runtime, chosen(shop.runtime, TABLE, []))
    shop.bench.apply()
    assert [held.reason for held in shop.held()] == ["more is NULL"], "in vain, and nobody is stopped"
    shop.bench.edit(config(columns, renamed_from={"amount": "n"}, defaults={"more": "some"}))
    retry(shop.runtime, chosen(shop.runtime, TABLE, []))
    shop.bench.apply()
    assert shop.held() == shop.held("items_changes") == []
    # A late change of the other row's key: it is computed again as it was first decided.
    late = Clock(NOON + timedelta(minutes=2)).change("U", {"id": 2, "v": "late", "amount": ONE, "more": "x"})
    shop.bench.put(cdc_file(TABLE, NOON + timedelta(minutes=3), [late]))
    shop.bench.apply()
    rows = {row["id"]: row for row in shop.bench.stored()}
    assert (rows[1]["v"], rows[1]["amount"], rows[1]["more"]) == ("bad", LONG, "some")
    assert (rows[2]["v"], rows[2]["old"]) == ("good", "kept")


def test_a_request_that_no_layout_fits(spark: SparkSession, tmp_path: Path) -> None:
    """Files without a header, a column added without `earlier`: given up, the row stops nobody any more."""
    bench = Bench(tmp_path, config(also=[]), {"add_column_name": False})
    clock = Clock()
    rows = [clock.change("I", {"id": n, "v": "new", "n": LONG if n == 1 else ONE}) for n in (1, 2)]
    bench.put(cdc_file(TABLE, NOON, rows))
    bench.apply()
    bench.edit(config(WIDE | {"more": "string"}, also=[]))
    held = bench.lake.runtime.quarantine.open()
    retry(bench.lake.runtime, held)
    error = bench.turn()["items"].error
    assert isinstance(error, TableStopped)
    # The sequence stands where lake.yaml has the new column, which is a text that may be anything.
    assert "has 7 fields and no header, and lake.yaml expects 8: Op, commit_ts, id, v, n, more," in str(error)
    discard(bench.lake.runtime, held)
    late = Clock(NOON - timedelta(days=1)).change("U", {"id": 2, "v": "late", "n": ONE, "more": "x"})
    bench.put(cdc_file(TABLE, NOON + timedelta(minutes=1), [late]))
    bench.apply()
    assert [(row["id"], row["v"]) for row in bench.stored()] == [(2, "new")]


@pytest.mark.long
def test_transactions_written_again_while_rows_of_two_tables_are_held(
    spark: SparkSession, tmp_path: Path
) -> None:
    limits: dict[str, Any] = {"quarantine": {}}
    tables = {name: TABLES[name] | limits | {"also": ["change_log"]} for name in (ITEMS, NOTES)}
    bench = Bench(tmp_path, tables, TRANSACTIONS)
    runtime = bench.lake.runtime
    clock = Clock()
    good = [(NOTES, clock.change("I", {"id": 7})), (ITEMS, clock.change("I", item(7, 'a "text"\nof two')))]
    file = transaction_file(minutes(0), good)
    bad = [
        (NOTES, {**good[0][1], "id": "seven"}),
        good[1],
        (ITEMS, {**good[1][1], "id": 8, "price": "much, or less"}),
    ]
    bench.put(transaction_file(minutes(0), bad))
    bench.apply()
    found = {held.silver_table: held for held in runtime.quarantine.open()}
    assert len(found) == 4
    held = found["silver_shop.items"]
    assert (held.row, held.line, held.reason) == (
        1,
        4,
        "price is not a valid decimal(10, 2): 'much, or less'",
    )
    assert held.raw is not None
    assert held.raw.startswith("I,items,public,2026-03-01 12:05:03.400000,8,")
    assert '"much, or less"' in held.raw
    assert (found["silver_shop.notes"].row, found["silver_shop.notes"].line) == (0, 1)
    # Asked for, and written again before its turn.
    retry(runtime, [held, found["silver_shop.notes"]])
    bench.put(file)
    bench.apply()
    assert bench.rows() == bench.truth()
    assert bench.rows("notes") == bench.truth(NOTES)
    # The logs have nothing to take back: they get what was quarantined.
    assert bench.rows("items_changes") == bench.truth(shape="change_log")
    assert bench.rows("notes_changes") == bench.truth(NOTES, shape="change_log")
    assert runtime.quarantine.open() == []


@pytest.mark.long
def test_a_marker_that_lake_yaml_learns_of_later(spark: SparkSession, tmp_path: Path) -> None:
    """A replay reads files with and without it; what it marks stays as it was."""
    shop = NarrowShop(tmp_path, columns=WIDE, also=[])
    shop.put(shop.change("U", 1, "__NOSUP__"))
    shop.bench.apply()
    shop.bench.edit(config(WIDE, also=[], dms={"csv_no_sup_value": "__NOSUP__"}))
    shop.put(shop.change("U", 2, "__NOSUP__"), shop.change("D", 3, "__NOSUP__"))
    late = Clock(NOON + timedelta(minutes=2)).change("U", {"id": 1, "v": "late", "n": ONE})
    shop.bench.put(cdc_file(TABLE, NOON + timedelta(minutes=3), [late]))
    shop.bench.apply()
    assert shop.values() == {1: "__NOSUP__", 2: "loaded", 4: "loaded", 5: "loaded"}
    assert shop.held() == []


@pytest.mark.long
@pytest.mark.parametrize("transactions", [True, False])
def test_a_column_that_is_renamed_and_one_that_is_replaced_within_a_file(
    spark: SparkSession, tmp_path: Path, transactions: bool
) -> None:
    """No row has another width."""
    clock = Clock()
    images: list[dict[str, Any]] = [
        {"id": 1, "n": "one", "gone": "old"},
        {"id": 2, "amount": "two", "gone": "old"},
        {"id": 3, "amount": "three", "new": "new"},
    ]
    rows = [clock.change("I", image) for image in images]
    earlier = [
        {"until_sequence": rows[1]["change_seq"], "columns": {"id": "long", "n": "string", "gone": "string"}},
        {
            "until_sequence": rows[2]["change_seq"],
            "columns": {"id": "long", "amount": "string", "gone": "string"},
        },
    ]
    table = {
        "columns": {"id": "long not null", "amount": "string", "new": "string"},
        "primary_key": ["id"],
        "renamed_from": {"amount": "n"},
        "earlier": earlier,
    }
    bench = Bench(tmp_path, {TABLE: table}, TRANSACTIONS if transactions else {"add_column_name": False})
    lines = [
        ",".join(
            [
                *(["items", "public"] if transactions else []),
                str(row["commit_ts"]),
                *values,
                row["change_seq"],
                "",
            ]
        )
        for row, values in zip(rows, [[str(v) for v in image.values()] for image in images], strict=True)
    ]
    name = "cdc/CDC_TXN-20260301121000000.csv" if transactions else "public/items/20260301-121000000.csv"
    bench.put_text(name, *(f"I,{line}" for line in lines))
    bench.apply()
    found = bench.stored()
    assert sorted((row["id"], row["amount"], row["new"]) for row in found) == [
        (1, "one", None), (2, "two", None), (3, "three", "new")
    ]  # fmt: skip
