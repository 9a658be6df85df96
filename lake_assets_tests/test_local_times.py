"""The table of a zone's spans says what zoneinfo says of each local time."""

from datetime import UTC, datetime, timedelta
from zoneinfo import available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lake_assets.local_times import LocalClock, Span, goes_back, instants, spans
from lake_assets_tests.helpers.oracles import clocks

SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
FACTS = [
    ("Europe/Berlin", "2026-03-29 02:30", []),
    ("Europe/Berlin", "2026-03-29 03:00", ["2026-03-29 01:00"]),
    ("Europe/Berlin", "2026-10-25 02:30", ["2026-10-25 00:30", "2026-10-25 01:30"]),
    ("Europe/Berlin", "2026-10-25 03:00", ["2026-10-25 02:00"]),
    ("Europe/Berlin", "1945-05-24 02:30", []),
    ("Europe/Berlin", "1947-06-29 02:30", ["1947-06-28 23:30", "1947-06-29 00:30"]),
    ("Europe/Berlin", "1893-04-01 00:03", []),
    ("Europe/Berlin", "9999-12-31 23:59:59", ["9999-12-31 22:59:59"]),
    ("Europe/Berlin", "9999-06-30 23:59:59", ["9999-06-30 21:59:59"]),
    ("Australia/Lord_Howe", "2026-04-05 01:45", ["2026-04-04 14:45", "2026-04-04 15:15"]),
    ("Australia/Lord_Howe", "2026-10-04 02:15", []),
    ("Pacific/Apia", "2011-12-30 12:00", []),
    ("Pacific/Apia", "2011-12-31 00:00", ["2011-12-30 10:00"]),
    ("America/Sao_Paulo", "2018-02-17 23:30", ["2018-02-18 01:30", "2018-02-18 02:30"]),
    ("UTC", "0001-01-01 00:00", ["0001-01-01 00:00"]),
]


@pytest.mark.parametrize(("zone", "wall", "expected"), FACTS)
def test_facts(zone: str, wall: str, expected: list[str]) -> None:
    times = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in expected]
    assert instants(zone, datetime.fromisoformat(wall)) == times


@given(
    st.sampled_from(clocks.ZONES),
    st.datetimes(datetime(1840, 1, 1), datetime(2101, 1, 1))  # noqa: DTZ001
    | st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)),  # noqa: DTZ001
)
@settings(max_examples=1000, deadline=None)
def test_any_time(zone: str, wall: datetime) -> None:
    assert instants(zone, wall) == clocks.instants(zone, wall)


@given(st.sampled_from(clocks.ZONES), st.data(), st.integers(-2, 2), st.integers(0, 18))
@settings(max_examples=1000, deadline=None)
def test_any_time_beside_a_change(zone: str, data: st.DataObject, seconds: int, cycles: int) -> None:
    span = data.draw(st.sampled_from(spans(zone)[1:]))
    wall = EPOCH + (span.start + seconds) * SECOND
    if wall.year >= 2100:  # from then on, all repeats every 400 years
        wall = wall.replace(year=wall.year + 400 * cycles) if wall.year + 400 * cycles < 9999 else wall
    assert instants(zone, wall) == clocks.instants(zone, wall)


@pytest.mark.long
@pytest.mark.parametrize("zone", sorted(available_timezones()))
def test_every_change_of_every_zone(zone: str) -> None:
    for wall in clocks.changes(zone, 1840, 2110):
        assert instants(zone, wall) == clocks.instants(zone, wall)
    for span in spans(zone)[1:]:
        for seconds in (-1, 0):
            wall = EPOCH + (span.start + seconds) * SECOND
            assert instants(zone, wall) == clocks.instants(zone, wall)


@pytest.mark.parametrize(
    ("takes", "offsets"),
    [
        ("single", [7, None, None]),
        ("earlier", [7, None, 9]),
        ("later", [7, None, 8]),
        ("skipped", [None, 0, None]),
        ("doubled", [None, None, 0]),
    ],
)
def test_what_a_clock_takes(takes, offsets) -> None:
    kinds = [Span(0, (7,)), Span(1, ()), Span(2, (9, 8))]
    assert [LocalClock("Europe/Berlin", takes).offset(span) for span in kinds] == offsets


@pytest.mark.parametrize(
    ("zone", "back"),
    [
        ("UTC", False),
        ("Asia/Kathmandu", False),
        ("Asia/Seoul", False),
        ("Europe/London", True),
        ("Europe/Berlin", True),
        ("America/New_York", True),
        ("Australia/Lord_Howe", True),
        ("Africa/Casablanca", True),
    ],
)
def test_zones_whose_clocks_go_back(zone: str, back: bool) -> None:
    assert goes_back(zone, datetime(2018, 1, 1, tzinfo=UTC)) is back
