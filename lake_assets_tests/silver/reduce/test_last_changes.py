"""The last change of each key, found from keys, operations and sequences.

Here: random batches against the rule in plain Python, and single cases. Not here: tables that are written so
(`silver/write/test_large_batches.py`), keys that are followed row by row (`test_key_moves.py`).
"""

import random
from collections import defaultdict
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.decode.changes import BEFORE, IMAGE
from lake_assets.bronze.decode.dms_columns import SEQUENCE
from lake_assets.config import TableConfig
from lake_assets.silver.changes import keyed_events
from lake_assets.silver.changes.keyed_events import (
    FILE,
    KIND,
    ROW,
    UPDATE,
    Found,
    KeyedEvents,
    ReadingEvents,
    events_of,
)
from lake_assets.silver.changes.row_marks import RowMarks
from lake_assets.silver.reduce.current.last_changes import LastChanges, destinations, last_changes

Change = tuple[Any, str, str] | tuple[Any, str, str, Any]
"""Key, operation, sequence, and of an update that moves its key the old one."""
MADE = "2026030112000000" + "0" * 19
"""A sequence that was made of a time: other changes may have the same."""


def sequence(second: int, number: int) -> str:
    """Of the number-th change of a transaction."""
    return f"202603011200{second:04d}{number:019d}"


def of_file(changes: list[Change], number: int, lacking: set[int]) -> Found:
    """The events, as of decoded changes."""
    nothing = pa.nulls(len(changes), pa.string())
    keys = pa.array([key for key, *_ in changes])
    old = [change[3] if len(change) > 3 else None for change in changes]
    columns: dict[str, Any] = {
        "_op": pa.array([op for _, op, *_ in changes], pa.string()),
        "_sequence": pa.array([when for _, _, when, *_ in changes], pa.string()),
        "_row": pa.array(range(len(changes)), pa.int64()),
        "_bad": nothing,
        IMAGE.format(place=0): keys,
        BEFORE.format(place=0): pa.array(old, keys.type),
    }
    if lacking:
        columns["_unsupplied"] = [["v"] if row in lacking else [] for row in range(len(changes))]
    table = TableConfig.model_validate(
        {"columns": {"id": "long" if pa.types.is_integer(keys.type) else "string"}, "primary_key": ["id"]}
    )
    return events_of(pa.table(columns), table, ["id"], number)


def gathered(
    files: list[list[Change]],
    names: list[str] | None = None,
    lacking: AbstractSet[tuple[int, int]] = frozenset(),
    **more: Any,
) -> ReadingEvents:
    """The events of files. `lacking`: file and row of updates that lack columns."""
    addresses = names or [f"file:/lake/{number}.parquet" for number in range(len(files))]
    found = ReadingEvents(addresses, sum(map(len, files)), **more)
    for number, changes in enumerate(files):
        some = {row for file, row in lacking if file == number}
        found.add(of_file(changes, number, some), number)
    return found


def keyed(*files: list[Change], **more: Any) -> KeyedEvents:
    (piece,) = gathered([*files], **more).pieces()
    return piece


@dataclass
class Rule:
    """The rule, in plain Python."""

    rows: dict[Any, tuple[int, int]] = field(default_factory=dict)
    """By key with a row, file and place of its last image."""
    keys: set[Any] = field(default_factory=set)
    doubtful: set[Any] = field(default_factory=set)
    passing: set[Any] = field(default_factory=set)
    first: dict[Any, str] = field(default_factory=dict)


