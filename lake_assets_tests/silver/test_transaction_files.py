"""Files of whole transactions (PreserveTransactions) through the whole engine: every table equals the oracle.

Here: what happens to the tables of files that hold rows of several of them. Not here: whose rows a file holds
(`test_transactions.py` of bronze), the log's records (`test_shares.py`), fields (`test_transaction_rows.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.log.day_totals import DayTotals
from lake_assets.orchestration.assets.bronze_assets import landed_events
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets_tests.helpers.files.dms_files import (
    TABLE,
    Clock,
    DmsFile,
    cdc_file,
    load_file,
    transaction_file,
)
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.transaction_tables import (
    AUDIT,
    EVENTS,
    ITEMS,
    NOTES,
    SILVER,
    TABLES,
    TRANSACTIONS,
    item,
    minutes,
)
from lake_assets_tests.helpers.reconcile.restored import restorer

pytestmark = pytest.mark.spark


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(tmp_path, TABLES, TRANSACTIONS)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Bench]:
    found = Bench(tmp_path_factory.mktemp("loaded"), TABLES, TRANSACTIONS)
    found.put(*loads())
    found.apply()
    return restorer(found)


@pytest.fixture
def loaded(made: Callable[[], Bench]) -> Bench:
    """Its full loads are applied."""
    return made()


def assert_all_equal(bench: Bench, tables: Sequence[str] = (ITEMS, NOTES, AUDIT)) -> None:
    for table in tables:
        assert bench.rows(SILVER[table]) == bench.truth(table), table


def audit(key: int, part: str, at: Any = None) -> dict[str, Any]:
    return {"id": key, "part": part, "at": at}


def loads() -> list[DmsFile]:
    return [
        load_file(ITEMS, [item(n, f"n{n}") for n in range(6)], extension="csv.gz"),
        load_file(NOTES, [{"id": n} for n in range(3)]),
        load_file(AUDIT, [audit(1, "a"), audit(1, "b")]),
    ]


def test_transactions_that_span_tables(loaded: Bench) -> None:
    """Several changes of a key in one transaction, moved keys, swapped tables, quotes, newlines, null tokens."""
    c = Clock()
    together: dict[str, Any] = {"same_transaction": True}
    first = [
        (ITEMS, c.change("I", item(10, 'a "quoted",\nI,notes,public,99', "", "1.50"))),
        (NOTES, c.change("I", {"id": 10}, **together)),
        (AUDIT, c.change("U", audit(1, "z", minutes(0)), before={"id": 1, "part": "a"}, **together)),
        (ITEMS, c.change("U", item(10, "b", None, "2.00"), **together)),
        (ITEMS, c.change("D", item(3), **together)),
        (ITEMS, c.change("I", item(3, "again"), **together)),
        (NOTES, c.change("D", {"id": 1})),
        (ITEMS, c.change("U", item(11, "moved"), before={"id": 10})),
        (ITEMS, c.change("U", item(12, "moved on"), before={"id": 11}, **together)),
    ]
    second = [
        (ITEMS, c.change("D", item(12))),
        (NOTES, c.change("U", {"id": 20}, before={"id": 10}, **together)),
        (AUDIT, c.change("I", audit(2, "\u2028 ☕\r\n", None))),
        (ITEMS, c.change("U", item(0, "NULL", "\\N "), **together)),
    ]
    loaded.put(transaction_file(minutes(0), first))
    loaded.apply()
    assert_all_equal(loaded)
    assert loaded.rows() != []
    loaded.put(transaction_file(minutes(1), second, "csv.gz"))
    published = loaded.apply()
    assert_all_equal(loaded)
    assert {name: (b.files, b.rows_counted, b.rows_read) for name, (b,) in published.items()} == {
        "items": (1, 2, 2),
        "notes": (1, 1, 1),
        "audit_items": (1, 1, 1),
    }


def test_first_row_width_truncation(bench: Bench) -> None:
    """A published job reads these files by the width of their first row: wider rows lose their last columns there,
    without a word."""
    c = Clock()
    rows = [(NOTES, c.change("I", {"id": 7})), (ITEMS, c.change("I", item(7, "seven", "wide", "7.77")))]
    rows += [(AUDIT, c.change("I", audit(7, "x", minutes(0)))), (NOTES, c.change("I", {"id": 8}))]
    bench.put(transaction_file(minutes(0), rows))
    bench.apply()
    assert_all_equal(bench)
    assert "wide" in bench.rows()[0]
    assert "7.77" in bench.rows()[0]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_any_order_any_batches_with_repetitions(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Late files and files that were written twice; with and without a sequence of DMS's own."""
    rng = Random(seed)
    tables = {name: TABLES[name] for name in (ITEMS, NOTES)}
    bench = Bench(tmp_path, tables, TRANSACTIONS | ({"change_sequence_column": None} if seed else {}))
    c = Clock()
    living: dict[str, set[int]] = {ITEMS: set(range(6)), NOTES: {0, 1, 2}}
    changes: list[tuple[str, dict[str, Any]]] = []
    for number in range(120):
        table = rng.choice([ITEMS, NOTES])
        key = rng.randrange(9)
        image = item(key, f"v{number}") if table == ITEMS else {"id": key}
        now = living[table]
        old = rng.choice(sorted(now)) if now else None
        together = number > 0 and rng.random() < 0.6
        if key not in now and old is not None and rng.random() < 0.4:
            now -= {old}
            now |= {key}
            change = c.change("U", image, before={"id": old}, same_transaction=together)
        else:
            op = "I" if key not in now else rng.choice("UD")
            now ^= {key} if op != "U" else set()
            gone = item(key) if table == ITEMS else image
            change = c.change(op, gone if op == "D" else image, same_transaction=together)
        changes.append((table, change))
    if seed:
        changes = [(t, {k: v for k, v in row.items() if k != "change_seq"}) for t, row in changes]
    starts = [n for n in range(1, 120) if changes[n][1]["commit_ts"] != changes[n - 1][1]["commit_ts"]]
    cuts = [0, *sorted(rng.sample(starts, 6)), 120]
    files = [
        transaction_file(minutes(n), changes[a:b], rng.choice(["csv", "csv.gz"]))
        for n, (a, b) in enumerate(pairwise(cuts))
    ]
    if not seed:
        again = changes[cuts[3] : cuts[5]]
        files.append(transaction_file(minutes(20), again))
    bench.put(*loads()[:2])
    rng.shuffle(files)
    while files:
        bench.put(*(files.pop() for _ in range(min(len(files), rng.randint(1, 4)))))
        bench.apply()
        assert_all_equal(bench, [*tables])


