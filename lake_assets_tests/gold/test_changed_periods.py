"""Which periods a stretch of silver commits concerns, as tables of cases over summaries written by hand.

Not here: summaries that real commits carry, and what is computed for the days (`test_incremental.py`).
"""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.gold.changed_periods import Changed, Commit, changed_periods, gap_to, spread_onwards
from lake_assets.gold.mart import Follow, Input
from lake_assets.gold.periods.grain import (
    Grain,
    Period,
    beginning,
    between,
    format_periods,
    hull,
    parse_periods,
    span,
    stretches,
)

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
    assert changed_periods(STARTED, stretch, Grain.DAY, transform="day") == expected


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
    assert changed_periods(STARTED, stretch, Grain.DAY, transform=None) == expected


def test_the_property_of_a_column_with_capitals_is_found() -> None:
    """Spark's writer options know no case, so that the summary has it in lower case."""
    rule = Input("shop", "trips", Follow.DAY, "EndedAt")
    summary = {"lake.log-offset": "7", "added-records": "1", "lake.touched-days.endedat": "2024-03-04"}
    assert changed_periods(rule, [Commit("append", summary)], Grain.DAY, transform=None) == on(4)


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
    for transform in ("day", None):
        assert changed_periods(DIMENSION, stretch, Grain.DAY, transform=transform) == expected


@pytest.mark.parametrize("rule", [STARTED, ONWARDS, DIMENSION])
@pytest.mark.parametrize("transform", ["day", None])
def test_without_a_chain_of_commits_everything_counts_as_changed(rule: Input, transform: str | None) -> None:
    for grain in Grain:
        assert changed_periods(rule, None, grain, transform=transform) == EVERY


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
    found = spread_onwards(
        Grain.DAY, map(day, touched), None if consumed is None else day(consumed), day(until), day(1)
    )
    assert sorted(found) == [day(number) for number in expected]


def test_a_state_that_lasts_since_a_marker_is_in_every_period_of_the_mart() -> None:
    """It does not stretch the mart: nothing is between the marker and the first day."""
    marker = date(1900, 1, 1)
    found = spread_onwards(Grain.DAY, [marker], day(5), day(5), date(2000, 1, 1), frozenset((day(2), day(4))))
    assert found == {marker, *(day(number) for number in range(2, 6))}
    found = spread_onwards(Grain.DAY, [date(9999, 12, 31)], day(5), day(5), date(2000, 1, 1))
    assert found == {date(9999, 12, 31), day(5)}


def test_hull_takes_a_marker_for_what_it_is() -> None:
    marker, birth = date(9999, 12, 31), date(1, 1, 1)
    assert hull(Grain.DAY, [day(3), day(5), marker, birth], day(5)) == {day(3), day(4), day(5), marker, birth}
    assert hull(Grain.DAY, [marker], day(5)) == {marker}
    assert hull(Grain.DAY, [], day(5)) == set()
    assert len(hull(Grain.DAY, [day(3), day(3) + timedelta(days=360)], day(5))) == 361
    epoch, years_ago = date(1970, 1, 1), date(2001, 5, 5)
    found = hull(Grain.DAY, [epoch, years_ago, day(3), day(5)], day(5), date(2000, 1, 1))
    assert found == {epoch, years_ago, day(3), day(4), day(5)}, "no gap of more than a year is filled"
    assert span([epoch, years_ago, day(5)], day(5), date(2000, 1, 1)) == {years_ago, day(5)}
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
    found = gap_to(Grain.DAY, frozenset(map(day, had)), list(map(day, days)), day(9))
    assert sorted(found - set(map(day, days))) == [day(number) for number in expected]


def test_beside_a_day_of_years_ago_nothing_is_computed_again() -> None:
    own = frozenset((date(2001, 5, 5), day(5)))
    assert gap_to(Grain.DAY, own, [day(4)], day(9)) == set()
    assert gap_to(Grain.DAY, own, [day(7)], day(9)) == {day(6), day(7)}


def test_stretches_are_contiguous_over_the_end_of_a_month() -> None:
    days = [day(1, 4), day(30), day(31), day(4, 4), day(29)]
    assert stretches(Grain.DAY, days) == [(day(29), day(1, 4)), (day(4, 4), day(4, 4))]
    assert stretches(Grain.DAY, []) == []
    assert format_periods(Grain.DAY, days) == "2024-03-29..2024-04-01,2024-04-04"


