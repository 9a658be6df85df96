"""Fault injection by name: the points of the main job at which a process may die.

Here: the table of those points, and arming one of them; a branch that is dropped meanwhile. Not here: the checks after
each (`silver/apply/test_kill_points.py`), the process that dies (`sync_process.py`), the points of maintenance
(`test_killed_maintenance.py`), or of a landing (`bronze/stream/test_landed_positions.py`).
"""

import functools
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any, Literal

import pytest

from lake_assets.iceberg.publish import Attempt
from lake_assets_tests.helpers.lakes.bench import Bench


class Step(StrEnum):
    """Where a process is killed, in the words of the last table of docs/how_it_works.md."""

    LISTING = "during the scan"
    LOGGING = "before the log's append; after it"
    LANDING = "during a landing, before the log's append; after it"
    """Its points are in `bronze/stream/test_landed_positions.py` and `soak/stream`: only a reader passes them."""
    WRITING = "while reading or writing to the branch"
    ALTERING = "before columns are added; after it"
    QUARANTINED = "after rows were quarantined, before the publish"
    PUBLISHED = "after the publish, before the report"
    MAINTAINING = "during maintenance: after the re-stamp, after the expiry"
    """Its points are elsewhere, because the main job never runs maintenance."""


@dataclass(frozen=True, slots=True)
class Point:
    """The first call of a function, before it begins or when it has returned."""

    name: str
    step: Step
    module: str
    attribute: str
    """In the module: `function`, or `Class.method`."""
    when: Literal["before", "after"]
    of: str = ""
    """Text that the call's arguments must contain, if only some of the calls count."""


_COMMIT = ("pyiceberg.catalog.sql", "SqlCatalog.commit_table")
_QUARANTINED = ("lake_assets.bronze.quarantine.quarantine_log", "Quarantine.add")
_PUBLISH = ("lake_assets.iceberg.publish", "Attempt.publish")
_READER = "lake_assets.silver.batch.reader"
_DELETE = ("lake_assets.iceberg.publish", "Attempt.delete_by")
_FINAL_COMMIT = ("lake_assets.silver.apply.apply_batch", "write_final_commit")
_ALTER = ("lake_assets.schema.alter_columns", "SilverSchema._alter")

POINTS = {
    point.name: point
    for point in (
        Point("list", Step.LISTING, "lake_assets.bronze.scan.discovery", "inspect_file", "before"),
        Point("log append, begun", Step.LOGGING, "lake_assets.bronze.log.file_log", "to_arrow", "before"),
        # Its Parquet file, manifest and metadata are written; the catalog does not name them.
        Point("log append, uncommitted", Step.LOGGING, *_COMMIT, "before", of="bronze_files("),
        Point("log append, committed", Step.LOGGING, *_COMMIT, "after", of="bronze_files("),
        Point(
            "log append, untold", Step.LOGGING, "lake_assets.orchestration.sync", "landed_events", "before"
        ),
        Point("evolve, recorded", Step.ALTERING, *_ALTER, "before", of="ADD COLUMN"),
        Point("evolve, altered", Step.ALTERING, *_ALTER, "after", of="ADD COLUMN"),
        Point("read, begun", Step.WRITING, _READER, "BatchReader.read_batch", "before"),
        Point("read, done", Step.WRITING, _READER, "BatchReader.check", "after"),
        Point("delete, begun", Step.WRITING, *_DELETE, "before"),
        Point("delete, done", Step.WRITING, *_DELETE, "after"),
        Point("append, begun", Step.WRITING, *_FINAL_COMMIT, "before"),
        Point("append, done", Step.WRITING, *_FINAL_COMMIT, "after"),
        Point("quarantined, begun", Step.WRITING, *_QUARANTINED, "before", of="Quarantined("),
        Point("quarantined, done", Step.QUARANTINED, *_QUARANTINED, "after", of="Quarantined("),
        Point("fast_forward, begun", Step.WRITING, *_PUBLISH, "before"),
        Point("fast_forward, done", Step.PUBLISHED, *_PUBLISH, "after"),
        # The columns and rows exist; only the table's property is missing.
        Point("evolve, published", Step.PUBLISHED, *_ALTER, "before", of="SET TBLPROPERTIES"),
        Point(
            "report, begun",
            Step.PUBLISHED,
            "lake_assets.orchestration.assets.silver_assets",
            "_events",
            "before",
        ),
        Point(
            "report, under way",
            Step.PUBLISHED,
            "lake_assets.orchestration.assets.silver_report",
            "materialization_metadata",
            "after",
        ),
    )
}
"""In the order in which a batch passes them."""


class Killed(BaseException):
    """Ends the process without handlers, as a kill does."""


def killed(*arguments: Any, **named: Any) -> Any:
    """Replaces any function and ends the process."""
    raise Killed


def die() -> None:
    """Ends the process without handlers, `finally` or atexit."""
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def armed(point: Point, act: Callable[[], None] = die) -> Iterator[None]:
    """Inside the block, `act` is called at the point; it may raise. By default it ends the process."""
    owner: Any = import_module(point.module)
    *path, name = point.attribute.split(".")
    for part in path:
        owner = getattr(owner, part)
    whole = getattr(owner, name)

    @functools.wraps(whole)
    def faulty(*arguments: Any, **named: Any) -> Any:
        if point.of and point.of not in f"{arguments} {named}":
            return whole(*arguments, **named)
        if point.when == "before":
            act()
        result = whole(*arguments, **named)
        if point.when == "after":
            act()
        return result

    setattr(owner, name, faulty)
    try:
        yield
    finally:
        setattr(owner, name, whole)


def drop_branch_once(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> list[str]:
    """The next commit without rows finds its branch dropped by maintenance, which takes it for a dead attempt's, and
    creates it again at main, as Iceberg does. Returns the branch, as soon as it has happened."""
    writes_nothing, dropped = Attempt.write_nothing, list[str]()

    def write_nothing(current: Attempt, properties: Mapping[str, str]) -> None:
        if not dropped:
            dropped.append(current.branch)
            current.drop()
            current.start(bench.table().metadata.current_snapshot_id)
        writes_nothing(current, properties)

    monkeypatch.setattr(Attempt, "write_nothing", write_nothing)
    return dropped
