"""The freshness check: whether a table is behind its bucket, or its newest source commit is too old.

Here: the decision for one table. Not here: reading positions and the file log. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.silver.plan.members import living_files
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.targets import Target
from lake_assets.words import many


@dataclass(frozen=True, slots=True)
class FreshnessState:
    """How fresh a silver table is at one moment."""

    target: Target
    pending_files: int
    pending_age: timedelta | None
    """Time since the oldest pending file was logged; None if no file is pending."""
    source_lag: timedelta | None
    """Time since the newest applied source commit; None without a commit or a timestamp column."""
    fresh: bool
    sentence: str


def freshness(
    target: Target, position: Position, logged: Sequence[LoggedFile], now: datetime
) -> FreshnessState:
    """The state of one table. `logged` are its files in the file log; `now` is UTC.

    A pending file's age counts from when it was logged, not from its own date: copied files may have old dates.
    """
    living = living_files(logged, target.mode, target.config.on_vanished)
    pending = [file for file in living if file.offset > position.log_offset]
    age = now - min(file.logged_at for file in pending) if pending else None
    lag = now - position.max_commit_ts if position.max_commit_ts is not None else None
    limits = target.freshness
    problems = []
    if age is not None and age > limits.max_pending_age:
        problems.append(
            f"{many(len(pending), 'file', 'wait')} to be applied, the oldest for {age}, more than "
            f"{limits.max_pending_age}"
        )
    if limits.max_source_lag is not None and (lag is None or lag > limits.max_source_lag):
        behind = (
            "no source commit was applied yet" if lag is None else f"the newest applied commit is {lag} old"
        )
        problems.append(f"{behind}, the limit is {limits.max_source_lag}")
    sentence = "; ".join(problems) if problems else f"{many(len(pending), 'file')} pending, within the limits"
    return FreshnessState(target, len(pending), age, lag, not problems, sentence)
