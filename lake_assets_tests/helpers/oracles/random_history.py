"""Random transactions on a table with a key, cut into random files that arrive in random order, some of them twice.

Here: the source and its files. Not here: applying them (`test_random_histories.py`), histories of more than one kind of
table (`soak/`).
"""

import itertools
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, cdc_file, load_file

TABLE = "public.items"
COLUMNS = {"v": "string", "id": "long not null", "part": "string not null", "n": "int not null"}
MASKS: tuple[dict[str, str | None], ...] = (
    {},
    {"part": "hash"},
    {},
    {"v": "redact"},
    {"v": "hash", "part": "hash"},
    {"v": None},
)
"""By turns, the masks of a history's table; `part` is in every second history's key."""
Key = tuple[int, str]


@dataclass
class RandomSource:
    """A table that random statements change, one after the other, as a database lets them: no key is taken twice."""

    random: Random
    key: list[str]
    always_before: bool
    kept: tuple[str, ...] = ()
    """Columns that an update which leaves them as they are, or a change to NULL, shows as NULL."""
    whole_moves: bool = False
    """Key changes leave nothing out."""
    rows: dict[Key, dict[str, Any]] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    changes: list[dict[str, Any]] = field(default_factory=list)

    def _free(self) -> Key:
        parts = ["", "a", "B"] if "part" in self.key else ["x"]
        return self.random.choice([k for k in itertools.product(range(25), parts) if k not in self.rows])

    def _image(self, key: Key) -> dict[str, Any]:
        value = self.random.choice([None, "", "x", 'a "quoted", text\nof two lines', "NULLS"])
        return {"id": key[0], "part": key[1], "v": value, "n": len(self.changes)}

    def transaction(self) -> None:
        """A few statements that commit together."""
        for number in range(self.random.choice([1, 1, 1, 2, 3, 5])):
            self._statement(same_transaction=number > 0)

    def _statement(self, same_transaction: bool) -> None:
        kinds = ["I"] * (len(self.rows) < 20) + (["U", "U", "K", "D"] if self.rows else [])
        kind = self.random.choice(kinds)
        if kind == "I":
            new = self._free()
            self.rows[new] = self._image(new)
            change = self.clock.change("I", self.rows[new], None, same_transaction)
        else:
            old = self.random.choice(sorted(self.rows))
            before = dict(zip(("id", "part"), old, strict=True))
            before = {name: before[name] for name in self.key}
            former = self.rows.pop(old)
            if kind == "D":
                image = {"id": old[0], "part": old[1], "v": None, "n": None}
                change = self.clock.change("D", image, None, same_transaction)
            else:
                new = self._free() if kind == "K" else old
                self.rows[new] = self._image(new)
                if kind == "K" and self.whole_moves:
                    self.rows[new] |= {name: "moved" for name in self.kept if self.rows[new][name] is None}
                    left = []
                else:
                    left = [c for c in self.kept if self.rows[new][c] is None or self.random.random() < 0.6]
                self.rows[new] |= {name: former[name] for name in left}
                told = before if self.always_before or kind == "K" else None
                shown = self.rows[new] | dict.fromkeys(left)
                change = self.clock.change("U", shown, told, same_transaction)
        self.changes.append(change)


@dataclass
class History:
    """The files of a source, in the order in which they arrive, cut into turns."""

    seed: int
    turns: list[list[DmsFile]]
    key: list[str]
    sequenced: bool
    max_files: int
    rows: list[dict[str, Any]]
    """What the source holds in the end."""

    @property
    def mask(self) -> dict[str, str | None]:
        """The masks of silver's columns."""
        return MASKS[self.seed % len(MASKS)]


def kept_of(seed: int) -> tuple[str, ...]:
    """Of every second pair of seeds, the columns of `kept_when_null`; `n` may not be NULL."""
    return ("v", "n") if seed // 2 % 2 else ()


def random_history(seed: int, kept: tuple[str, ...] = (), *, whole_moves: bool = False) -> History:
    """The history with this number, each time the same. `kept`: as of `RandomSource`, and `whole_moves` of the time of
    the full load, which its rows then show."""
    random = Random(seed)
    key = ["id", "part"] if seed % 2 else ["id"]
    # Without sequences, a repetition inside a transaction cannot be distinguished from another change.
    sequenced = seed % 4 != 3
    source = RandomSource(random, key, always_before=random.random() < 0.5, kept=kept)
    cut = [0]
    began = NOON - timedelta(minutes=1)
    for phase in (12, 4, 40):
        source.whole_moves = whole_moves and phase == 4
        if source.whole_moves:
            began = source.clock.now
        for _ in range(phase):
            source.transaction()
        cut.append(len(source.changes))
        if len(cut) == 3:
            loaded = [dict(row) for row in source.rows.values()]
    changes = [{k: v for k, v in c.items() if sequenced or k != "change_seq"} for c in source.changes]
    # The full load holds the first two phases; the changes of the second were made while it ran, and are in CDC, too.
    parts = random.choice([1, 2, 3])
    loads = [load_file(TABLE, loaded[n::parts], part=n + 1, at=began) for n in range(parts)]
    ranges = pieces(random, cut[1], len(changes), count=random.randint(3, 9))
    if sequenced:
        starts = [random.randrange(cut[1], len(changes)) for _ in range(random.choice([0, 1, 2]))]
        ranges += [(start, min(len(changes), start + random.randint(1, 30))) for start in starts]
    end = source.clock.now
    files = [cdc_file(TABLE, end + timedelta(seconds=n), changes[a:b]) for n, (a, b) in enumerate(ranges)]
    if not sequenced:
        files = [
            cdc_file(TABLE, last_commit(file) + timedelta(seconds=n), file.rows)
            for n, file in enumerate(files)
        ]
    arrivals = [*loads, *files]
    # Most come in order, some much later.
    lateness = {file.key: place + random.choice([0, 0, 0, 2, 8]) for place, file in enumerate(arrivals)}
    arrivals.sort(key=lambda file: lateness[file.key])
    turns = [arrivals[a:b] for a, b in pieces(random, 0, len(arrivals), count=3)]
    return History(seed, turns, key, sequenced, random.choice([2, 100]), list(source.rows.values()))


def last_commit(file: DmsFile) -> Any:
    """The time of the last commit in a file."""
    return max((row["commit_ts"] for row in file.rows), default=NOON)


def pieces(random: Random, start: int, end: int, count: int) -> list[tuple[int, int]]:
    """The range in about `count` pieces, none of them empty."""
    borders = sorted({start, end, *(random.randrange(start, end) for _ in range(count - 1))})
    return list(itertools.pairwise(borders))


def sequences(files: list[DmsFile]) -> list[str]:
    """The change sequences of the files' rows, repetitions included."""
    return [row["change_seq"] for file in files for row in file.rows if "change_seq" in row]
