"""Which days a stretch of silver commits concerns, as tables of cases over summaries written by hand.

Not here: summaries that real commits carry, and what is computed for the days (`test_incremental.py`).
"""

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.gold.changed_days import (
    Changed,
    Commit,
    changed_days,
    days_between,
    format_days,
    gap_to,
    hull,
    parse_days,
    span,
    spread_onwards,
    stretches,
)
from lake_assets.gold.mart import Follow, Input

STARTED = Input("shop", "trips", Follow.DAY, "started_at")
ONWARDS = Input("shop", "status_changes", Follow.DAY_ONWARDS, "_commit_ts")
DIMENSION = Input("shop", "stations")
EVERY = Changed(every=True)
NONE = Changed()

Summary = dict[str, str]


def day(number: int, month: int = 3) -> date:
    return date(2024, month, number)


def on(*numbers: int) -> Changed:
    return Changed(frozenset(day(number) for number in numbers))


def partitions(*values: str, column: str = "started_at", **summary: str) -> Summary:
    """A summary whose rows lie in these partitions; it adds rows unless told otherwise."""
    summary = {name.replace("_", "-"): value for name, value in summary.items()} or {"added-records": "1"}
    entries = {f"partitions.{column}_day={value}": "added-data-files=1" for value in values}
    return {"partition-summaries-included": "true", **summary, **entries}


def stamp(touched: str | None = None, **summary: str) -> Summary:
    """The last commit of a batch, with the days of the column that it was told of."""
    named = {} if touched is None else {"lake.touched-days.started_at": touched}
    return {"lake.log-offset": "7", **{n.replace("_", "-"): v for n, v in summary.items()}, **named}


BY_PARTITION = {
    "appended to two days": ([("append", partitions("2024-03-04", "2024-03-15"))], on(4, 15)),
    "delete and append of one batch": (
        [
            ("delete", partitions("2024-03-04", "2024-03-06", added_position_deletes="2")),
            ("append", partitions("2024-03-15", added_records="1")),
        ],
        on(4, 6, 15),
    ),
    "a whole file dropped": ([("delete", partitions("2024-03-06", deleted_records="9"))], on(6)),
    "an equality delete of another writer": (
        [("delete", partitions("2024-03-06", added_equality_deletes="1"))],
        on(6),
    ),
    "replaced by a full load": (
        [("overwrite", partitions("2024-03-01", "2024-03-02", added_records="5", deleted_records="4"))],
        on(1, 2),
    ),
    "rewritten by maintenance": (
        [("replace", partitions("2024-03-04", added_records="5", deleted_records="5"))],
        NONE,
    ),
    "maintenance between two batches": (
        [
            ("append", partitions("2024-03-04")),
            ("replace", partitions("2024-03-09", added_records="5", deleted_records="5")),
            ("append", partitions("2024-03-05")),
        ],
        on(4, 5),
    ),
    "only the position moved": ([("append", stamp(added_records="0"))], NONE),
    "more partitions than a summary names": ([("append", {"added-records": "9000"})], EVERY),
    "one of several commits does not name its days": (
        [("append", partitions("2024-03-04")), ("append", {"added-records": "9"})],
        Changed(frozenset({day(4)}), every=True),
    ),
    "rows without a day": ([("append", partitions("null"))], NONE),
    "rows with and without a day": ([("append", partitions("null", "2024-03-04"))], on(4)),
    "the day is one of several partition fields": (
        [("append", {"added-records": "1", "partitions.region=a%2Fb/started_at_day=2024-03-04/kind=x": ""})],
        on(4),
    ),
    "a file of an older partitioning": (
        [("delete", partitions("2024-03-04", deleted_records="2") | {"partitions.region=north": ""})],
        EVERY,
    ),
    "the day of another column": ([("append", partitions("2024-03-04", column="ended_at"))], EVERY),
    "nothing at all": ([], NONE),
}


@pytest.mark.parametrize("name", BY_PARTITION)
def test_days_of_a_table_partitioned_by_them(name: str) -> None:
    commits, expected = BY_PARTITION[name]
    stretch = [Commit(operation, summary) for operation, summary in commits]
    assert changed_days(STARTED, stretch, by_partition=True) == expected


BY_BATCH = {
    "old and new days of one batch": (
        [
            ("delete", {"added-position-deletes": "2"}),
            ("append", stamp("2024-03-04,2024-03-15", added_records="1")),
        ],
        on(4, 15),
    ),
    "the last rows of a day deleted": (
        [("delete", {"added-position-deletes": "1"}), ("append", stamp("2024-03-04", added_records="0"))],
        on(4),
    ),
    "a range of days": ([("append", stamp("2024-03-04..2024-03-06", added_records="1"))], on(4, 5, 6)),
    "two batches": (
        [
            ("append", stamp("2024-03-04", added_records="1")),
            ("append", stamp("2024-03-09", added_records="1")),
        ],
        on(4, 9),
    ),
    "a full load": (
        [("overwrite", {"added-records": "5"}), ("append", stamp("all", added_records="0"))],
        EVERY,
    ),
    "rows whose days are all NULL": ([("append", stamp("", added_records="3"))], NONE),
    "a batch from before the column was tracked": ([("append", stamp(None, added_records="3"))], EVERY),
    "the position moved": ([("append", stamp(None, added_records="0"))], NONE),
    "maintenance repeats a batch's properties": (
        [("replace", {"added-records": "9"}), ("append", stamp("2024-03-04", added_records="0"))],
        NONE,
    ),
    "rows written by somebody else": ([("append", {"added-records": "1"})], EVERY),
    "a batch, then rows written by somebody else": (
        [("append", stamp("2024-03-04", added_records="1")), ("append", {"added-records": "1"})],
        Changed(frozenset({day(4)}), every=True),
    ),
}


