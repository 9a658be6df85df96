"""Which row each change belongs to: swaps, chains, rows that a full load has read too late, and partial images.

Here: the rule alone. Not here: Spark (`test_key_moves.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from lake_assets.silver.reduce.current.row_lineage import Place, Step, Undecidable, survivors, whole_images
from lake_assets.silver.table.change_events import EARLIER

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
                    Step(
                        key,
                        one,
                        sequence,
                        "",
                        "f",
                        row,
                        partial and one != "A",
                        repeats and bool(number),
                        required=frozenset("x" if partial and one != "A" else ""),
                    )
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
        told += [replace(step, file="g") for step in told if step.repeats]
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
    return [
        replace(step, kept=step.partial, required=frozenset() if may_stay_null else step.required)
        for step in found
    ]


@pytest.mark.parametrize("may_stay_null", [False, True])
def test_a_row_that_moved_while_the_load_ran_has_the_values_that_the_load_has_read(
    may_stay_null: bool,
) -> None:
    """Unless another row had the key then, and left it in the same transaction."""
    moved = kept(steps([("I", 2)], [("PM", 1, 2)], [("PU", 2)]), may_stay_null=may_stay_null)
    assert rows(survivors(moved)) == {2: [1, 2, 3]}
    assert [[step[2] for step in places] for places in whole_images(moved).values()] == [[1, 2], [1, 2, 3]]
    swapped = kept(steps([("I", 2)], [("PM", 1, 2), ("M", 2, 3)]), may_stay_null=may_stay_null)
    if may_stay_null:
        assert rows(survivors(swapped)) == {2: [2], 3: [3]}
    else:
        with pytest.raises(Undecidable, match="lacks columns"):
            survivors(swapped)


@pytest.mark.parametrize("former", [[], [("D", 2)]])
def test_a_row_whose_values_were_not_supplied_when_it_moved_while_the_load_ran(former: list[Change]) -> None:
    """`csv_no_sup_value` marks any column, not only those of `kept_when_null`."""
    moved = steps([("I", 2)], former, [("PM", 1, 2)], [("PU", 2)])
    moved = [replace(s, in_load=bool(s.sequence), loaded=s.kind == "M") for s in moved]
    first, *_, last, latest = (step.row for step in moved)
    assert rows(survivors(moved)) == {2: [first, last, latest]}


def test_a_row_that_moved_from_a_key_whose_next_row_the_load_has_read_too() -> None:
    """The load has read both rows after they had moved."""
    told = kept(steps([("I", 1), ("I", 2)], [("PM", 1, 2), ("PM", 3, 1)]), may_stay_null=False)
    told = [replace(s, in_load=bool(s.sequence), loaded=bool(s.sequence) and s.kind == "M") for s in told]
    assert rows(survivors(told)) == {2: [2, 3], 1: [1, 4]}
    assert [[step[2] for step in places] for places in whole_images(told).values()] == [[2, 3], [1, 4]]


def test_a_row_that_the_load_has_read_after_its_last_update_in_a_transaction() -> None:
    """The update before, which might have been of another row, is of this one. Under its former key it is not known."""
    told = kept(steps([("I", 2)], [("PM", 3, 4)], [("PM", 4, 2), ("U", 2), ("PU", 2)]), may_stay_null=False)
    told = [replace(s, in_load=bool(s.sequence), loaded=s.row == 5) for s in told]
    assert rows(survivors(told)) == {2: [4, 5]}
    found = {row: [place[2] for place in places] for (_, _, row), places in whole_images(told).items()}
    assert found.keys() == {3, 5}
    assert found[3][0] == 1


def test_a_row_whose_later_update_shows_that_the_load_has_read_it() -> None:
    """The row moved to a key whose former row was deleted, and had another value then."""
    told = kept(steps([("I", 1)], [("D", 1)], [("PM", 7, 1)], [("PU", 1)]), may_stay_null=False)
    told = [
        replace(s, in_load=bool(s.sequence), loaded=s.row == 4, lacks=frozenset("x" if s.partial else ""))
        for s in told
    ]
    assert rows(survivors(told)) == {1: [1, 3, 4]}
    # An update that lacks the other value, too, does not show it.
    told = [replace(s, lacks=s.lacks | {"v"} if s.row == 4 else s.lacks) for s in told]
    with pytest.raises(Undecidable, match="lacks columns"):
        survivors(told)


SHIFTED: dict[str, tuple[list[Change], list[list[Change]], dict[int, list[int]]]] = {
    # The rows that the load has, the changes before it read them, and the sources of each row.
    "a row of its own": ([("I", 2)], [[("PM", 1, 2)]], {2: [1, 2]}),
    "every id plus one": (
        [("I", 2), ("I", 3), ("I", 4)],
        [[("PM", 1, 2), ("PM", 2, 3), ("PM", 3, 4)]],
        {2: [1, 4], 3: [2, 5], 4: [3, 6]},
    ),
    "one after the other": (
        [("I", 2), ("I", 3), ("I", 4)],
        [[("PM", 3, 4)], [("PM", 2, 3)], [("PM", 1, 2)]],
        {2: [1, 6], 3: [2, 5], 4: [3, 4]},
    ),
    "to the key of a deleted row, whose own key is taken again": (
        [("I", 0), ("I", 1)],
        [[("D", 1)], [("PM", 0, 1)], [("I", 0)]],
        {0: [5], 1: [2, 4]},
    ),
    # Here nothing shows that the load has read the row after it had moved.
    "to the key of a deleted row": ([("I", 0), ("I", 1)], [[("D", 1)], [("PM", 0, 1)]], {1: [1, 4]}),
}


@pytest.mark.parametrize("case", SHIFTED)
def test_rows_that_the_load_has_read_after_they_had_moved_to_keys_of_each_other(case: str) -> None:
    loaded, changes, expected = SHIFTED[case]
    told = kept(steps(loaded, *changes), may_stay_null=False)
    told = [replace(s, in_load=bool(s.sequence), loaded=bool(s.sequence) and s.kind in "IM") for s in told]
    Random(case).shuffle(told)
    assert rows(survivors(told)) == expected


def test_a_row_that_moves_on_after_an_update_that_may_be_of_another_row() -> None:
    """The load has read it at its last key. What it showed on its way there is newer than that update."""
    changes: list[Change] = [("PM", 5, 1), ("PU", 1), ("PM", 1, 2)]
    told = kept(steps([("I", 1), ("I", 2)], changes, [("I", 1)]))
    told = [replace(s, in_load=bool(s.sequence), lacks=frozenset("x" if s.partial else "")) for s in told]
    assert rows(survivors(told)) == {1: [6], 2: [2, 5]}


def test_a_partial_image_of_an_unknown_row() -> None:
    told = steps([], [("PU", 1)])
    with pytest.raises(Undecidable, match="lacks columns"):
        survivors(told)
    assert rows(survivors(kept(told))) == {1: [1]}
    gone = steps([], [("PU", 1)], [("D", 1)])
    assert survivors(gone) == {}
    with pytest.raises(Undecidable, match="lacks columns"):
        whole_images(gone)
    assert list(whole_images(kept(gone)).values()) == [[gone[0].place]]
    assert whole_images([replace(step, in_load=True) for step in gone]) == {}
    assert whole_images([replace(step, phase=EARLIER) for step in gone]) == {}
    # The next update has what the first lacks.
    both = [
        replace(step, required=frozenset(name))
        for step, name in zip(steps([], [("PU", 1)], [("PU", 1)]), "ab", strict=True)
    ]
    assert rows(survivors(both)) == {1: [1, 2]}


@pytest.mark.parametrize("repeated", [False, True])
def test_every_partial_image_is_known_at_its_time(repeated: bool) -> None:
    told = steps(
        [("I", 1), ("I", 2)],
        [("PU", 1), ("PM", 1, 9)],
        [("PU", 9), ("U", 9), ("PU", 9)],
        [("PM", 2, 1), ("D", 1)],
        [("I", 1), ("PU", 1)],
    )
    if repeated:
        told += [replace(step, file="g") for step in told if step.repeats]
    Random(1).shuffle(told)
    found = {row: [place[2] for place in places] for (_, file, row), places in whole_images(told).items()}
    assert found == {3: [1, 3], 4: [1, 3, 4], 5: [1, 3, 4, 5], 7: [6, 7], 8: [2, 8], 11: [10, 11]}
    assert len(whole_images(told)) == len(found) * (1 + repeated)


def test_a_move_that_comes_again_without_a_sequence() -> None:
    """It follows the first one in the same transaction, when its old key has no row any more."""
    told = steps([("I", 1)], [("PM", 1, 2)], [("PU", 2)], repeats=False)
    told += [replace(step, file="g", flushed="2") for step in told if step.kind in "AM"]
    assert [step[1:] for step in survivors(told)[2]] == [("f", 1), ("f", 2), ("g", 2), ("f", 3)]
    assert len(whole_images(told)) == 3


def test_a_row_that_the_next_full_load_may_not_have() -> None:
    """It keeps its values until it is deleted, unless the load has read it: then its values count."""
    told = steps([("I", 1), ("I", 2), ("I", 3)], [("D", 1), ("D", 2), ("D", 3)], [("I", 2), ("I", 4)])
    known, ends, loaded = told[:3], told[3:6], told[6:]
    ends = [replace(step, sequence="", phase=1, vanishes=True, file="e") for step in ends]
    loaded = [replace(step, sequence="", phase=2, file="load", repeats=False) for step in loaded]
    changes = steps([], [("PU", 1), ("PU", 2)], [("PM", 3, 4)], [("D", 1)], [("I", 1)], [("PU", 1)])
    changes = kept([replace(step, phase=2, in_load=True) for step in changes], may_stay_null=False)
    found = whole_images([*known, *ends, *loaded, *changes])
    sources = [[(file, row) for _, file, row in places] for places in found.values()]
    own, load = "f", "load"
    assert sources == [
        [(own, 1), (own, 1)],
        [(load, 7), (own, 2)],
        [(load, 8), (own, 3)],
        [(own, 5), (own, 6)],
    ]


def test_a_row_that_is_updated_again_and_again_is_followed_in_little_memory() -> None:
    """Of the updates that lack the same columns, the last one counts."""
    told = steps([("I", 1)], *([("PU", 1)] for _ in range(2_000)))
    lacking = [frozenset({"a", "b"}), frozenset({"a", "b"}), frozenset({"a"})]
    told = [replace(step, lacks=lacking[step.row % 3] if step.partial else frozenset()) for step in told]
    assert rows(survivors(told)) == {1: [1, 2000, 2001]}
    assert max(map(len, whole_images(told).values())) == 3
