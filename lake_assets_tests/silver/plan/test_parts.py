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


BOTH, ONE = "items_a\nitems_b", "items_b"
PLACE = ("a.csv", "1")


def in_transactions(*names: str) -> tuple[LoggedFile, LoggedFile]:
    """The content of a transaction file with rows of these names, and a request for rows of it."""
    found = (replace(file, format="transactions", partitions=names) for file in (CONTENT, FIRST))
    content, request = found
    return content, request


def among(names: str | None, row: int | None = 2) -> Requested:
    """A requested row whose place counts among the rows of these names."""
    one = asked(row, 5)
    return Requested(replace(one.held, counted_among=names), one.at)


def test_places_in_a_transaction_file_of_which_the_table_has_other_rows_now() -> None:
    """After a reload of one partition, or with other globs, the place is another row's."""
    content, request = in_transactions("items_a", "items_b")
    less = replace(content, partitions=("items_b",), rows=None)
    assert read([content, request], among(BOTH)) == [(1, None, {2}, 9), (5, {2}, set(), 1)]
    assert read([less, request], among(BOTH)) == [(1, None, set(), 0)]
    assert read([content, request], among(ONE)) == [(1, None, set(), 10)]
    part = parts_of([less, request], [among(ONE)])[-1]
    assert (part.only, part.file.offset, part.file.names) == (frozenset({2}), 5, frozenset({"items_b"}))
    assert read([less, request], among(None)) == [(1, None, {2}, -1), (5, {2}, set(), 1)], (
        "of an earlier release"
    )


def test_requests_of_different_names_for_a_file_of_an_earlier_batch() -> None:
    """A run that was killed before it superseded the former entries leaves both open."""
    _, request = in_transactions("items_a", "items_b")
    for today, names in ((BOTH, {"items_a", "items_b"}), (ONE, {"items_b"})):
        former = among(ONE if today == BOTH else BOTH, row=1)
        (part,) = parts_of([request], [former, among(today)], {PLACE: today})
        assert (part.only, part.file.names) == (frozenset({2}), frozenset(names))
        assert part.requested == (among(today).held,)
        assert parts_of([request], [former], {PLACE: today}) == []


def test_a_whole_transaction_file_with_other_globs() -> None:
    content, request = in_transactions("items", "items_b")
    request = replace(request, partitions=())
    for files in ([content, request], [request]):
        (part,) = parts_of(files, [asked(None, 5)], {PLACE: "items\nitems_b"})
        assert (part.file.offset, part.file.names, part.file.rows) == (
            5,
            frozenset({"items", "items_b"}),
            None,
        )


def test_a_whole_file_and_a_row_of_it_by_one_request() -> None:
    """The file is read whole: the row is one of its rows."""
    (part,) = parts_of([FIRST], [asked(None, 5), asked(2, 5)])
    assert (part.file.offset, part.only) == (5, None)
