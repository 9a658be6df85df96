"""A table of a source database, whose transactions are made by chance and whose constraints hold at their ends.

Here: rows, transactions, and their changes in the database's log. Not here: files (`writer.py`). Shares no code with
the package. A row is identified by a number that no log shows; keys are values like others, except that no two rows
may share one at the end of a transaction.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from lake_assets_tests.helpers.files.dms_files import NOON
from lake_assets_tests.soak.plan import Plan

Image = dict[str, Any]
COLUMNS = ("v", "id", "part", "n", "w")
"""The key is not the first column: DMS had a bug there."""
PARTS = ("", "a", "B")
TEXTS = (None, "", "x", 'a "quoted", text\nof two lines', "NULLS", "ö, ☕")
MOST_ROWS = 9


@dataclass(frozen=True)
class Change:
    """One entry of the database's log."""

    number: int
    transaction: int
    op: str
    image: Image
    """As in the log: for a delete only the key, unless the source logs whole rows."""
    before: Image | None
    """The key before an update, where the endpoint writes it."""
    unsupplied: frozenset[str]
    """Columns that the log does not have."""
    commit_ts: datetime
    sequence: str
    old: Image | None = None
    """The whole row before an update."""


@dataclass
class Source:
    """The database."""

    plan: Plan
    random: Random
    now: datetime = NOON
    changes: list[Change] = field(default_factory=list)
    states: list[list[Image] | None] = field(default_factory=lambda: [[]])
    """The rows by number of changes; None while two rows share a key."""
    collisions: set[int] = field(default_factory=set)
    """Transactions in which two rows share a key meanwhile."""
    ends: list[int] = field(default_factory=lambda: [0])
    """Numbers of changes at which no transaction is open."""
    seen: set[str] = field(default_factory=set)
    """Counts by feature."""
    whole_moves: bool = False
    """Key changes have all columns."""

    def __post_init__(self) -> None:
        self._rows: dict[int, Image] = {}
        self._ids = itertools.count(1)
        self._counter = self.random.randrange(1, 10**9)
        self._values = itertools.count(1)

    @property
    def rows(self) -> list[Image]:
        return [dict(row) for row in self._rows.values()]

    def pause(self, seconds: float) -> datetime:
        """Lets time pass without changes; returns the time at the end."""
        self.now += timedelta(seconds=seconds)
        return self.now

    def recreate_task(self) -> None:
        """DMS's counter restarts low, while its time continues."""
        self._counter = self.random.randrange(1, 1000)

    def transaction(self) -> None:
        """One transaction of a few random statements."""
        steps = {"apart": 1.7, "close": 0.004, "coarse": 0.4}
        self.now += timedelta(seconds=steps[self.plan.commits] * self.random.choice([0, 1, 1, 2, 5]))
        if self.plan.commits == "apart":
            self.now += timedelta(microseconds=self.random.randrange(10_000, 50_000))
        for _ in range(self.random.choice([1, 1, 1, 2, 3])):
            self._statement()
        if len(self.changes) > self.ends[-1]:
            assert self.states[-1] is not None, "constraints hold at the end"
            self.ends.append(len(self.changes))

    def _statement(self) -> None:
        choices: list[Callable[[], object]] = [self._insert] * (4 if len(self._rows) < MOST_ROWS else 0)
        if self.plan.kind == "append_log":
            self._insert()
            return
        if self._rows:
            choices += [self._update] * 5 + [self._delete] * 2
            choices += [self._empty] * (self._may("emptied") and self.random.random() < 0.3)
        if self.plan.keyed:
            choices += [self._churn] * self._may("churn")
        if self.plan.moves and self._rows:
            choices += [self._move, self._move] + [self._chain] * self._may("chains")
            if len(self._rows) > 1:
                choices += [self._swap, self._swap] * self._may("swaps")
                choices += [self._park] + [self._shift, self._shift] * self._may("shifts")
        self.random.choice(choices)()

    def _may(self, feature: str) -> bool:
        return feature not in self.plan.without

    # Statements

    def _insert(self, key: Image | None = None) -> int:
        row = next(self._ids)
        self._rows[row] = self._values_of(key or self._free())
        self._log("I", self._rows[row])
        return row

    def _update(self, row: int | None = None) -> None:
        row = row or self._any()
        old = self._rows[row]
        new = self._values_of({name: old[name] for name in self._fixed})
        touched = {name for name in self._others if self.random.random() < 0.5}
        touched -= self._unseen(new)
        self._rows[row] = {**old, **{name: new[name] for name in touched}}
        self._log("U", self._rows[row], old, touched)

    def _delete(self, row: int | None = None) -> None:
        self._log("D", self._rows.pop(row or self._any()))

    def _empty(self) -> None:
        self.seen.add("emptied")
        for row in list(self._rows):
            self._delete(row)

    def _churn(self) -> None:
        """Insert, update, delete, insert of one key, from any of them on."""
        self.seen.add("churn")
        if self._rows and self.random.random() < 0.5:
            row = self._any()
            key = self._key(self._rows[row])
            self._delete(row)
        else:
            key = self._free()
        for _ in range(self.random.choice([1, 1, 2])):
            row = self._insert(key)
            self._update(row)
            self._delete(row)
        if self.random.random() < 0.7:
            self._insert(key)

    def _move(self, row: int | None = None, key: Image | None = None) -> None:
        self._moves([(row or self._any(), key or self._free())])
        self.seen.add("moves")

    def _chain(self) -> None:
        self.seen.add("chains")
        row = self._any()
        first = self._key(self._rows[row])
        for _ in range(self.random.choice([2, 3])):
            self._move(row)
        if self._is_free(first) and self.random.random() < 0.3:
            self._move(row, first)
        elif self._is_free(first) and self.random.random() < 0.4:
            self._insert(first)

    def _swap(self) -> None:
        """Two or three rows exchange their keys, one statement for all."""
        self.seen.add("swaps")
        rows = self.random.sample(sorted(self._rows), min(len(self._rows), self.random.choice([2, 2, 3])))
        keys = [self._key(self._rows[row]) for row in rows]
        moves = list(zip(rows, keys[1:] + keys[:1], strict=True))
        self.random.shuffle(moves)
        self._moves(moves)

    def _park(self) -> None:
        """Two rows exchange their keys by way of a free one."""
        self.seen.add("parked swaps")
        one, other = self.random.sample(sorted(self._rows), 2)
        first, second = self._key(self._rows[one]), self._key(self._rows[other])
        self._move(one)
        self._move(other, first)
        self._move(one, second)

    def _shift(self) -> None:
        """`id = id + 1`, or - 1, over a range, executed in either direction."""
        step = self.random.choice([1, -1])
        low = self.random.randrange(1, 8)
        part = (
            self.random.choice(self._parts)
            if self.random.random() < 0.5 and "part" in self.plan.key
            else None
        )
        rows = [
            row
            for row, image in self._rows.items()
            if low <= image["id"] <= low + 5 and part in (None, image["part"])
        ]
        taken = [self._key(image) for row, image in self._rows.items() if row not in rows]
        moves = [
            (row, {**self._key(self._rows[row]), "id": self._rows[row]["id"] + step})
            for row in sorted(rows, key=lambda row: self._rows[row]["id"], reverse=self.random.random() < 0.4)
        ]
        if self.random.random() < 0.2:
            self.random.shuffle(moves)
        if len(moves) > 1 and not any(key in taken for _, key in moves):
            self.seen.add("shifts")
            self._moves(moves)

    def _moves(self, moves: Sequence[tuple[int, Image]]) -> None:
        """Rows get new keys, one after the other; as pairs, all deletes come before all inserts, as in SQL Server."""
        olds = [self._rows[row] for row, _ in moves]
        news = []
        for (_, key), old in zip(moves, olds, strict=True):
            fresh = self._values_of(key)
            touched = {name for name in self._others if self.random.random() < 0.3}
            touched -= self._unseen(fresh)
            news.append(({**old, **key, **{name: fresh[name] for name in touched}}, touched))
        if self.plan.pairs:
            self.seen.add("pairs")
            for (row, _), old in zip(moves, olds, strict=True):
                del self._rows[row]
                self._log("D", old)
            for (row, _), (new, _) in zip(moves, news, strict=True):
                self._rows[row] = new
                self._log("I", new)
            return
        for (row, _), old, (new, touched) in zip(moves, olds, news, strict=True):
            self._rows[row] = new
            self._log("U", new, old, touched)

    # The log

    def _log(self, op: str, image: Image, old: Image | None = None, touched: set[str] | None = None) -> None:
        key = self.plan.key
        moved = old is not None and self._key(old) != self._key(image)
        before = None
        if (
            old is not None
            and key
            and (self.plan.before == "always" or (self.plan.before == "changed" and moved))
        ):
            before = self._key(old)
        unsupplied: frozenset[str] = frozenset()
        if (
            op == "U"
            and self.plan.partial
            and not (moved and self.whole_moves)
            and self.random.random() < 0.7
        ):
            unsupplied = frozenset(self._others) - frozenset(touched or ())
            self.seen |= {"partial", *(["partial key change"] if moved else [])} if unsupplied else set()
        if op == "D" and self.plan.partial and not self.plan.full_deletes and self.random.random() < 0.5:
            unsupplied = frozenset(self._others)
        shown = dict(image)
        if op == "U" and self.plan.toasted and not (moved and self.whole_moves):
            lacking = set(self.plan.kept) - set(touched or ())
            self.seen |= {"toasted", *(["toasted key change"] if moved else [])} if lacking else set()
            shown |= dict.fromkeys(lacking)
        if op == "D" and not self.plan.full_deletes:
            shown = {name: image[name] if name in key else None for name in COLUMNS}
        self._counter += self.random.choice([4, 12])
        stamp = self.now.replace(microsecond=0) if self.plan.commits == "coarse" else self.now
        number = len(self.changes)
        digits = f"{stamp:%Y%m%d%H%M%S}{stamp.microsecond // 10_000:02d}{self._counter:019d}"
        change = Change(number, len(self.ends), op, shown, before, unsupplied, stamp, digits, old)
        self.changes.append(change)
        keys = [tuple(row[name] for name in key) for row in self._rows.values()]
        collides = bool(key) and len(set(keys)) < len(keys)
        self.states.append(None if collides else self.rows)
        if collides:
            self.collisions.add(change.transaction)

    # Values and keys

    def _unseen(self, new: Image) -> set[str]:
        """Columns whose change to NULL the log would not show."""
        return {name for name in self.plan.kept if new[name] is None}

    @property
    def _fixed(self) -> list[str]:
        return [name for name in ("id", "part") if name in self.plan.key]

    @property
    def _others(self) -> list[str]:
        return [name for name in COLUMNS if name not in self.plan.key]

    @property
    def _parts(self) -> Sequence[str]:
        return self._full(PARTS)

    def _full(self, texts: Sequence[Any]) -> Sequence[Any]:
        """The texts, without an empty one if the source has none."""
        return [text if text != "" or self.plan.empty_texts else "e" for text in texts]

    def _values_of(self, key: Image) -> Image:
        price = self.random.choice([None, Decimal("0.00"), Decimal("-1.50"), Decimal("12345678.90")])
        fresh = {
            "v": self.random.choice(self._full(TEXTS)),
            "id": self.random.randrange(4),
            "part": self.random.choice(self._parts[1:]),
            "n": next(self._values) if self.plan.keyed else self.random.randrange(5),
            "w": price,
        }
        return {**fresh, **key}

    def _key(self, image: Mapping[str, Any]) -> Image:
        return {name: image[name] for name in self.plan.key}

    def _any(self) -> int:
        return self.random.choice(sorted(self._rows))

    def _is_free(self, key: Image) -> bool:
        return all(self._key(row) != key for row in self._rows.values())

    def _free(self) -> Image:
        if not self.plan.keyed:
            return {}
        parts = self._parts if "part" in self.plan.key else (None,)
        most = 14 if parts == (None,) else 7
        keys = [
            {"id": number} | ({"part": part} if part is not None else {})
            for number in range(1, most)
            for part in parts
        ]
        return self.random.choice([key for key in keys if self._is_free(key)])


@contextmanager
def whole_moves(source: Source) -> Iterator[None]:
    """Key changes of this time are logged with all columns."""
    source.whole_moves = True
    yield
    source.whole_moves = False
