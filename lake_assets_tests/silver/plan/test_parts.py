"""Which record of the log decides which rows of a file: tables of cases.

Here: the decision. Not here: what it does to a table (`test_asked_again.py`).
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.quarantine.quarantine_log import Quarantined, State
from lake_assets.silver.plan.parts import Requested, parts_of
from lake_assets_tests.helpers.files.dms_files import NOON
from lake_assets_tests.helpers.files.records import logged


def record(offset: int, *, retry: bool = False, key: str = "a.csv") -> LoggedFile:
    return logged(offset, key, version="1", minute=offset, rows=10, retry=retry)


def asked(row: int | None, before: int, state: State = State.RETRIED, key: str = "a.csv") -> Requested:
    """Requested for just before the record with that offset was logged."""
    at = NOON + timedelta(minutes=before, seconds=-1)
    held = Quarantined(
        silver_table="silver_shop.items",
        source="shop",
        table="public.items",
        key=key,
        version="1",
        log_offset=1,
        row=row,
        line=None,
        raw=None,
        reason="bad",
        batch="",
        state=state,
        at=at,
    )
    return Requested(held, at)


def read(files: Collection[LoggedFile], *what: Requested) -> list[tuple[int, set[int] | None, set[int], int]]:
    """By record: the places that alone are read, those that are not, and the number of rows."""
    return [
        (part.file.offset, None if part.only is None else set(part.only), set(part.without), part.rows)
        for part in parts_of([*files], what)
    ]


CONTENT, FIRST, SECOND = record(1), record(5, retry=True), record(9, retry=True)


def test_the_content_in_an_earlier_batch() -> None:
    assert read([FIRST], asked(2, 5), asked(3, 5)) == [(5, {2, 3}, set(), 2)]
    assert read([FIRST], asked(2, 5, State.RELEASED)) == [], "it was applied already"
    assert read([FIRST], asked(2, 9)) == [], "that is the turn of a later record"
    assert read([FIRST], asked(2, 5, key="b.csv")) == []
    assert read([FIRST, SECOND], asked(2, 5), asked(3, 9)) == [(5, {2}, set(), 1), (9, {3}, set(), 1)]


def test_the_content_among_the_files() -> None:
    assert read([CONTENT]) == [(1, None, set(), 10)]
    for state in (State.RETRIED, State.RELEASED):
        expected = [(1, None, {2}, 9), (5, {2}, set(), 1)]
        assert read([CONTENT, FIRST], asked(2, 5, state), asked(3, 9)) == expected
    assert read([CONTENT, FIRST, SECOND], asked(2, 9)) == [(1, None, {2}, 9), (9, {2}, set(), 1)]


def test_a_whole_file() -> None:
    assert read([FIRST], asked(None, 5)) == [(5, None, set(), 10)]
    assert read([CONTENT, FIRST], asked(None, 5, State.RELEASED)) == [(5, None, set(), 10)]
    expected = [(5, None, {2}, 9), (9, {2}, set(), 1)]
    assert read([CONTENT, FIRST, SECOND], asked(2, 9), asked(None, 5, State.RELEASED)) == expected


def test_places_of_a_file_of_which_a_reload_supersedes_some_rows() -> None:
    less = replace(CONTENT, partitions=("items_b",), rows=None)
    assert read([less, FIRST], asked(2, 5)) == [(1, None, set(), 0), (5, {2}, set(), 1)]
