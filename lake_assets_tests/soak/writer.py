"""The objects that DMS would write: full loads, taken while transactions run, and files of changes, cut anywhere.

Here: objects, in the order in which they are written, as rows. Not here: their bytes (`bucket.py`), when they arrive
(`arrival.py`). Shares no code with the package.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from lake_assets_tests.helpers.files.dms_files import DmsFile, Row, cdc_file, load_file, transaction_file
from lake_assets_tests.soak.plan import Plan
from lake_assets_tests.soak.source import Change, Image, Source, whole_moves

ITEMS = "public.items"
OTHER = "public.other"
"""Another table, whose rows are in the files of transactions too."""
MARKER = "NOT LOGGED"
MS = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Object:
    """One version of an object of the bucket."""

    file: DmsFile
    written: datetime
    load: int | None = None
    """Number of the full load that it is a part of."""
    numbers: range = range(0)
    """The changes in a file of changes."""
    sequenced: bool = True
    """Whether it has the column of sequences."""

    @property
    def key(self) -> str:
        return self.file.key


@dataclass
class Load:
    """A full load of the table."""

    number: int
    began: datetime
    cut: int
    """Changes from this number on are in files that were written after it began."""
    parts: list[Object] = field(default_factory=list)
    read: int = 0
    """The number of changes when its last row was read."""
    ended: datetime | None = None


@dataclass
class Written:
    """All objects, in the order in which DMS wrote them."""

    plan: Plan
    source: Source
    loads: list[Load]
    objects: list[Object]
    seen: set[str]

    def cut(self, load: int | None) -> int:
        """The first change that a table with this load needs."""
        return self.loads[load].cut if load is not None else 0


def write(plan: Plan) -> Written:
    """The whole life of a table."""
    source, loads = lived(plan)
    seen = set(source.seen)
    objects = [part for load in loads for part in load.parts]
    objects += changes(plan, Random(f"{plan.seed} files"), source, loads, seen)
    objects.sort(key=lambda written: written.written)
    return Written(plan, source, loads, objects, seen)


def lived(plan: Plan) -> tuple[Source, list[Load]]:
    """The source's whole life, and its full loads."""
    random = Random(f"{plan.seed} source")
    source = Source(plan, random)
    loads: list[Load] = []
    if plan.load != "none":
        _work(source, random.randint(2, 7))
        for number in range(plan.reloads + 1):
            loads.append(_load(plan, random, source, loads))
            _work(source, random.randint(0 if number < plan.reloads else 2, 9))
    while plan.load == "none" and len(source.changes) < 8:
        _work(source, random.randint(3, 12))
    return source, loads


def _work(source: Source, transactions: int) -> None:
    for _ in range(transactions):
        source.transaction()


# Full loads


def _load(plan: Plan, random: Random, source: Source, earlier: Sequence[Load]) -> Load:
    while not source.rows:
        source.transaction()
    source.pause(120)
    if earlier:
        source.recreate_task()
    floor = len(source.changes)
    exact = plan.kind == "append_log" or not plan.overlap
    if not exact:
        with whole_moves(source):
            _work(source, random.choice([0, 0, 1, 2]))
    while not source.rows:
        source.transaction()
        floor = len(source.changes)
    base = len(source.changes)
    # Half of a swap that a load has read would look like another change.
    cuts = [n for n in range(floor, base + 1) if n in source.ends or not source.collisions or not plan.moves]
    load = Load(len(earlier), source.pause(10), base if exact else random.choice(cuts))
    count = random.choice([1, 2, 3]) if plan.load == "plain" else random.choice([2, 3])
    if earlier and "new_parts" in plan.without:
        count = min(count, len(earlier[-1].parts))
    for share in range(count):
        rows = [row for row in source.rows if row["id"] % count == share]
        read = source.pause(0.2)
        if rows:
            number = len(load.parts) + 1
            load.parts.append(_part(plan, random, load, rows, number, read))
        load.read = len(source.changes)
        if plan.overlap and share + 1 < count:
            with whole_moves(source):
                _work(source, random.choice([0, 1, 1, 2]))
    if not load.parts:  # all rows have moved to shares that had been read
        with whole_moves(source):
            _work(source, 1)
        return _load(plan, random, source, earlier)
    load.ended = source.pause(0.5)
    return load


def _part(plan: Plan, random: Random, load: Load, rows: list[Image], number: int, read: datetime) -> Object:
    extension = _extension(plan, random, load=True)
    stamped = [{"change_seq": None, **row} for row in rows]
    if plan.load == "plain":
        file = load_file(ITEMS, stamped, part=number, at=read, extension=extension)
    else:
        file = load_file(ITEMS, stamped, at=read, extension=extension)
        folder, _, name = file.key.rpartition("/")
        file = DmsFile(f"{folder}/p{number}/{name}", file.rows)
    return Object(file, read, load=load.number, sequenced=plan.sequences in ("all", "goes"))


def _extension(plan: Plan, random: Random, *, load: bool = False) -> str:
    kind = "csv"
    if plan.layout == "parquet":
        kind = "parquet"
    elif plan.layout == "mixed":
        # A full load that is written again gets the names that it had.
        kind = random.choice(["csv", "parquet"]) if not load else "csv"
    return f"{kind}.gz" if kind == "csv" and plan.compressed else kind


# Changes


