"""Whole transactions over several tables, though each table's rows of them come in files of its own, at other times.

Money moves between accounts that are in two tables, and each transfer is booked in a third: at every cut, the balances
add up to what there was, and each table is what the source was then. Here: the cut in silver, and its tags. Not here:
marts at a cut (`gold/test_at_cut.py`).
"""

from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.iceberg.table_io import load_table
from lake_assets.silver.apply.cut_tags import cut_tags
from lake_assets.silver.table.position import read_position
from lake_assets_tests.helpers.lakes.bank import (
    ACCOUNTS,
    CURRENT,
    OPENING,
    SAVINGS,
    Bank,
    bank_lake,
    in_turns,
    quiet,
)
from lake_assets_tests.helpers.lakes.bench import Bench, comparable

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def tagged(bench: Bench, name: str, cut: datetime) -> list[dict[str, Any]]:
    table = bench.table(name)
    return table.scan(snapshot_id=cut_tags(table)[cut]).to_arrow().to_pylist()


def common_cuts(bench: Bench) -> list[datetime]:
    names = ("savings", "giro", "bookings", "giro_history")
    there = [load_table(bench.lake.runtime.catalog, f"silver_shop.{name}") for name in names]
    # Of a table without a key nothing was loaded: it is not there before its first change.
    return sorted(
        set.intersection(*(set(cut_tags(table)) if table is not None else set() for table in there))
    )


def check(bench: Bench, bank: Bank, cut: datetime) -> None:
    """All tables are what the source was, and no transfer is there by half."""
    total = 0
    for table, name in ((SAVINGS, "savings"), (CURRENT, "giro")):
        rows = tagged(bench, name, cut)
        assert comparable(rows) == comparable(bank.at(table, cut))
        total += sum(row["balance"] for row in rows)
    assert total == 2 * ACCOUNTS * OPENING
    booked = [row["id"] for row in tagged(bench, "bookings", cut)]
    assert sorted(booked) == bank.booked(cut)
    valid = [row for row in tagged(bench, "giro_history", cut) if row["_is_current"]]
    assert sorted((row["id"], row["balance"]) for row in valid) == sorted(
        (row["id"], row["balance"]) for row in bank.at(CURRENT, cut)
    )


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
)
def test_every_tag_shows_whole_transactions(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    bank, bench = Bank(random), bank_lake(tmp_path)
    for _ in range(20 if seed == 1 else 40):
        bank.transfer()
    bench.put(*bank.loads())
    bench.apply()
    checked = set()
    for files in in_turns(random, bank.arrivals()):
        bench.put(*files)
        bench.apply()
        for cut in common_cuts(bench):
            if cut not in checked:
                check(bench, bank, cut)
                checked.add(cut)
    assert len(checked) > 2
    positions = [read_position(bench.table(name)) for name in ("savings", "giro", "bookings")]
    assert any(position.waiting for position in positions)
    quiet(bench)
    bench.apply()
    (last,) = common_cuts(bench)[-1:]
    assert last >= bank.clock.now
    check(bench, bank, last)
    for name in ("savings", "giro", "bookings", "giro_history"):
        assert read_position(bench.table(name)).waiting == 0
    assert bench.apply() == {"savings": [], "giro": [], "giro_history": [], "bookings": []}
