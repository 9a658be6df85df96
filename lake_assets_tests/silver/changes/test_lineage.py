"""Which row each change belongs to: swaps, chains, rows that a full load has read too late, and partial images.

Here: the rule alone. Not here: Spark (`test_key_moves.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from lake_assets.silver.changes.row_lineage import Place, Step, Undecidable, survivors

Change = tuple[str, int] | tuple[str, int, int]
"""Kind and key; of a move the old key and the new one. An upper-case `P` before a kind: an image that lacks columns."""


def steps(*transactions: Sequence[Change], repeats: bool = True) -> list[Step]:
    """The steps of changes, each change in a row of its own; the transactions' commits are 1, 2, …"""
    found, row = [], 0
    for number, changes in enumerate(transactions):
        for kind, *keys in changes:
            row += 1
            sequence = f"{number:016d}{row:019d}" if number else ""
            partial = kind.startswith("P")
            kinds = ["A", "M"] if kind.endswith("M") else [kind[-1]]
            for one, key in zip(kinds, keys, strict=True):
                found.append(
                    Step(key, one, sequence, "", "f", row, partial and one != "A", repeats and bool(number))
                )
    return found


def rows(found: dict[int, list[Place]]) -> dict[int, list[int]]:
    return {key: [row for _, _, row in places] for key, places in found.items()}


CASES: dict[str, tuple[list[list[Change]], dict[int, list[int]]]] = {
    # The first list is the full load, or the table; rows are numbered from 1 on.
    "a swap": ([[("I", 1), ("I", 2)], [("M", 1, 2), ("M", 2, 1)]], {2: [3], 1: [4]}),
    "a swap of three": (
        [[("I", 1), ("I", 2), ("I", 3)], [("M", 1, 2), ("M", 2, 3), ("M", 3, 1)]],
        {2: [4], 3: [5], 1: [6]},
    ),
    "every id plus one, from below": (
        [[("I", 1), ("I", 2), ("I", 3)], [("M", 1, 2), ("M", 2, 3), ("M", 3, 4)]],
        {2: [4], 3: [5], 4: [6]},
    ),
    "every id plus one, from above": (
        [[("I", 1), ("I", 2), ("I", 3)], [("M", 3, 4), ("M", 2, 3), ("M", 1, 2)]],
        {4: [4], 3: [5], 2: [6]},
    ),
    "a swap as deletes and inserts": (
        [[("I", 1), ("I", 2)], [("D", 1), ("I", 2), ("D", 2), ("I", 1)]],
        {2: [4], 1: [6]},
    ),
    "through a free key": ([[("I", 1)], [("M", 1, 9), ("M", 9, 5)]], {5: [3]}),
    "through a key and back": ([[("I", 1)], [("M", 1, 9), ("M", 9, 1)]], {1: [3]}),
    "a swap and back again": (
        [[("I", 1), ("I", 2)], [("M", 1, 2), ("M", 2, 1)], [("M", 1, 2), ("M", 2, 1)]],
        {2: [5], 1: [6]},
    ),
    "inserted and deleted in one transaction": ([[], [("I", 7), ("U", 7), ("D", 7)]], {}),
    "and inserted again": ([[], [("I", 7), ("U", 7), ("D", 7), ("I", 7)]], {7: [4]}),
    "what moved in is deleted in the next": (
        [[("I", 1), ("I", 2)], [("M", 1, 2), ("M", 2, 1)], [("D", 2)]],
        {1: [4]},
    ),
    # A full load that read rows as they were after changes that are still to come.
    "the load has the swap already": ([[("I", 2), ("I", 1)], [("M", 1, 2), ("M", 2, 1)]], {2: [3], 1: [4]}),
    "the load has a row that a later insert tells": (
        [[("I", 7)], [("I", 7), ("D", 7)], [("I", 7)]],
        {7: [4]},
    ),
    "the load has a row that a later move brings": (
        [[("I", 2)], [("I", 1), ("M", 1, 2), ("M", 2, 3)], [("I", 2)]],
        {3: [4], 2: [5]},
    ),
    "the load has a row that comes back after one that was updated and deleted": (
        [[("I", 7)], [("I", 7), ("U", 7), ("D", 7)], [("I", 7)]],
        {7: [5]},
    ),
    "the load has a row as a later update leaves it, inserted and updated in one commit": (
        [[("I", 3)], [("I", 3), ("PU", 3), ("U", 3), ("PU", 3)]],
        {3: [4, 5]},
    ),
    "an update of one of two rows that both are gone": (
        [[("I", 1), ("I", 2)], [("M", 1, 2), ("U", 2), ("D", 2), ("D", 2)]],
        {},
    ),
    "an update of a key that is not there": ([[], [("U", 1)]], {1: [1]}),
    "a delete of a key that is not there": ([[], [("D", 1)]], {}),
    "a part of the columns": ([[("I", 1)], [("PU", 1)], [("PU", 1)]], {1: [1, 2, 3]}),
    "all columns after a part of them": ([[("I", 1)], [("PU", 1)], [("U", 1)], [("PU", 1)]], {1: [3, 4]}),
    "a part of the columns, on the move": (
        [[("I", 1)], [("PM", 1, 2)], [("PU", 2)], [("PM", 2, 3)]],
        {3: [1, 2, 3, 4]},
    ),
    "a swap with a part of the columns": (
        [[("I", 1), ("I", 2)], [("PM", 1, 2), ("PM", 2, 1)]],
        {2: [1, 3], 1: [2, 4]},
    ),
}


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_survivors(case: str, repeated: bool) -> None:
    """In any order of arrival, and when changes with sequences of their own come twice."""
    transactions, expected = CASES[case]
    told = steps(*transactions)
    if repeated:
        told += [Step(s.key, s.kind, s.sequence, "", "g", s.row, s.partial, True) for s in told if s.repeats]
    Random(case).shuffle(told)
    assert rows(survivors(told)) == expected


