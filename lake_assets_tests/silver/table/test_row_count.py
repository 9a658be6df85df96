"""The equations of the row count, each broken by one row."""

from dataclasses import replace

import pytest

from lake_assets.silver.table.row_count import LiveRows, RowCounts, live_rows_problem, row_count_problem

CURRENT = RowCounts(
    counted_in_files=5,
    read=5,
    used=4,
    quarantined=1,
    keys=3,
    written=2,
    added=2,
    removed=3,
    before=10,
    after=9,
)
"""Four changes of three keys, one of which is deleted."""
HISTORY = replace(CURRENT, written=6, added=6, removed=3, after=13, replaced=3, versions=7)
"""The same, whose three open versions are closed, and followed by three others."""


@pytest.mark.parametrize("counts", [CURRENT, HISTORY])
def test_what_adds_up(counts: RowCounts) -> None:
    assert row_count_problem(counts, replaces=False) is None
    loaded = replace(CURRENT, removed=10, after=2)
    assert row_count_problem(loaded, replaces=True) is None


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        (replace(CURRENT, read=6), "the reader saw 6"),
        (replace(CURRENT, used=5), "5 used and 1 quarantined"),
        (replace(CURRENT, keys=9), "9 keys changed, but only 4 rows were used"),
        (replace(CURRENT, written=4, added=4, after=11), "4 rows were written, but only 3 keys changed"),
        (replace(CURRENT, added=1), "Iceberg counts 1 added"),
        (replace(CURRENT, removed=4, after=8), "some key was there twice"),
        (replace(CURRENT, after=10), "9 expected, 10 found"),
        (replace(HISTORY, written=8, added=8, after=15), "8 rows were written, but only 7 row images exist"),
        (replace(HISTORY, removed=2, after=14), "3 rows were to be removed, but Iceberg counts 2"),
        (replace(HISTORY, removed=4, after=12), "3 rows were to be removed, but Iceberg counts 4"),
        (replace(HISTORY, after=12), "13 expected, 12 found"),
    ],
)
def test_what_does_not(counts: RowCounts, problem: str) -> None:
    assert problem in str(row_count_problem(counts, replaces=False))


def test_a_table_that_is_replaced_has_what_was_written() -> None:
    loaded = replace(CURRENT, removed=10, after=3)
    assert "2 rows were to replace the table, and it now holds 3" in str(
        row_count_problem(loaded, replaces=True)
    )


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (LiveRows(committed=5, by_summary=5, by_files=5), None),
        (LiveRows(committed=None, by_summary=0, by_files=0), None),
        (LiveRows(committed=None, by_summary=5, by_files=5), None),
        (LiveRows(committed=5, by_summary=5, by_files=4), "newest snapshot: 5, by its files: 4"),
        (LiveRows(committed=5, by_summary=6, by_files=6), "newest batch: 5, now: 6"),
        (LiveRows(committed=5, by_summary=5, by_files=5, equality_deletes=1), "equality deletes (1)"),
    ],
)
def test_a_table_as_it_is(rows: LiveRows, problem: str | None) -> None:
    found = live_rows_problem(rows)
    assert found is None if problem is None else problem in str(found)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (LiveRows(committed=5, by_summary=6, by_files=6), None),
        (LiveRows(committed=5, by_summary=5, by_files=5, equality_deletes=1), None),
        (LiveRows(committed=5, by_summary=6, by_files=5), "newest snapshot: 6, by its files: 5"),
    ],
)
def test_a_table_to_which_others_may_write(rows: LiveRows, problem: str | None) -> None:
    found = live_rows_problem(rows, others_may_write=True)
    assert found is None if problem is None else problem in str(found)
