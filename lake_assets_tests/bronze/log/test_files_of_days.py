"""Which files a stretch of days holds."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from lake_assets.bronze.log.day_totals import files_of_days
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets_tests.helpers.files.records import as_logged


def at(day: int, hour: int = 12) -> datetime:
    return datetime(2026, 3, day, hour, tzinfo=UTC)


def test_a_rewritten_file_is_read_once_and_where_it_was_written(load: Callable[..., Any]) -> None:
    """The newest version of each, by capture date, in log order."""

    def logged(offset: int, number: int, day: int) -> LoggedFile:
        new = load(number, f"v{offset}", capture_date=at(day).date())
        return as_logged(new, offset, logged_at=at(day) + timedelta(hours=1))

    first, second, again = logged(1, 1, 2), logged(2, 2, 3), logged(3, 1, 4)
    log = [again, first, second]
    assert files_of_days(log, None, None) == [second, again]
    assert files_of_days(log, "2026-03-02", "2026-03-03") == [second]
    assert files_of_days(log, "2026-03-04", "2026-03-04") == [again]
    assert files_of_days(log, None, "2026-03-03") == [second]
    assert files_of_days([], "2026-03-02", "2026-03-03") == []
