"""The last change of each key of a large batch, found from keys, operations and sequences.

Here: random batches against the rule in plain Python, and what makes Spark compute the changes first. Not here: tables
that are written so (`silver/write/test_foreseen.py`).
"""

import random
from collections import defaultdict
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.decode.dms_columns import OLD_KEY, OPERATION, SEQUENCE
from lake_assets.silver.changes.last_changes import LastChanges, last_changes

Change = tuple[Any, str, str] | tuple[Any, str, str, Any]
"""Key, operation, sequence, and of an update that moves its key the old one."""


def sequence(second: int, number: int) -> str:
    """Of the number-th change of a transaction."""
    return f"202603011200{second:04d}{number:019d}"


def files_of(*files: list[Change]) -> dict[str, pa.Table]:
    found = {}
    for number, changes in enumerate(files):
        columns = {"_key_0": [key for key, *_ in changes], OPERATION: [op for _, op, *_ in changes]}
        columns[SEQUENCE] = [s for _, _, s, *_ in changes]
        old = [
            before[0] if before else None for *_, before in ((*change[:3], change[3:]) for change in changes)
        ]
        if any(key is not None for key in old):
            columns[OLD_KEY.format(place=0)] = old
        found[f"file:///lake/{number}.parquet"] = pa.table(columns)
    return found


def found_in(*files: list[Change]) -> LastChanges | None:
    return last_changes(files_of(*files), ["id"], has_range=isinstance(files[0][0][0], int))


def by_rule(files: list[list[Change]]) -> tuple[set[tuple[int, int]], dict[str, Any], bool, list[Any]]:
    """The places of the rows that the keys have in the end, the figures, whether the rule needs the rows, and the keys
    that came and went within one transaction."""
    of_key: dict[Any, list[tuple[str, str, tuple[int, int]]]] = defaultdict(list)
    for number, changes in enumerate(files):
        for row, (key, op, when, *old) in enumerate(changes):
            of_key[key].append((when, "here" if old else op, (number, row)))
            if old:
                of_key[old[0]].append((when, "away", (number, row)))
    places, figures, needs_rows = set(), {"keys": 0, "rows": 0, "present": 0, "updated": 0}, False
    passing = []
    for key, changes_of_key in of_key.items():
        ordered = sorted(changes_of_key)
        (_, first, _), (when, last, place) = ordered[0], ordered[-1]
        if last not in ("D", "away"):
            places.add(place)
        figures["keys"] += 1
        figures["rows"] += last not in ("D", "away")
        figures["present"] += first not in ("I", "here")
        figures["updated"] += first == "U" and last not in ("D", "away")
        arrived = max((at for at, op, _ in ordered if op in ("I", "here")), default="")
        operations = [op for _, op, _ in ordered]
        arrivals = sum(op in ("I", "here") for op in operations)
        is_balanced = arrivals == sum(op in ("D", "away") for op in operations)
        passes = is_balanced and first in ("I", "here") and ordered[0][0][:16] == when[:16]
        if last in ("D", "away") and arrived[:16] == when[:16]:
            passing += [key] if passes else []
            needs_rows |= not passes
        needs_rows |= len({at for at, *_ in ordered}) < len(ordered)
    return places, figures, needs_rows, passing


def places_of(found: LastChanges) -> set[tuple[int, int]]:
    marks, places = list(found.is_row), set()
    for number, rows in enumerate(found.files.values()):
        places |= {(number, row) for row in range(rows) if marks[row]}
        marks = marks[rows:]
    return places


def moved(change: Change, old: Any, chance: random.Random) -> Change:
    """Perhaps with an old key, if it is an update."""
    is_moved = change[1] == "U" and old != change[0] and chance.random() < 0.3
    return (*change[:3], old) if is_moved else change