def by_rule(
    files: list[list[Change]], lacking: AbstractSet[tuple[int, int]] = frozenset(), applied: str = ""
) -> Rule:
    of_key: dict[Any, list[tuple[str, tuple[int, int], str]]] = defaultdict(list)
    for number, changes in enumerate(files):
        for row, (key, op, when, *old) in enumerate(changes):
            of_key[key].append((when, (number, row), "here" if old else op))
            if old:
                of_key[old[0]].append((when, (number, row), "away"))
    rule = Rule(keys=set(of_key))
    for key, changes_of_key in of_key.items():
        ordered = sorted(changes_of_key)
        kinds = [kind for _, _, kind in ordered]
        (when, place, _), leaves = ordered[-1], kinds[-1] in ("D", "away")
        rule.first[key] = kinds[0]
        if not leaves:
            rule.rows[key] = place
        arrived = max((at for at, _, kind in ordered if kind in ("I", "here")), default=None)
        at_once = leaves and arrived is not None and arrived[:16] == when[:16]
        in_part = leaves and "" < when[:16] <= applied
        partial = any(at in lacking and kind not in ("D", "away") for _, at, kind in ordered)
        if at_once or in_part or partial:
            rule.doubtful.add(key)
        count = sum(kind in ("I", "here") for kind in kinds) - sum(kind in ("D", "away") for kind in kinds)
        whole = kinds[0] in ("I", "here") and count == 0 and ordered[0][0][:16] == when[:16]
        if at_once and whole and not in_part and not partial:
            rule.passing.add(key)
    return rule


def rows_of(*every: LastChanges) -> dict[Any, tuple[int, int]]:
    found: dict[Any, tuple[int, int]] = {}
    for last in every:
        keys = last.keys["_key_0"].filter(pa.array(last.has_row)).to_pylist()
        files, places = last.rows()
        found |= dict(zip(keys, zip(files.tolist(), places.tolist(), strict=True), strict=True))
    return found


def chosen(found: LastChanges, marks: Any) -> set[Any]:
    return set(found.keys["_key_0"].filter(pa.array(marks)).to_pylist())


def agree(found: LastChanges, rule: Rule) -> None:
    assert sorted(found.keys["_key_0"].to_pylist()) == sorted(rule.keys)
    assert rows_of(found) == rule.rows
    assert chosen(found, found.doubtful) == rule.doubtful
    assert chosen(found, found.passing) == rule.passing
    assert chosen(found, found.present) == {k for k, kind in rule.first.items() if kind in ("U", "D", "away")}
    assert chosen(found, found.starts_with_update) == {k for k, kind in rule.first.items() if kind == "U"}


def moved(change: Change, old: Any, chance: random.Random) -> Change:
    """Perhaps with an old key, if it is an update."""
    is_moved = change[1] == "U" and old != change[0] and chance.random() < 0.3
    return (*change[:3], old) if is_moved else change


def drawn_files(seed: int) -> list[list[Change]]:
    chance = random.Random(seed)
    keys = range(-5, chance.choice([3, 40, 400]))
    key = (lambda: chance.choice(keys)) if seed % 2 else (lambda: f"key {chance.choice(keys)}")
    moments = [(second, number) for second in range(60) for number in range(1, 5)]
    drawn = [sequence(*moment) for moment in chance.sample(moments, 120)]
    drawn += [drawn[0]] * 3 if seed % 5 == 0 else []
    drawn += [MADE] * 20 if seed % 7 == 0 else []
    changes: list[Change] = [(key(), chance.choice("IUUD"), when) for when in drawn]
    if seed % 3 == 0:
        changes = [moved(change, key(), chance) for change in changes]
    if seed % 4 < 2:
        # Rows that come and go within one transaction, most of them new.
        for number in range(4):
            short: Any = key()
            if isinstance(short, int):
                short += 1000
            changes.append((short, "I", sequence(number, 100)))
            changes.append((short, "D", sequence(number, 200 + chance.choice([0, 0, 0, 10_000_000]))))
    if seed // 4 % 2:
        changes.sort(key=itemgetter(2))  # as DMS writes them
    cut = chance.randrange(1, len(changes))
    return [changes[:cut], changes[cut:]]


