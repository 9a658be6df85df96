"""What a mart's commit says it has consumed, there and back, and what is left after a run."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.gold.consumption import Consumption, fingerprint, read_consumption
from lake_assets.gold.periods.grain import Grain

NOW = datetime(2024, 3, 5, 18, 30, 0, 1, tzinfo=UTC)

consumptions = st.builds(
    Consumption,
    snapshots=st.dictionaries(
        st.sampled_from(["silver_a.trips", "silver_a.status_changes", "silver_b.x"]),
        st.integers(0, 2**63 - 1),
    ),
    pending=st.frozensets(st.dates(date(2024, 1, 1), date(2024, 12, 31)), max_size=40),
    now=st.none() | st.datetimes(timezones=st.just(UTC)),
    settings=st.sampled_from(["", fingerprint({}), fingerprint({"limit": 30})]),
    span=st.frozensets(st.dates(date(2024, 1, 1), date(2024, 12, 31)), max_size=2),
)


@given(consumptions)
def test_a_commit_brings_it_back(state: Consumption) -> None:
    assert read_consumption(state.properties()) == state


@pytest.mark.parametrize("grain", Grain)
def test_the_length_of_pending_periods_alone_is_known(grain: Grain) -> None:
    """Else they would be taken for those of a mart whose partitions were others, and dropped."""
    state = Consumption({"silver_a.trips": 1}, frozenset({grain.of(NOW)}), NOW, grain=grain)
    assert read_consumption(state.properties()) == state


@given(consumptions)
def test_other_properties_do_not_matter(state: Consumption) -> None:
    others = {"lake.log-offset": "7", "added-records": "1", "partitions.day=2024-01-01": "added-data-files=1"}
    assert read_consumption(others | state.properties()) == state


def test_a_commit_without_it_has_consumed_nothing() -> None:
    assert read_consumption({}) == Consumption()
    assert read_consumption({"added-records": "1"}) == Consumption({}, frozenset(), None)


def test_equal_settings_have_the_same_fingerprint() -> None:
    assert fingerprint({"a": 1, "b": {"c": [1, 2]}}) == fingerprint({"b": {"c": [1, 2]}, "a": 1})
    assert len({fingerprint({"limit": limit}) for limit in (30, 20, "30", None)}) == 4
    assert fingerprint({"since": date(2024, 3, 1)}), "whatever YAML can hold"