def changes(
    plan: Plan, random: Random, source: Source, loads: Sequence[Load], seen: set[str]
) -> list[Object]:
    """The files of changes, as DMS writes them."""
    switch = _switch(plan, random, source)
    if switch is not None:
        seen.add(plan.sequences)
    starts = [load.cut for load in loads] or [0]
    found: list[Object] = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(source.changes)
        ended = loads[number].ended if loads else None
        flushed = (ended or source.changes[0].commit_ts) + timedelta(seconds=0.3)
        own: list[Object] = []
        for a, b in _pieces(plan, random, source, start, end, switch):
            last = source.changes[b - 1].commit_ts + timedelta(seconds=random.uniform(0.01, 5))
            flushed = max(flushed + 10 * MS, last)  # room for the names of others in between
            own.append(_file(plan, random, source, range(a, b), flushed, switch))
            if b not in source.ends:
                seen.add("cut")
        own += _repetitions(plan, random, source, start, own, switch, seen)
        found += _rewritten(plan, random, source, own, switch, seen)
    return found


def _switch(plan: Plan, random: Random, source: Source) -> int | None:
    """The change from which on files have, or no longer have, the column of sequences."""
    if plan.sequences not in ("comes", "goes"):
        return None
    hundredths = [f"{change.commit_ts:%Y%m%d%H%M%S%f}"[:16] for change in source.changes]
    places = [n for n in range(1, len(hundredths)) if hundredths[n] != hundredths[n - 1]]
    return random.choice(places) if places else None


def _is_sequenced(plan: Plan, number: int, switch: int | None) -> bool:
    if switch is None:
        return plan.sequences != "none"
    return (number >= switch) == (plan.sequences == "comes")


def _pieces(
    plan: Plan, random: Random, source: Source, start: int, end: int, switch: int | None
) -> list[tuple[int, int]]:
    places = [n for n in range(start + 1, end) if plan.cut or n in source.ends]
    borders = set(random.sample(places, min(len(places), random.choice([0, 1, 2, 3, 4]))))
    if switch is not None and start < switch < end:
        borders.add(switch)
    ordered = sorted({start, end, *borders})
    return list(itertools.pairwise(ordered)) if start < end else []


def _file(
    plan: Plan, random: Random, source: Source, numbers: range, flushed: datetime, switch: int | None
) -> Object:
    sequenced = _is_sequenced(plan, numbers.start, switch)
    rows = [_row(source.changes[number], sequenced) for number in numbers]
    extension = _extension(plan, random)
    if plan.layout == "transactions":
        own: list[tuple[str, Row]] = [(ITEMS, row) for row in rows]
        for _ in range(random.choice([0, 1, 3])):
            stamp = random.choice(rows)["commit_ts"]
            own.insert(random.randrange(len(own) + 1), (OTHER, {"Op": "I", "commit_ts": stamp, "x": 1}))
        file = transaction_file(flushed, own, extension)
    else:
        file = cdc_file(ITEMS, flushed, rows, extension)
    return Object(file, flushed, numbers=numbers, sequenced=sequenced)


def _row(change: Change, sequenced: bool) -> dict[str, Any]:
    row = {"Op": change.op, "commit_ts": change.commit_ts, **change.image}
    row |= dict.fromkeys(change.unsupplied, MARKER)
    row |= {f"BI_{name}": value for name, value in (change.before or {}).items()}
    return row | ({"change_seq": change.sequence} if sequenced else {})


def _repetitions(
    plan: Plan,
    random: Random,
    source: Source,
    start: int,
    own: Sequence[Object],
    switch: int | None,
    seen: set[str],
) -> list[Object]:
    """Files that repeat changes of other files, as from a task that was resumed from an earlier place."""
    found = []
    for place, after in enumerate(own):
        if not plan.repeated or random.random() > 0.4:
            continue
        a = random.randrange(start, after.numbers.stop)
        b = random.randint(a + 1, min(a + 12, after.numbers.stop))
        while not plan.cut and a not in source.ends:
            a -= 1
        while not plan.cut and b not in source.ends:
            b += 1
        if a < start or b > after.numbers.stop or not _may_repeat(plan, source, a, b, switch):
            continue
        found.append(_file(plan, random, source, range(a, b), after.written + (1 + place % 3) * MS, switch))
        seen.add("repeated")
    return found


def _may_repeat(plan: Plan, source: Source, a: int, b: int, switch: int | None) -> bool:
    if all(_is_sequenced(plan, number, switch) for number in range(a, b)):
        return True
    if plan.sequences != "none" or not plan.keyed or plan.partial:
        return False
    chosen = source.changes[a:b]
    outside = [*source.changes[:a], *source.changes[b:]]
    hundredths = {f"{change.commit_ts:%Y%m%d%H%M%S%f}"[:16] for change in chosen}
    torn = any(f"{change.commit_ts:%Y%m%d%H%M%S%f}"[:16] in hundredths for change in outside)
    moved = any(change.op == "U" and change.before for change in chosen)
    return not torn and not moved


def _rewritten(
    plan: Plan, random: Random, source: Source, own: list[Object], switch: int | None, seen: set[str]
) -> list[Object]:
    """Writes some files in another form first."""
    found = []
    for whole in own:
        numbers = whole.numbers
        middles = [n for n in numbers[1:] if plan.cut or n in source.ends]
        if not plan.rewritten or not middles or random.random() > 0.4:
            found.append(whole)
            continue
        middle = random.choice(middles)
        half = _file(plan, random, source, range(numbers.start, middle), whole.written, switch)
        half = replace(half, file=replace(half.file, key=whole.key))
        seen.add("rewritten")
        if random.random() < 0.6 or not whole.sequenced:
            # What was begun is finished. Without sequences, the rest in a file of its own would be changes that are
            # written again, until the whole is half.
            found += [half, replace(whole, written=whole.written + MS / 2)]
        else:
            # It is cut in two.
            rest = _file(plan, random, source, range(middle, numbers.stop), whole.written + 4 * MS, switch)
            found += [whole, replace(half, written=whole.written + MS / 2), rest]
    return found
