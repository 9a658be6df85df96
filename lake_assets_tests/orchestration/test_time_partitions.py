"""The days of bronze and of daily marts: the keys that Dagster itself would list, without its walk through a cron
schedule."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import dagster as dg
import pytest

from lake_assets.orchestration.shared.time_partitions import daily_partitions


@pytest.mark.parametrize(
    "now", [datetime(2026, 3, 29, 23, 59, 59, tzinfo=UTC), datetime(2024, 2, 29, tzinfo=UTC)]
)
@pytest.mark.parametrize("first", [date(2000, 1, 1), date(2024, 2, 28), date(2030, 1, 1)])
def test_the_keys_are_those_of_dagster(now: datetime, first: date) -> None:
    plain = dg.DailyPartitionsDefinition(first.isoformat(), timezone="UTC", end_offset=1)
    with dg.partition_loading_context(now):
        assert list(daily_partitions(first).get_partition_keys()) == list(plain.get_partition_keys())
        assert daily_partitions(first).get_partition_keys(now) == plain.get_partition_keys(now)


def test_a_run_does_not_walk_through_the_days_of_each_table(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[object] = []
    found = daily_partitions(date(2000, 1, 1))
    whole = dg.DailyPartitionsDefinition._iterate_time_windows

    def counted(self: dg.DailyPartitionsDefinition, *given: Any, **more: Any) -> Iterator[Any]:
        for window in whole(self, *given, **more):
            walked.append(window)
            yield window

    monkeypatch.setattr(dg.DailyPartitionsDefinition, "_iterate_time_windows", counted)
    assert len(found.get_partition_keys()) > 9_000
    assert len(walked) < 10