@pytest.mark.long
def test_before_and_after_preserve_transactions(bench: Bench) -> None:
    """Both layouts in one lake: a task was given the setting in the course of its life, and another one lost it."""
    c = Clock()
    bench.put(*loads())
    bench.put(cdc_file(ITEMS, minutes(0), [c.change("U", item(1, "by table"))]))
    bench.put(transaction_file(minutes(1), [(ITEMS, c.change("U", item(1, "by transaction")))]))
    bench.apply()
    assert_all_equal(bench)
    bench.put(cdc_file(ITEMS, minutes(2), [c.change("U", item(1, "by table again"))]))
    bench.put(transaction_file(minutes(3), [(NOTES, c.change("D", {"id": 0}))]))
    bench.apply()
    assert_all_equal(bench)
    assert "by table again" in str(bench.rows())


@pytest.mark.long
def test_the_name_of_the_file_orders_changes_that_have_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Neither timestamp nor sequence: the flush, then the line. In one lake with files of tables, whose names say the
    same."""
    bench = Bench(
        tmp_path,
        {ITEMS: TABLES[ITEMS]},
        TRANSACTIONS | {"timestamp_column_name": None, "change_sequence_column": None},
    )
    row = {"Op": "U", **item(1)}
    texts = [
        ("public/items/LOAD00000001.csv", "I,1,load,\\N,\\N,\\N"),
        ("cdc/CDC_TXN-20260301121000003.csv", "U,items,public,1,third,\\N,\\N,\\N"),
        ("public/items/20260301-120959001.csv", "U,1,first,\\N,\\N,\\N"),
        (
            "cdc/CDC_TXN-20260301121000002.csv",
            "U,items,public,1,second,\\N,\\N,\\N\nU,items,public,1,second b,\\N,\\N,\\N",
        ),
        ("public/items/20260301-121500000.csv", "U,1,last,\\N,\\N,\\N"),
    ]
    assert row["Op"] == "U"
    for key, text in texts[:3]:
        bench.put_text(key, text)
    bench.apply()
    assert "third" in bench.rows()[0]
    bench.put_text(*texts[3])
    bench.apply()
    assert "third" in bench.rows()[0], "a late file"
    bench.put_text(*texts[4])
    bench.apply()
    assert "last" in bench.rows()[0]


def test_a_file_that_is_rewritten_under_its_key(loaded: Bench) -> None:
    c = Clock()
    kept = (ITEMS, c.change("U", item(1, "kept")))
    loaded.put(transaction_file(minutes(0), [kept, (NOTES, c.change("D", {"id": 1}))]))
    loaded.put(transaction_file(minutes(1), [(ITEMS, c.change("U", item(2, "later")))]))
    loaded.apply()
    assert_all_equal(loaded)
    loaded.put(transaction_file(minutes(0), [kept, (AUDIT, c.change("D", audit(1, "a")))]))
    loaded.apply()
    assert len(loaded.rows("notes")) == 3, "the delete was never so"
    assert_all_equal(loaded)


def only(bench: Bench, *tables: str) -> None:
    """The lake as lake.yaml has it with these tables."""
    source = full(bench).sources["shop"]
    named = source.model_copy(update={"tables": {name: source.tables[name] for name in tables}})
    bench.lake = open_lake(full(bench).model_copy(update={"sources": {"shop": named}}))


def full(bench: Bench) -> Any:
    bench.__dict__.setdefault("whole", bench.lake.config)
    return bench.__dict__["whole"]


@pytest.mark.parametrize("load_first", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_table_that_is_configured_later(bench: Bench, load_first: bool) -> None:
    """Its rows lay in files that were logged, applied and done for the other tables."""
    c = Clock()
    only(bench, ITEMS, AUDIT)
    bench.put(*(loads() if load_first else loads()[::2]))
    bench.put(
        transaction_file(minutes(0), [(NOTES, c.change("I", {"id": 5})), (ITEMS, c.change("D", item(1)))])
    )
    bench.put(transaction_file(minutes(1), [(NOTES, c.change("U", {"id": 6}, before={"id": 5}))]))
    bench.apply()
    assert_all_equal(bench, [ITEMS, AUDIT])
    only(bench, *TABLES)
    bench.apply()
    assert_all_equal(bench)
    bench.put(transaction_file(minutes(2), [(NOTES, c.change("D", {"id": 6}))]))
    bench.apply()
    assert_all_equal(bench)


def test_bronze_events_are_of_the_configured_tables(bench: Bench) -> None:
    """Rows are each table's own; of a table that lake.yaml does not name there is no asset to tell of."""
    c = Clock()
    only(bench, ITEMS, AUDIT)
    rows = [
        (NOTES, c.change("I", {"id": 5})),
        (ITEMS, c.change("D", item(1))),
        (ITEMS, c.change("D", item(2))),
    ]
    bench.put(transaction_file(minutes(0), rows))
    bench.look()
    config = bench.lake.config
    log = bench.lake.runtime.file_log
    events = landed_events(config, "shop", log.files("shop"), DayTotals(log, "shop"))
    assert [
        (e.asset_key.path[-1], e.metadata["dagster/partition_row_count"].value, e.metadata["files"].value)
        for e in events
    ] == [("items", 2, 1)]