@pytest.mark.parametrize(
    ("transactions", "reason"),
    [
        ([[("I", 1), ("I", 2)], [("M", 1, 2), ("U", 2), ("M", 2, 1)]], "which of several rows"),
        ([[], [("PU", 1)]], "lacks columns"),
        ([[("I", 2)], [("PM", 1, 2)], [("D", 3)]], "lacks columns"),
    ],
)
def test_what_cannot_be_told_is_not_guessed(transactions: list[list[Change]], reason: str) -> None:
    with pytest.raises(Undecidable, match=reason):
        survivors(steps(*transactions))


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("update", [False, True])
def test_a_row_that_the_load_has_read_is_no_second_row(update: bool, loaded: bool) -> None:
    """Inserted, perhaps updated, read by the load, and deleted, with one time: the load has its last image."""
    changes: list[Change] = [("I", 1), *([("U", 1)] if update else []), ("D", 1)]
    found = steps([("I", 1)], changes)
    last = len(changes) - 1
    found[last] = replace(found[last], loaded=loaded)
    if loaded:
        assert survivors(found) == {}
    elif update:
        with pytest.raises(Undecidable, match="which of several rows"):
            survivors(found)
    else:
        assert rows(survivors(found)) == {1: [2]}


def test_an_insert_after_the_row_that_the_load_has_read_is_deleted_stays() -> None:
    found = steps([("I", 1)], [("I", 1), ("D", 1), ("I", 1)])
    found[1] = replace(found[1], loaded=True)
    assert rows(survivors(found)) == {1: [4]}


def kept(found: Sequence[Step], *, may_stay_null: bool = True) -> list[Step]:
    """The steps, with partial images that lack only columns of `kept_when_null`."""
    return [replace(step, kept=step.partial, may_stay_null=step.partial and may_stay_null) for step in found]


@pytest.mark.parametrize("may_stay_null", [False, True])
def test_a_row_that_moved_while_the_load_ran_has_the_values_that_the_load_has_read(
    may_stay_null: bool,
) -> None:
    """Unless another row had the key then, and left it in the same transaction."""
    moved = kept(steps([("I", 2)], [("PM", 1, 2)], [("PU", 2)]), may_stay_null=may_stay_null)
    assert rows(survivors(moved)) == {2: [1, 2, 3]}
    swapped = kept(steps([("I", 2)], [("PM", 1, 2), ("M", 2, 3)]), may_stay_null=may_stay_null)
    if may_stay_null:
        assert rows(survivors(swapped)) == {2: [2], 3: [3]}
    else:
        with pytest.raises(Undecidable, match="lacks columns"):
            survivors(swapped)


def test_a_partial_image_of_an_unknown_row() -> None:
    told = steps([], [("PU", 1)])
    with pytest.raises(Undecidable, match="lacks columns"):
        survivors(told)
    assert rows(survivors(kept(told))) == {1: [1]}


def test_a_row_that_is_updated_again_and_again_is_followed_in_little_memory() -> None:
    """Of the updates that lack the same columns, the last one counts."""
    told = steps([("I", 1)], *([("PU", 1)] for _ in range(2_000)))
    lacking = [frozenset({"a", "b"}), frozenset({"a", "b"}), frozenset({"a"})]
    told = [replace(step, lacks=lacking[step.row % 3] if step.partial else frozenset()) for step in told]
    assert rows(survivors(told)) == {1: [1, 2000, 2001]}
