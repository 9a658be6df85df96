"""When a table is fresh: the decision, and what Dagster is told of it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.config import Freshness
from lake_assets.orchestration.checks.freshness_check import FreshnessState, freshness
from lake_assets.orchestration.checks.silver_checks import check_specs, freshness_evaluation
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.files.records import logged
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS, small_lake

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def target(folder: Path, **limits: Any) -> Target:
    (found,) = small_lake(folder, {"public.items": {**ITEMS, "freshness": limits}}).targets
    assert found.freshness == Freshness(**limits)
    return found


def landed(offset: int, minutes_ago: float, written_days_ago: int = 0) -> LoggedFile:
    """A file that was logged so many minutes ago; its own date may be older."""
    return logged(
        offset,
        f"public/items/{offset}.csv",
        logged_at=NOW - minutes_ago * MINUTE,
        last_modified=NOW - timedelta(days=written_days_ago),
        flush_time=None,
        capture_date=NOW.date(),
        first_commit_ts=None,
    )


def at(offset: int, newest_minutes_ago: float | None = None) -> Position:
    newest = None if newest_minutes_ago is None else NOW - newest_minutes_ago * MINUTE
    return Position(log_offset=offset, max_commit_ts=newest)


@pytest.mark.parametrize(
    ("position", "files", "pending", "fresh"),
    [
        (at(0), [], 0, True),
        (at(2, 60), [landed(1, 500), landed(2, 400)], 0, True),
        (at(1), [landed(1, 500), landed(2, 9)], 1, True),
        (at(1), [landed(1, 500), landed(2, 10)], 1, True),  # at the limit
        (at(1), [landed(1, 500), landed(2, 11), landed(3, 1)], 2, False),
        # A bucket that was copied keeps its old dates; what counts is how long the lake has known the file.
        (at(0), [landed(1, 1, written_days_ago=300)], 1, True),
    ],
)
def test_pending_files(
    tmp_path: Path, position: Position, files: list[LoggedFile], pending: int, fresh: bool
) -> None:
    state = freshness(target(tmp_path, max_pending_age="10m"), position, files, NOW)
    assert (state.pending_files, state.fresh) == (pending, fresh)
    if not fresh:
        assert state.sentence == "2 files wait to be applied, the oldest for 0:11:00, more than 0:10:00"


@pytest.mark.parametrize(
    ("limit", "newest_minutes_ago", "fresh", "sentence"),
    [
        (None, 100_000, True, "0 files pending, within the limits"),
        ("1h", 59, True, "0 files pending, within the limits"),
        ("1h", 61, False, "the newest applied commit is 1:01:00 old, the limit is 1:00:00"),
        ("1h", None, False, "no source commit was applied yet, the limit is 1:00:00"),
    ],
)
def test_source_lag(
    tmp_path: Path, limit: str | None, newest_minutes_ago: float | None, fresh: bool, sentence: str
) -> None:
    limits = {"max_source_lag": limit} if limit else {}
    state = freshness(target(tmp_path, **limits), at(1, newest_minutes_ago), [], NOW)
    assert (state.fresh, state.sentence) == (fresh, sentence)


def test_both_problems_are_told(tmp_path: Path) -> None:
    limits = {"max_source_lag": "1h", "max_pending_age": "1m"}
    state = freshness(target(tmp_path, **limits), at(0, 90), [landed(1, 5)], NOW)
    assert not state.fresh
    assert state.sentence.count(";") == 1


def test_the_evaluation_warns_and_plots(tmp_path: Path) -> None:
    found = target(tmp_path, max_pending_age="10m")
    state = FreshnessState(found, 3, 11 * MINUTE, 90 * MINUTE, fresh=False, sentence="behind")
    evaluation = freshness_evaluation(state)
    # A warning: an old table is still a right one, and its marts go on.
    assert evaluation.severity is dg.AssetCheckSeverity.WARN
    assert not evaluation.blocking
    assert not evaluation.passed
    assert {name: value.value for name, value in evaluation.metadata.items()} == {
        "pending_files": 3,
        "state": "behind",
        "oldest_pending_seconds": 660.0,
        "lag_seconds": 5400.0,
    }


def test_the_check_says_its_limits(tmp_path: Path) -> None:
    (spec,) = [s for s in check_specs(target(tmp_path, max_source_lag="2h")) if s.name == "freshness"]
    assert spec.description == (
        "No file waits longer than 0:10:00 to be applied, and the newest applied commit is no older than 2:00:00."
    )
    assert not spec.blocking