@pytest.mark.parametrize("seed", range(120))
def test_random_batches_follow_the_rule(seed: int) -> None:
    chance = random.Random(seed)
    keys = range(-5, chance.choice([3, 40, 400]))
    key = (lambda: chance.choice(keys)) if seed % 2 else (lambda: f"key {chance.choice(keys)}")
    moments = [(second, number) for second in range(60) for number in range(1, 5)]
    drawn = chance.sample(moments, 120)
    if seed % 5 == 0:
        drawn.append(drawn[0])
    changes: list[Change] = [(key(), chance.choice("IUUD"), sequence(*moment)) for moment in drawn]
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
    files = [changes[:cut], changes[cut:]]
    places, figures, needs_rows, passing = by_rule(files)
    found = found_in(*files)
    if needs_rows or (passing and not seed % 2):
        assert found is None
        return
    assert found is not None
    assert places_of(found) == places
    assert found.if_new == ((min(passing), max(passing)) if passing else None)
    assert {name: getattr(found.counts, name) for name in figures} == figures
    ends = (found.counts.lowest, found.counts.highest)
    every = [key for change in changes for key in (change[0], *change[3:])]
    numbers = [key for key in every if isinstance(key, int)]
    assert sorted(found.keys["_key_0"].to_pylist()) == sorted(set(every))
    assert ends == ((min(numbers), max(numbers)) if numbers else (None, None))


def test_some_random_batches_need_no_rows_and_some_do() -> None:
    """So that the test above tests both."""
    assert found_in([(1, "U", sequence(1, 1)), (1, "D", sequence(2, 1))]) is not None
    assert found_in([(1, "U", sequence(1, 1)), (1, "I", sequence(1, 2)), (1, "D", sequence(1, 3))]) is None
    passing = found_in([(1, "I", sequence(1, 1)), (1, "D", sequence(1, 2)), (2, "U", sequence(1, 3))])
    assert passing is not None
    assert passing.if_new == (1, 1)
    assert found_in([("1", "I", sequence(1, 1)), ("1", "D", sequence(1, 2))]) is None
    twice: list[Change] = [(1, "I", sequence(1, 1)), (1, "I", sequence(1, 2)), (1, "D", sequence(1, 3))]
    assert found_in(twice) is None
    assert found_in([(1, "I", sequence(1, 1)), (1, "D", sequence(2, 1))]) is not None
    assert found_in([(1, "U", sequence(1, 1)), (1, "U", sequence(1, 1))]) is None
    assert found_in([(1, "U", sequence(1, 1)), (2, "U", sequence(1, 1))]) is not None
    passing = found_in([(2, "U", sequence(1, 1), 1), (3, "U", sequence(1, 2), 2)])
    assert passing is not None
    assert passing.if_new == (2, 2)
    assert found_in([(2, "U", sequence(1, 1), 1), (3, "U", sequence(2, 1), 2)]) is not None


@pytest.mark.parametrize("low", [2**63 - 1, -(2**63)])
def test_the_ends_of_whole_numbers_are_keys_like_others(low: int) -> None:
    found = found_in([(low, "U", sequence(1, 1)), (0, "U", sequence(1, 2)), (low, "U", sequence(1, 3))])
    assert found is not None
    assert (places_of(found), found.counts.keys) == ({(0, 1), (0, 2)}, 2)


def test_keys_of_several_columns_are_not_mixed_up() -> None:
    rows = [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("a", 1)]
    columns = {"_key_0": [x for x, _ in rows], "_key_1": [y for _, y in rows], OPERATION: ["U"] * 5}
    table = pa.table(columns | {SEQUENCE: [sequence(1, number + 1) for number in range(5)]})
    found = last_changes({"file:///a.parquet": table}, ["x", "y"], has_range=False)
    assert found is not None
    assert places_of(found) == {(0, 1), (0, 2), (0, 3), (0, 4)}


def test_a_path_that_spark_writes_otherwise_is_left_to_spark() -> None:
    (table,) = files_of([(1, "U", sequence(1, 1))]).values()
    assert last_changes({"file:///a b.parquet": table}, ["id"], has_range=True) is None
    assert last_changes({"file:///a=b.parquet": table}, ["id"], has_range=True) is not None


@pytest.mark.spark
def test_rows_are_those_of_the_marks(spark: SparkSession) -> None:
    files: list[list[Change]] = [
        [(n, "U", sequence(1, n + 1)) for n in range(200)],
        [(n, "U", sequence(2, n + 1)) for n in (3, 64, 199)],
    ]
    found = found_in(*files)
    assert found is not None
    read = [
        (f"file:/lake/{number}.parquet", row) for number, part in enumerate(files) for row in range(len(part))
    ]
    rows = found.marked(spark.createDataFrame(read, "_file string, _row bigint"), found.is_row).filter(
        "_marked"
    )
    expected = [place for place in read if place not in [(read[0][0], row) for row in (3, 64, 199)]]
    assert sorted((row["_file"], row["_row"]) for row in rows.collect()) == sorted(expected)