def failures(bench: Bench) -> Mapping[str, str]:
    return {name: str(result.error) for name, result in bench.turn().items() if result.error is not None}


@pytest.mark.long
def test_an_unreadable_file_stops_every_table(bench: Bench) -> None:
    """A row that could be anybody's: none of the tables goes on without it, and each says why."""
    c = Clock()
    bench.put(*loads())
    bench.apply()
    good = transaction_file(
        minutes(1), [(ITEMS, c.change("U", item(1, "x"))), (NOTES, c.change("D", {"id": 1}))]
    )
    bench.put_text(good.key, "U,items,public,2026-03-01 12:10:00,1,x,\\N,\\N,,\\N", "U,items")
    for name, message in failures(bench).items():
        assert "CDC_TXN-20260301121100000.csv" in message, name
        assert "table of row 2 is unknown: it has 2 fields" in message, name
    assert failures(bench).keys() == {"items", "notes", "audit_items"}
    bench.put(good)
    assert failures(bench) == {}
    assert_all_equal(bench)


def test_a_file_that_was_unreadable_for_a_wrong_setting(spark: SparkSession, tmp_path: Path) -> None:
    """The file stays as it is, lake.yaml is corrected; a table that had no row in it goes on as well."""
    bench = Bench(tmp_path, TABLES, TRANSACTIONS | {"csv_delimiter": ";"})
    right = full(bench)
    source = right.sources["shop"]
    wrong = source.dms.model_copy(update={"csv_delimiter": ","})
    bench.lake = open_lake(
        right.model_copy(update={"sources": {"shop": source.model_copy(update={"dms": wrong})}})
    )
    bench.put_text(
        "cdc/CDC_TXN-20260301121000000.csv", f"I;notes;public;2026-03-01 12:10:00;4;{'0' * 35};\\N"
    )
    assert failures(bench).keys() == {"items", "notes", "audit_items"}
    bench.lake = open_lake(right)
    assert failures(bench) == {}
    assert bench.rows("notes") == ["{'id': 4}"]
    assert bench.rows("items") == []


