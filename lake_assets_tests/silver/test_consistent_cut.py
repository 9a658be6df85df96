"""Whole transactions over several tables, though each table's rows of them come in files of its own, at other times.

Money moves between accounts that are in two tables, and each transfer is booked in a third: at every cut, the balances
add up to what there was, and each table is what the source was then. Here: the cut in silver, and its tags. Not here:
marts at a cut (`gold/test_at_cut.py`).
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.build import open_lake
from lake_assets.config import ConsistentCut
from lake_assets.silver.cut_tags import cut_tags
from lake_assets.silver.position import read_position
from lake_assets_tests.dms_files import Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.silver.bench import Bench, comparable

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SAVINGS, CURRENT, BOOKINGS = "public.savings", "public.giro", "public.bookings"
ACCOUNT = {"columns": {"id": "long not null", "balance": "long"}, "primary_key": ["id"]}
TABLES: dict[str, dict[str, Any]] = {
    SAVINGS: ACCOUNT,
    CURRENT: ACCOUNT | {"also": ["history"]},
    BOOKINGS: {"columns": {"id": "long not null", "amount": "long"}, "mode": "change_log"},
}
INTERVAL, MARGIN = timedelta(seconds=20), timedelta(seconds=5)
CUT = {"consistent_cut": {"interval": "20s", "margin": "5s", "every": "1s", "keep": 5}}
ACCOUNTS, OPENING = 6, 1000


@dataclass
class Bank:
    """The source: transfers, each one transaction over the three tables."""

    random: Random
    clock: Clock = field(default_factory=Clock)
    changes: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.balances = {table: dict.fromkeys(range(ACCOUNTS), OPENING) for table in (SAVINGS, CURRENT)}

    def transfer(self) -> None:
        """In most, money leaves one table for the other."""
        (giver, taker), amount = self.random.choice(list(itertools.permutations(self.balances, 2))), 7
        booking = {"id": len(self.changes), "amount": amount}
        self.changes.append((BOOKINGS, self.clock.change("I", booking)))
        for table, change in ((giver, -amount), (taker, amount)):
            account = self.random.randrange(ACCOUNTS)
            self.balances[table][account] += change
            row = {"id": account, "balance": self.balances[table][account]}
            self.changes.append((table, self.clock.change("U", row, same_transaction=True)))

    def loads(self) -> list[DmsFile]:
        """The accounts as they were before all transfers."""
        rows = [{"id": number, "balance": OPENING} for number in range(ACCOUNTS)]
        return [load_file(table, rows) for table in self.balances]

    def at(self, table: str, cut: datetime) -> list[dict[str, Any]]:
        """The rows of an account table as of a commit time."""
        rows = {number: {"id": number, "balance": OPENING} for number in range(ACCOUNTS)}
        for name, change in self.changes:
            if name == table and change["commit_ts"] <= cut:
                rows[change["id"]] = {"id": change["id"], "balance": change["balance"]}
        return list(rows.values())

    def booked(self, cut: datetime) -> list[int]:
        return sorted(c["id"] for table, c in self.changes if table == BOOKINGS and c["commit_ts"] <= cut)

    def arrivals(self) -> list[DmsFile]:
        """DMS at work: each table's changes in files that are flushed up to INTERVAL after their first commit, and
        land up to MARGIN later; in the order in which they land."""
        landed: list[tuple[datetime, DmsFile]] = []
        for table in TABLES:
            own = [change for name, change in self.changes if name == table]
            while own:
                flush = own[0]["commit_ts"] + INTERVAL * self.random.uniform(0.05, 1)
                rows = [change for change in own if change["commit_ts"] <= flush]
                late = MARGIN * self.random.random()
                landed.append((flush + late, cdc_file(table, flush, rows)))
                own = own[len(rows) :]
        return [file for _, file in sorted(landed, key=lambda entry: (entry[0], entry[1].key))]


def bank_lake(folder: Path, **source: Any) -> Bench:
    return Bench(folder, TABLES, {"include_op_for_full_load": True}, source=CUT | source)


def tagged(bench: Bench, name: str, cut: datetime) -> list[dict[str, Any]]:
    table = bench.table(name)
    return table.scan(snapshot_id=cut_tags(table)[cut]).to_arrow().to_pylist()


def common_cuts(bench: Bench) -> list[datetime]:
    names = ("savings", "giro", "bookings", "giro_history")
    return sorted(set.intersection(*(set(cut_tags(bench.table(name))) for name in names)))


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


def in_turns(random: Random, files: list[DmsFile]) -> Iterator[list[DmsFile]]:
    while files:
        count = random.randint(1, 4)
        yield files[:count]
        files = files[count:]


def quiet(bench: Bench) -> None:
    """The same lake after so long a silence that everything is there."""
    source = bench.lake.config.sources["shop"]
    silent = ConsistentCut(interval=timedelta(0), margin=timedelta(0), every=timedelta(seconds=1))
    sources = {"shop": source.model_copy(update={"consistent_cut": silent})}
    bench.lake = open_lake(bench.lake.config.model_copy(update={"sources": sources}), marts=())


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
)
def test_every_tag_shows_whole_transactions(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    bank, bench = Bank(random), bank_lake(tmp_path)
    for _ in range(40):
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
    assert len(checked) > 5
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