@pytest.mark.parametrize("seed", range(200))
def test_random_batches_follow_the_rule(seed: int) -> None:
    files, chance = drawn_files(seed), random.Random(-seed)
    lacking = {
        (number, row)
        for number, changes in enumerate(files)
        for row, (_, op, *_) in enumerate(changes)
        if op != "I" and seed % 6 == 0 and chance.random() < 0.1
    }
    applied = sequence(chance.randrange(60), 0)[:16] if seed % 5 == 1 else ""
    changes = keyed(*files, lacking=lacking)
    rule = by_rule(files, lacking, applied)
    agree(last_changes(changes, ["id"], applied_commit=applied), rule)
    some = chance.sample(sorted(rule.keys), len(rule.keys) // 2)
    only = last_changes(changes, ["id"], applied_commit=applied, only=pa.table({"_key_0": some}))
    assert chosen(only, only.has_row | ~only.has_row) == set(some)
    assert rows_of(only) == {key: place for key, place in rule.rows.items() if key in some}
    assert chosen(only, only.doubtful) == rule.doubtful & set(some)


def test_random_batches_have_every_case() -> None:
    rules = [by_rule(drawn_files(seed)) for seed in range(200)]
    assert all(any(getattr(rule, name) for rule in rules) for name in ("doubtful", "passing", "rows"))
    assert any(rule.doubtful - rule.passing for rule in rules)


def test_no_changes_have_no_keys() -> None:
    some, none = keyed([(1, "U", MADE)], []), pa.table({"_key_0": pa.array([], pa.int64())})
    assert last_changes(some, ["id"], only=none).keys.num_rows == 0
    empty = KeyedEvents(some.rows.slice(0, 0), some.addresses)
    assert last_changes(empty, ["id"]).keys.num_rows == 0


@pytest.mark.parametrize("low", [2**63 - 1, -(2**63)])
def test_the_ends_of_whole_numbers_are_keys_like_others(low: int) -> None:
    changes: list[Change] = [(low, "U", sequence(1, 1)), (0, "U", sequence(1, 2)), (low, "U", sequence(1, 3))]
    agree(last_changes(keyed(changes), ["id"]), by_rule([changes]))


def of_rows(rows: list[tuple[Any, ...]]) -> KeyedEvents:
    """Updates of keys with several columns, in their order."""
    columns: dict[str, Any] = {f"_key_{place}": [row[place] for row in rows] for place in range(len(rows[0]))}
    columns |= {ROW: pa.array(range(len(rows))), FILE: np.zeros(len(rows), np.int64)}
    columns |= {KIND: pa.array([UPDATE] * len(rows), pa.int8())}
    return KeyedEvents(
        pa.table(columns | {SEQUENCE: [sequence(1, number + 1) for number in range(len(rows))]}), ["a"]
    )


def test_keys_of_several_columns_are_not_mixed_up() -> None:
    found = last_changes(of_rows([("a", 1), ("a", 2), ("b", 1), ("b", 2), ("a", 1)]), ["x", "y"])
    assert sorted(found.last.tolist()) == [1, 2, 3, 4]


def test_keys_of_many_columns_with_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """More combinations than fit into a number."""
    monkeypatch.setattr("lake_assets.silver.changes.key_numbers._MOST_CODES", 50)
    chance = random.Random(1)
    rows = [tuple(chance.choice("abcd") for _ in range(4)) for _ in range(300)]
    found = last_changes(of_rows(rows), list("wxyz"))
    assert {rows[row]: row for row in found.last.tolist()} == {row: number for number, row in enumerate(rows)}


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("seed", range(0, 40, 3))
def test_pieces_of_the_keys_follow_the_rule(
    seed: int, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    """Of more changes than this process decides at once."""
    monkeypatch.setattr(keyed_events, "ROWS_OF_A_PIECE", 30)
    files = drawn_files(seed)
    lacking = {(0, row) for row, (_, op, *_) in enumerate(files[0]) if op == "U"} if seed % 2 else set()
    gotten, rule = gathered(files, lacking=lacking, in_memory=in_memory), by_rule(files, lacking)
    for _ in range(2):  # they may be read several times
        every = [last_changes(piece, ["id"]) for piece in gotten.pieces()]
        assert len(every) > 3
        assert rows_of(*every) == rule.rows
        keys = [key for last in every for key in last.keys["_key_0"].to_pylist()]
        assert sorted(keys) == sorted(rule.keys)
        assert {key for last in every for key in chosen(last, last.doubtful)} == rule.doubtful
        assert {key for last in every for key in chosen(last, last.passing)} == rule.passing


def test_a_row_with_very_many_updates_takes_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """All events of a key are one piece, whatever their number; those in the middle decide nothing."""
    monkeypatch.setattr(keyed_events, "ROWS_OF_A_PIECE", 30)
    changes: list[Change] = [(1, "U", sequence(number, 1)) for number in range(100)]
    changes[40] = (1, "I", sequence(40, 1))
    changes[60:62] = [(1, "U", sequence(60, 1), 7), (2, "U", sequence(61, 1))]
    random.Random(3).shuffle(changes)
    lacking = {(0, next(row for row, change in enumerate(changes) if change[2] == sequence(70, 1)))}
    gotten = gathered([changes], lacking=lacking)
    every = [last_changes(piece, ["id"]) for piece in gotten.pieces()]
    assert sum(last.events.rows.num_rows for last in every) == 7
    rule = by_rule([changes], lacking)
    assert rows_of(*every) == rule.rows
    assert {key for last in every for key in chosen(last, last.doubtful)} == rule.doubtful == {1}


def test_inserts_of_a_full_load_keep_neither_kind_nor_sequence() -> None:
    load: list[Change] = [(1, "I", ""), (2, "I", "")]
    assert set(of_file(load, 0, set()).events.column_names) == {"_key_0", FILE, ROW}
    since: list[Change] = [(1, "U", sequence(1, 1)), (3, "I", sequence(1, 2))]
    agree(last_changes(keyed(load, since), ["id"]), by_rule([load, since]))


def test_changes_with_equal_sequences_are_in_the_order_of_files_and_places() -> None:
    """Those without a sequence of their own by the time in the file's name, whatever its folder; others by path."""
    files: list[list[Change]] = [
        [(1, "U", MADE), (1, "U", MADE), (2, "D", MADE)],
        [(1, "U", MADE), (2, "U", MADE)],
    ]
    names = ["file:/lake/2026/03/02/20260302-100000000.csv", "file:/lake/2026/10/01/20260301-100000000.csv"]
    found = last_changes(keyed(*files, names=names), ["id"])
    assert (rows_of(found), chosen(found, found.has_row)) == ({1: (0, 1)}, {1})
    own = sequence(1, 1)
    repeated: list[list[Change]] = [[(1, "U", own)], [(1, "U", own)]]
    assert rows_of(last_changes(keyed(*repeated, names=names), ["id"])) == {1: (1, 0)}


def test_destinations_are_the_keys_to_which_values_moved() -> None:
    """A change that has all columns takes nothing with it."""
    files: list[Change] = [
        (2, "U", sequence(1, 1), 1),
        (3, "U", sequence(1, 2), 2),
        (5, "U", sequence(1, 3), 4),
        (7, "U", sequence(1, 4), 3),
        (8, "U", sequence(1, 5), 3),
    ]
    moves = gathered([files], lacking={(0, 0), (0, 1), (0, 2), (0, 4)}).partial_moves
    found = destinations(moves, ["id"], pa.table({"_key_0": [1]}))
    assert sorted(found["_key_0"].to_pylist()) == [1, 2, 3, 8]
    assert destinations(moves, ["id"], pa.table({"_key_0": [9]}))["_key_0"].to_pylist() == [9]
    assert destinations(moves, ["id"], found.slice(0, 0)).num_rows == 0
    assert destinations(gathered([files]).partial_moves, ["id"], found) is found


@pytest.mark.spark
def test_rows_are_those_of_the_marks(spark: SparkSession) -> None:
    files: list[list[Change]] = [
        [(n, "U", sequence(1, n + 1)) for n in range(200)],
        [(n, "D", sequence(1, n + 500)) for n in (1, 2)],
        [(n, "U", sequence(2, n + 1)) for n in (3, 64, 199)],
    ]
    events = keyed(*files)
    marks = RowMarks(events.addresses)
    marks.add(*last_changes(events, ["id"]).rows())
    read = [(events.addresses[number], row) for number, part in enumerate(files) for row in range(len(part))]
    rows = marks.chosen(spark.createDataFrame(read, "_file string, _row bigint"))
    places = by_rule(files).rows.values()
    assert {(row["_file"], row["_row"]) for row in rows.collect()} == {
        (events.addresses[file], row) for file, row in places
    }
    assert len(places) == 198
    every = np.array([(number, row) for number, part in enumerate(files) for row in range(len(part) + 9)])
    held = every[marks.of(every[:, 0], every[:, 1])]
    assert {tuple(row) for row in held.tolist()} == set(places)


def test_marks_of_no_file() -> None:
    marks, none = RowMarks([]), np.array([], np.int64)
    marks.add(none, none)
    assert marks.of(none, none).tolist() == []