@pytest.mark.parametrize("name", BY_BATCH)
def test_days_that_each_batch_names(name: str) -> None:
    commits, expected = BY_BATCH[name]
    stretch = [Commit(operation, summary) for operation, summary in commits]
    assert changed_days(STARTED, stretch, by_partition=False) == expected


def test_the_property_of_a_column_with_capitals_is_found() -> None:
    """Spark's writer options know no case, so that the summary has it in lower case."""
    rule = Input("shop", "trips", Follow.DAY, "EndedAt")
    summary = {"lake.log-offset": "7", "added-records": "1", "lake.touched-days.endedat": "2024-03-04"}
    assert changed_days(rule, [Commit("append", summary)], by_partition=False) == on(4)


DIMENSIONS = {
    "a row changed": ([("append", stamp("2024-03-04", added_records="1"))], EVERY),
    "a row changed in a named partition": ([("append", partitions("2024-03-04"))], EVERY),
    "a row deleted": ([("delete", {"deleted-records": "1"})], EVERY),
    "the position moved": ([("append", stamp(None, added_records="0"))], NONE),
    "rewritten": ([("replace", {"added-records": "9", "deleted-records": "9"})], NONE),
    "nothing": ([], NONE),
}


@pytest.mark.parametrize("name", DIMENSIONS)
def test_a_dimension_concerns_every_day_or_none(name: str) -> None:
    commits, expected = DIMENSIONS[name]
    stretch = [Commit(operation, summary) for operation, summary in commits]
    for by_partition in (True, False):
        assert changed_days(DIMENSION, stretch, by_partition=by_partition) == expected


@pytest.mark.parametrize("rule", [STARTED, ONWARDS, DIMENSION])
@pytest.mark.parametrize("by_partition", [True, False])
def test_without_a_chain_of_commits_everything_counts_as_changed(rule: Input, by_partition: bool) -> None:
    assert changed_days(rule, None, by_partition=by_partition) == EVERY


SPREADS = {
    # touched, the mart's data ended, the source's last commit, days
    "a change of today": ([5], 5, 5, [5]),
    "a spell lasts over midnight": ([], 5, 6, [5, 6]),
    "a change of today after a change yesterday": ([6], 5, 6, [5, 6]),
    "a late change": ([2], 5, 5, [2, 3, 4, 5]),
    "a late change, and midnight": ([2], 5, 6, [2, 3, 4, 5, 6]),
    "nobody has consumed anything": ([3], None, 5, [3, 4, 5]),
    "nothing ever": ([], None, 5, []),
    "the source's last commit is an earlier one": ([], 8, 6, [6, 7, 8]),
    "a change later than the last commit": ([7], 5, 6, [5, 6, 7]),
}


@pytest.mark.parametrize("name", SPREADS)
def test_a_state_lasts_until_the_next_change(name: str) -> None:
    touched, consumed, until, expected = SPREADS[name]
    found = spread_onwards(map(day, touched), None if consumed is None else day(consumed), day(until))
    assert sorted(found) == [day(number) for number in expected]


def test_hull_takes_a_marker_for_what_it_is() -> None:
    marker, birth = date(9999, 12, 31), date(1, 1, 1)
    assert hull([day(3), day(5), marker, birth], day(5)) == {day(3), day(4), day(5), marker, birth}
    assert hull([marker], day(5)) == {marker}
    assert hull([], day(5)) == set()
    assert len(hull([day(3), day(3) + timedelta(days=360)], day(5))) == 361
    assert span([day(3), day(5), day(4), marker, birth], day(5)) == {day(3), day(5)}
    assert span([marker], day(5)) == set()


GAPS = {
    # days of the mart's span, changed days, days that must be computed besides
    "within": ([3, 9], [5], []),
    "directly after": ([3, 4], [5], []),
    "after quiet days": ([3, 4], [8], [5, 6, 7]),
    "before quiet days": ([6, 7], [2], [3, 4, 5]),
    "on both sides": ([4], [2, 6], [3, 5]),
    "the mart has nothing": ([], [5], []),
    "the mart has nothing, and days are between": ([], [3, 5], [4]),
    "nothing changed": ([3, 9], [], []),
}


@pytest.mark.parametrize("name", GAPS)
def test_quiet_days_up_to_new_ones_are_computed_too(name: str) -> None:
    had, days, expected = GAPS[name]
    found = gap_to(frozenset(map(day, had)), list(map(day, days)), day(9))
    assert sorted(found - set(map(day, days))) == [day(number) for number in expected]


def test_stretches_are_contiguous_over_the_end_of_a_month() -> None:
    days = [day(1, 4), day(30), day(31), day(4, 4), day(29)]
    assert stretches(days) == [(day(29), day(1, 4)), (day(4, 4), day(4, 4))]
    assert stretches([]) == []
    assert format_days(days) == "2024-03-29..2024-04-01,2024-04-04"


some_days = st.frozensets(
    st.dates(date(2023, 11, 1), date(2024, 4, 1)) | st.sampled_from([date.min, date.max]), max_size=80
)


@given(some_days)
def test_days_survive_a_summary(days: frozenset[date]) -> None:
    assert parse_days(format_days(days)) == days
    assert parse_days(",".join(sorted(day.isoformat() for day in days))) == days


@given(some_days)
def test_stretches_hold_exactly_the_days_and_do_not_touch(days: frozenset[date]) -> None:
    found = stretches(days)
    assert {day for first, last in found for day in days_between(first, last)} == days
    assert all(before[1] + timedelta(days=1) < after[0] for before, after in pairwise(found))