some_times = st.frozensets(
    st.integers(0, 152 * 24 * 60).map(
        lambda minute: datetime(2023, 11, 1, tzinfo=UTC) + timedelta(minutes=minute)
    )
    | st.sampled_from([beginning(date.min), beginning(date.max)]),
    max_size=80,
)


@given(some_times, st.sampled_from(Grain))
def test_periods_survive_a_summary(times: frozenset[datetime], grain: Grain) -> None:
    periods = frozenset(map(grain.of, times))
    assert parse_periods(format_periods(grain, periods)) == (grain if periods else Grain.DAY, periods)
    assert {grain.of_key(grain.key(period)) for period in periods} == periods


@given(some_times, st.sampled_from(Grain))
def test_stretches_hold_exactly_the_periods_and_do_not_touch(
    times: frozenset[datetime], grain: Grain
) -> None:
    periods = frozenset(map(grain.of, times))
    found = stretches(grain, periods)
    assert {period for first, last in found for period in between(grain, first, last)} == periods
    assert all(grain.after(before[1]) < after[0] for before, after in pairwise(found))


@given(some_times, st.sampled_from(Grain))
def test_a_time_lies_in_its_period_alone(times: frozenset[datetime], grain: Grain) -> None:
    for moment in times - {beginning(date.max)}:
        period = grain.of(moment)
        start, end = grain.window(period, period)
        assert start <= moment < end
        assert grain.of(end) == grain.after(period)
        assert grain.of(end - timedelta(microseconds=1)) == period
        assert grain.last_day(period) == (end - timedelta(microseconds=1)).date()


def hour(day: int, number: int) -> datetime:
    return datetime(2024, 3, day, number, tzinfo=UTC)


def touched(kind: str, value: str) -> Summary:
    return {"lake.log-offset": "7", "added-records": "1", f"lake.touched-{kind}.started_at": value}


FINER: dict[str, tuple[Grain, str | None, Summary, list[Period] | None]] = {
    # the mart's grain, the transform by which silver is partitioned, a summary, the periods
    "hours by hours": (
        Grain.HOUR,
        "hour",
        {"added-records": "1", "partitions.started_at_hour=2024-03-31-01": ""},
        [hour(31, 1)],
    ),
    "days by hours": (
        Grain.DAY,
        "hour",
        {"added-records": "1", "partitions.started_at_hour=2024-03-31-01": ""},
        [day(31)],
    ),
    "weeks by days": (Grain.WEEK, "day", partitions("2024-03-03", "2024-03-04"), [day(26, 2), day(4)]),
    "months by days": (Grain.MONTH, "day", partitions("2024-02-29", "2024-03-31"), [day(1, 2), day(1)]),
    "days by days of years that Python does not have": (
        Grain.DAY,
        "day",
        partitions("0000-12-31", "10000-01-01"),
        [date.min, date.max],
    ),
    "months by months": (
        Grain.MONTH,
        "month",
        {"added-records": "1", "partitions.started_at_month=2024-03": ""},
        [day(1)],
    ),
    "hours that a batch names": (
        Grain.HOUR,
        None,
        touched("hours", "2024-03-04T05,2024-03-15T23"),
        [hour(4, 5), hour(15, 23)],
    ),
    "weeks of the days that a batch names": (
        Grain.WEEK,
        None,
        touched("days", "2024-03-04,2024-03-10,2024-03-11"),
        [day(4), day(11)],
    ),
    "a batch from before the hours were tracked": (Grain.HOUR, None, touched("days", "2024-03-04"), None),
}


@pytest.mark.parametrize("name", FINER)
def test_periods_that_are_no_days(name: str) -> None:
    grain, transform, summary, expected = FINER[name]
    found = changed_periods(STARTED, [Commit("append", summary)], grain, transform=transform)
    assert found == (EVERY if expected is None else Changed(frozenset(expected)))


@pytest.mark.parametrize(("first", "last"), [(30, 31), (26, 27)], ids=["spring in Berlin", "all hours"])
def test_where_clocks_change_a_day_has_its_24_hours(first: int, last: int) -> None:
    hours = between(Grain.HOUR, hour(first, 0), hour(last, 23))
    assert len(hours) == 48
    assert stretches(Grain.HOUR, hours) == [(hour(first, 0), hour(last, 23))]
    assert format_periods(Grain.HOUR, hours) == f"hour:2024-03-{first}T00..2024-03-{last}T23"