GOOD = "I,{table},public,2026-03-01 12:10:00,1,x,\\N,\\N,,\\N"
BAD = {
    "too_wide": ("U,{table},public,2026-03-01 12:10:00,1,x,\\N,\\N,,\\N,more", "not 10 fields, but 11"),
    "too_narrow": ("U,{table},public,2026-03-01 12:10:00,1,x", "not 10 fields, but 6"),
    "leading_only": ("U,{table},public", "not 10 fields, but 3"),
    "unknown_op": ("X,{table},public,2026-03-01 12:10:00,1,x,\\N,\\N,,\\N", "unknown operation X"),
    "no_op": (",{table},public,2026-03-01 12:10:00,1,x,\\N,\\N,,\\N", "no operation"),
    "value": ("U,{table},public,2026-03-01 12:10:00,one,x,\\N,\\N,,\\N", "id is not a valid long: 'one'"),
    "null_key": ("U,{table},public,2026-03-01 12:10:00,\\N,x,\\N,\\N,,\\N", "id is NULL"),
}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("too_wide", "leading_only", "value"), id="some"),
        pytest.param(tuple(BAD), id="all", marks=pytest.mark.long),
    ],
)
def test_a_bad_row_is_its_tables_alone(spark: SparkSession, tmp_path: Path, names: Sequence[str]) -> None:
    """In one file, each in the middle of rows that are good."""
    tables = {f"public.{name}": TABLES[ITEMS] for name in [*names, "good"]}
    bench = Bench(tmp_path, tables, TRANSACTIONS)
    lines, bad = [GOOD.format(table="good")], {name: BAD[name] for name in names}
    for name, (row, _) in bad.items():
        lines += [GOOD.format(table=name), row.format(table=name), GOOD.format(table="good")]
    bench.put_text("cdc/CDC_TXN-20260301121000000.csv", *lines)
    found = failures(bench)
    assert found.keys() == bad.keys()
    for name, (_, reason) in bad.items():
        assert f"row 2 of those of public.{name} in" in found[name]
        assert f"CDC_TXN-20260301121000000.csv: {reason} (1 row; " in found[name]
    assert len(bench.rows("good")) == 1


def test_repetitions_in_logs(spark: SparkSession, tmp_path: Path) -> None:
    """A table without a key, and one that keeps every change, of transactions that were written twice."""
    tables = {
        EVENTS: {"columns": {"id": "long", "what": "string"}, "mode": "append_log"},
        NOTES: TABLES[NOTES] | {"also": ["change_log"]},
    }
    bench = Bench(tmp_path, tables, TRANSACTIONS)
    c = Clock()
    rows = [(EVENTS, c.change("I", {"id": n, "what": "same"})) for n in (1, 1, 2)]
    rows += [(NOTES, c.change("I", {"id": 1})), (NOTES, c.change("D", {"id": 1}, same_transaction=True))]
    bench.put(transaction_file(minutes(0), rows))
    bench.apply()
    more = (EVENTS, c.change("I", {"id": 3, "what": "new"}))
    bench.put(transaction_file(minutes(1), [*rows[1:], more]))
    bench.apply()
    assert bench.rows("events") == bench.truth(EVENTS, "append_log")
    assert bench.rows("notes_changes") == bench.truth(NOTES, "change_log")
    assert bench.rows("notes") == []
    assert all(row[TABLE] for file in bench.bucket.values() for row in file.rows)
