"""The messages of a history as DMS sends them: what it says, in which order, what it sends twice.

Here: the changes' order in the words of their engine, messages, disorder. Not here: shards (`feeds.py`), landing them
(`run.py`). Shares no code with the package.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import groupby
from random import Random
from typing import Any

from lake_assets_tests.helpers.files.dms_files import DmsFile
from lake_assets_tests.soak.plan import Plan
from lake_assets_tests.soak.source import COLUMNS, Change, Image, Source
from lake_assets_tests.soak.stream.plan import StreamPlan
from lake_assets_tests.soak.writer import ITEMS, MS, OTHER, Load, Object, Written, lived

ORDER = "ar_h_change_seq"
"""The column that the task's mapping adds."""
UNREADABLE = (None, b"", b"{", b"[1]", b'{"data": {"id": 1}}', b"\xf3\x89\x9a\xc2\x0a\x01a", b"\xff\xfe")
"""Messages of nobody's table, the last but one an aggregated record of another producer."""
OPERATIONS = {"I": "insert", "U": "update", "D": "delete"}


@dataclass(frozen=True)
class Said:
    """What a message says in addition to its time."""

    what: str
    """`change`, `load`, `other`, `control`, `unreadable`, or `bad`: an unreadable one of the table."""
    planned: datetime | None = None
    """The earliest time at which DMS builds it; None: after the one before."""
    number: int = -1
    """The number of the change, or that of the full load."""
    row: Mapping[str, Any] | None = None
    """The loaded row."""
    operation: str = ""
    """Of a control record."""


@dataclass(frozen=True)
class Sent:
    """A message that was sent."""

    said: Said
    at: datetime
    """When DMS built it."""
    key: str
    """By which its shard is chosen."""
    value: bytes | None
    counts: Object | None
    """As the oracle sees it."""
    landed: tuple[str, str] | None
    """Operation and change sequence of its row in a file."""

    def __str__(self) -> str:
        said = self.said
        text = f"{said.what} {said.operation}" + (f"{said.number}" if said.number >= 0 else "")
        row = f" {dict(said.row)}" if said.row is not None else ""
        return f"{self.at:%H:%M:%S.%f} {text}{row} by {self.key}"


def write(plan: Plan, how: StreamPlan) -> tuple[Written, list[Sent]]:
    """The source's life, with its changes ordered as its engine does it, and all messages in the order of sending."""
    source, loads = lived(plan)
    random = Random(f"{plan.seed} messages")
    source.changes = list(_ordered(random, source.changes, how))
    for load in loads:
        load.parts = list(_rows(load))
    seen = set(source.seen)
    line = _line(plan, how, random, source, loads, seen)
    sent = [*_built(how, random, source, loads, line)]
    if plan.late:
        sent = _disordered(random, sent)
        seen.add("late")
    objects = [one.counts for one in sent if one.counts is not None]
    return Written(plan, source, loads, objects, seen), _stored_twice(plan, random, sent, seen)


# The order of changes


