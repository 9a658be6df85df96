"""Random transactions on a partitioned table of PostgreSQL, whose changes DMS writes into the partitions' folders.

Here: the source and its files. Not here: applying them (`test_random_partitions.py`), a table with one folder
(`random_history.py`).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from lake_assets_tests.helpers.files.dms_files import (
    NOON,
    Clock,
    DmsFile,
    Row,
    cdc_file,
    folder_of,
    load_file,
    transaction_file,
)
from lake_assets_tests.helpers.oracles import oracle

SALES = 'public."sales.all"'
COLUMNS = {"id": "long not null", "part": "string not null", "v": "string", "n": "int not null"}
PARTITIONS = ("public.sales_a", 'public."sales_b.1"', "public.sales_rest")
KEY = ["id", "part"]
LATER = NOON + timedelta(hours=2)


@dataclass
class PartitionedSource:
    """The rows of each partition, and every change with the partition that it is of."""

    random: Random
    rows: dict[str, dict[int, Row]] = field(default_factory=lambda: {name: {} for name in PARTITIONS})
    clock: Clock = field(default_factory=Clock)
    changes: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def transaction(self) -> None:
        """A few statements that commit together."""
        for number in range(self.random.choice([1, 1, 2, 4])):
            self._statement(same_transaction=number > 0)

    def _statement(self, same_transaction: bool) -> None:
        name = self.random.choice(PARTITIONS)
        rows = self.rows[name]
        kind = self.random.choice("IUDM" if rows else "I")
        if kind == "I":
            key = self.random.choice([n for n in range(200) if all(n not in r for r in self.rows.values())])
            rows[key] = self._image(key)
            self._write(name, "I", rows[key], same_transaction)
        elif kind == "U":
            key = self.random.choice(sorted(rows))
            rows[key] = self._image(key)
            self._write(name, "U", rows[key], same_transaction)
        elif kind == "D":
            key = self.random.choice(sorted(rows))
            del rows[key]
            self._write(name, "D", self._gone(key), same_transaction)
        else:
            # A row that another partition gets: PostgreSQL deletes it in the one, and inserts it in the other.
            key = self.random.choice(sorted(rows))
            to = self.random.choice([other for other in PARTITIONS if other != name])
            self.rows[to][key] = rows.pop(key)
            self._write(name, "D", self._gone(key), same_transaction)
            self._write(to, "I", self.rows[to][key], same_transaction=True)

    def _image(self, key: int) -> dict[str, Any]:
        return {"id": key, "part": "x", "v": self.random.choice([None, "", "a,b"]), "n": len(self.changes)}

    def _gone(self, key: int) -> dict[str, Any]:
        return {"id": key, "part": "x", "v": None, "n": None}

    def _write(self, name: str, op: str, image: Row, same_transaction: bool) -> None:
        self.changes.append((name, self.clock.change(op, image, None, same_transaction)))

    def all_rows(self) -> list[dict[str, Any]]:
        """The rows of the table."""
        return [dict(row) for rows in self.rows.values() for row in rows.values()]


@dataclass
class PartitionedHistory:
    """The files of the source, in the order in which they arrive, cut into turns."""

    seed: int
    turns: list[list[DmsFile]]
    rows: list[dict[str, Any]]
    """What the source has in the end."""
    transactions: bool
    max_files: int


def partitioned_history(seed: int) -> PartitionedHistory:
    """The history with this number, each time the same. By turns, the whole table is loaded from its own folder, or
    each partition is, or no folder has a load; in every second history of the second kind, one partition is loaded
    again."""
    random = Random(f"{seed} partitions")
    source = PartitionedSource(random)
    transactions, loaded_by = seed % 2 == 1, ("partitions", "table", "partitions", "none")[seed // 2 % 4]
    for _ in range(15 if loaded_by != "none" else 0):
        source.transaction()
    first = len(source.changes)
    loads = _loads(loaded_by, source)
    for _ in range(25):
        source.transaction()
    files = _files(random, source.changes[first:], source.clock, transactions)
    again: list[DmsFile] = []
    if loaded_by == "partitions" and seed % 3:
        name = random.choice(PARTITIONS)
        second = len(source.changes)
        source.clock.now = LATER
        rows = list(source.rows[name].values()) or [source._image(999)]
        source.rows[name] = {row["id"]: row for row in rows}
        again = [load_file(name, rows, at=LATER)]
        source.clock.now = LATER + timedelta(minutes=5)
        for _ in range(15):
            source.transaction()
        again += _files(random, source.changes[second:], source.clock, transactions)
    turns = [*_arrivals(random, [*loads, *files]), *_arrivals(random, again)]
    return PartitionedHistory(seed, turns, source.all_rows(), transactions, random.choice([2, 100]))


def _loads(loaded_by: str, source: PartitionedSource) -> list[DmsFile]:
    began = source.clock.now + timedelta(seconds=30)
    source.clock.now += timedelta(minutes=3)
    if loaded_by == "table":
        return [load_file(SALES, source.all_rows(), at=began)]
    if loaded_by == "none":
        return []
    # Named alike in each folder, and transferred one after the other.
    return [
        load_file(name, list(rows.values()), at=began + timedelta(seconds=number))
        for number, (name, rows) in enumerate(source.rows.items())
        if rows
    ]


def _files(
    random: Random, changes: Sequence[tuple[str, dict[str, Any]]], clock: Clock, transactions: bool
) -> list[DmsFile]:
    borders = sorted(
        {0, len(changes), *(random.randrange(len(changes)) for _ in range(random.randint(1, 5)))}
    )
    found: list[DmsFile] = []
    for number, (start, end) in enumerate(itertools.pairwise(borders)):
        flushed = clock.now + timedelta(seconds=number)
        piece = changes[start:end]
        if transactions:
            found.append(transaction_file(flushed, piece))
            continue
        # The same name in each folder.
        own = {name: [change for of, change in piece if of == name] for name in PARTITIONS}
        found += [cdc_file(name, flushed, rows) for name, rows in own.items() if rows]
    if not transactions and found and random.random() < 0.5:
        # Some changes come a second time.
        twice = random.choice(found)
        later = cdc_file(SALES, twice.flushed + timedelta(milliseconds=1), twice.rows)
        found.append(DmsFile(f"{twice.key.rpartition('/')[0]}/{later.name}", twice.rows))
    return found


def _arrivals(random: Random, files: list[DmsFile]) -> list[list[DmsFile]]:
    lateness = {file.key: place + random.choice([0, 0, 1, 6]) for place, file in enumerate(files)}
    ordered = sorted(files, key=lambda file: lateness[file.key])
    cut = random.randrange(1, len(ordered)) if len(ordered) > 1 else len(ordered)
    return [turn for turn in (ordered[:cut], ordered[cut:]) if turn]


def of_partitions(files: Sequence[DmsFile]) -> list[dict[str, Any]]:
    """The union of the partitions, each replayed by itself; a load of the whole table is of each of them."""
    whole = [file for file in files if file.key.startswith(f"{folder_of(SALES)}/")]
    rows: list[dict[str, Any]] = []
    seen: set[int] = set()
    for name in PARTITIONS:
        own = [file for file in files if file.key.startswith(f"{folder_of(name)}/")]
        own += [file.of_table(name) for file in files if file.has_transactions]
        found = oracle.current([*whole, *own], list(COLUMNS), KEY)
        touched = {row["id"] for file in own for row in file.rows}
        rows += [row for row in found if not whole or row["id"] in touched]
        seen |= touched
    rows += [row for row in oracle.current(whole, list(COLUMNS), KEY) if row["id"] not in seen]
    return rows
