"""A bank whose every transfer is one transaction over three tables; DMS writes each table's part to a separate file, at
a different time. Shares no code with the package.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from lake_assets.config import ConsistentCut
from lake_assets_tests.helpers.files.dms_files import Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench

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
        """Most transfers move money from one table to the other."""
        (giver, taker), amount = self.random.choice(list(itertools.permutations(self.balances, 2))), 7
        booking = {"id": len(self.changes), "amount": amount}
        self.changes.append((BOOKINGS, self.clock.change("I", booking)))
        for table, change in ((giver, -amount), (taker, amount)):
            account = self.random.randrange(ACCOUNTS)
            self.balances[table][account] += change
            row = {"id": account, "balance": self.balances[table][account]}
            self.changes.append((table, self.clock.change("U", row, same_transaction=True)))

    def loads(self) -> list[DmsFile]:
        """The accounts before all transfers."""
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
    """A lake of the three tables at a consistent cut; `source` adds to its settings."""
    return Bench(folder, TABLES, {"include_op_for_full_load": True}, source=CUT | source)


def in_turns(random: Random, files: list[DmsFile]) -> Iterator[list[DmsFile]]:
    """The files in turns of two to six."""
    while files:
        count = random.randint(2, 6)
        yield files[:count]
        files = files[count:]


def quiet(bench: Bench) -> None:
    """The same lake after enough time without files for all rows to be applied."""
    silent = ConsistentCut(interval=timedelta(0), margin=timedelta(0), every=timedelta(seconds=1))
    bench.edit_source(consistent_cut=silent)