def _ordered(random: Random, changes: Sequence[Change], how: StreamPlan) -> Iterator[Change]:
    """The changes with the sequence that follows from what their messages say."""
    file, position = random.randrange(1, 200_000), random.randrange(4, 1000)
    for transaction, own in groupby(changes, key=lambda change: change.transaction):
        record, extra = 0, timedelta(microseconds=transaction)
        position += random.randrange(100, 10_000)
        if random.random() < 0.1:  # a new file of the binary log
            file, position = file + 1, 4
        for change in own:
            record += random.choice([1, 1, 2])  # some are of other tables
            at = change.commit_ts + (extra if how.engine == "postgresql" else timedelta(0))
            if how.own_order:
                at = change.commit_ts
                digits = change.sequence
                if not how.details:
                    at = at.replace(microsecond=at.microsecond // 10_000 * 10_000)
            elif how.engine == "mysql":
                digits = f"{file:06d}{position:010d}{record:019d}"
            else:
                digits = f"{at:%Y%m%d%H%M%S%f}{record:015d}"
            yield replace(change, commit_ts=at, sequence=digits)


def _rows(load: Load) -> Iterator[Object]:
    """The rows of a full load, each on its own."""
    for part in load.parts:
        for number, row in enumerate(part.file.rows):
            at = part.written + number * MS
            named = DmsFile(f"{part.key}/{number}", ({**row, "commit_ts": at},))
            yield replace(part, file=named, written=at)


# What is sent


def _line(
    plan: Plan, how: StreamPlan, random: Random, source: Source, loads: Sequence[Load], seen: set[str]
) -> list[Said]:
    """All messages in DMS's order, with its repetitions."""
    found: list[Said] = []
    starts = [load.cut for load in loads] or [0]
    for place, start in enumerate(starts):
        stop = starts[place + 1] if place + 1 < len(starts) else len(source.changes)
        if loads:
            found += _load(random, loads[place])
        else:
            found.append(Said("control", source.changes[0].commit_ts, operation="create-table"))
        resumed = loads[place].ended if loads else None
        for number in range(start, stop):
            commit = source.changes[number].commit_ts + timedelta(seconds=random.uniform(0.01, 1.0))
            ready = max(commit, resumed + timedelta(seconds=0.3)) if resumed is not None else commit
            found.append(Said("change", ready, number))
            if how.noise and random.random() < 0.1:
                found.append(Said(random.choice(["other", "control", "unreadable", "bad"])))
            if plan.repeated and random.random() < 0.08:
                first = random.randrange(max(start, number - 30), number + 1)
                found += [Said("change", None, again) for again in range(first, number + 1)]
                seen.add("replayed")
    return found


def _load(random: Random, load: Load) -> Iterator[Said]:
    yield Said("control", load.began, load.number, operation="drop-table")
    yield Said("control", None, load.number, operation="create-table")
    for part in load.parts:
        (row,) = part.file.rows
        yield Said("load", part.written, load.number, row=row)


def _built(
    how: StreamPlan, random: Random, source: Source, loads: Sequence[Load], line: Sequence[Said]
) -> Iterator[Sent]:
    """The messages, each with the time at which DMS builds it, which rises."""
    parts = {part.written: part for load in loads for part in load.parts}
    last: datetime | None = None
    for place, said in enumerate(line):
        at = said.planned
        if at is None or (last is not None and at <= last):
            assert last is not None, "a history begins with a time"
            at = last + MS
        if said.what == "load":
            assert said.planned == at, "a load's rows have their times"
        last = at
        value = _value(how, random, source, said, at)
        counts: Object | None = None
        landed: tuple[str, str] | None = None
        if said.what == "change":
            change = source.changes[said.number]
            named = DmsFile(f"{place}", ())
            counts = Object(named, at, numbers=range(said.number, said.number + 1))
            landed = (change.op, change.sequence)
        elif said.what == "load":
            assert said.planned is not None
            counts, landed = parts[said.planned], ("I", "")
        yield Sent(said, at, _partition(how, random, source, said), value, counts, landed)


def _partition(how: StreamPlan, random: Random, source: Source, said: Said) -> str:
    if said.what == "control":
        return f"TASK.{ITEMS}"
    if how.partition == "nothing":
        return str(random.random())
    if how.partition == "table" and said.what == "change":
        return ITEMS
    row = source.changes[said.number].image if said.what == "change" else said.row or {}
    return f"{ITEMS}.{row.get('id')}.{row.get('part')}"


def _disordered(random: Random, sent: Sequence[Sent]) -> list[Sent]:
    """Some messages are later than those behind them; rows of a full load are not."""
    places = [
        place + (0 if one.said.what == "load" else random.choice([0, 0, 0, 0, 2, 3, 8]))
        for place, one in enumerate(sent)
    ]
    return [
        one for _, _, one in sorted(zip(places, range(len(sent)), sent, strict=True), key=lambda e: e[:2])
    ]


def reload_ends(sent: Sequence[Sent]) -> Iterator[int]:
    """The places behind the last message of each full load. Until DMS's message that it has created the table lands,
    the rows of a reload count to the load before."""
    of_loads = ("load", "control")
    last = {one.said.number: place for place, one in enumerate(sent) if one.said.what in of_loads}
    yield from (place + 1 for number, place in last.items() if number >= 0)


def _stored_twice(plan: Plan, random: Random, sent: Sequence[Sent], seen: set[str]) -> list[Sent]:
    """Messages whose storing was answered by an error, and that were sent again as they were."""
    found: list[Sent] = []
    again: list[Sent] = []
    for one in sent:
        found.append(one)
        found += again
        again = []
        told_apart = plan.keyed and not plan.log_too
        if random.random() < 0.06 and (one.said.what != "load" or told_apart):
            again.append(one)
            seen.add("stored twice")
    return found + again


# Messages


def _value(how: StreamPlan, random: Random, source: Source, said: Said, at: datetime) -> bytes | None:
    if said.what == "unreadable":
        return random.choice(UNREADABLE)
    if said.what == "control":
        return _control(random, said.operation or random.choice(["add-column", "rename-column"]), at)
    schema, table = (OTHER if said.what == "other" else ITEMS).split(".")
    metadata: dict[str, Any] = {"timestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z", "record-type": "data"}
    metadata |= {"schema-name": schema, "table-name": table, "partition-key-type": "primary-key"}
    if said.what == "load":
        assert said.row is not None
        return _data(how, random, metadata | {"operation": "load"}, {n: said.row[n] for n in COLUMNS}, None)
    if said.what in ("other", "bad"):
        metadata["operation"] = "truncate" if said.what == "bad" else "load"
        return _data(how, random, metadata, {"x": 1}, None)
    change = source.changes[said.number]
    metadata |= {"operation": OPERATIONS[change.op]} | _transaction(how, change)
    values = {name: value for name, value in change.image.items() if name not in change.unsupplied}
    if how.own_order:
        values[ORDER] = change.sequence
    return _data(how, random, metadata, values, _before(how, change))


def _transaction(how: StreamPlan, change: Change) -> dict[str, Any]:
    digits = change.sequence
    own: dict[str, Any] = {"transaction-id": 655368 + change.transaction}
    if how.engine == "mysql" and not how.own_order:
        own["transaction-id"] = (int(digits[:6]) << 32) + int(digits[6:16])
    if how.details:
        own["transaction-record-id"] = int(digits[-15:]) if not how.own_order else 1 + change.number
        shown = f"{change.commit_ts:%Y-%m-%dT%H:%M:%S.%f}Z"
        own |= {"commit-timestamp": shown, "stream-position": "mysql-bin-changelog.000001:1:0:2"}
    return own


def _before(how: StreamPlan, change: Change) -> Image | None:
    if change.op != "U":
        return None
    if how.whole_before and change.old is not None and change.before is not None:
        return {name: change.old[name] for name in COLUMNS}
    return change.before or {}


def _data(
    how: StreamPlan,
    random: Random,
    metadata: Mapping[str, Any],
    values: Mapping[str, Any],
    before: Mapping[str, Any] | None,
) -> bytes:
    members = [f'"data": {_object(how, values)}', f'"metadata": {json.dumps(metadata)}']
    if before is not None:
        members.insert(1, f"{json.dumps(how.before_image)}: {_object(how, before)}")
    if random.random() < 0.3:
        members.reverse()
    between = random.choice([", ", ",\n\t"])
    return ("{" + between.join(members) + "}\n").encode()


def _object(how: StreamPlan, values: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in values.items() if value is not None or not how.nulls_left_out}
    return "{" + ", ".join(f"{json.dumps(name)}: {_token(value)}" for name, value in shown.items()) + "}"


def _token(value: Any) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _control(random: Random, operation: str, at: datetime) -> bytes:
    schema, table = ITEMS.split(".")
    metadata = {"timestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z", "record-type": "control", "operation": operation}
    metadata |= {"schema-name": schema, "table-name": table, "partition-key-type": "task-id"}
    return json.dumps({"metadata": metadata}).encode()
