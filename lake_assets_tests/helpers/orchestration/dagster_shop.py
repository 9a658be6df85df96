"""A small shop with Dagster: a lake, a Dagster instance, and the daemon's work between the two.

Here: writing DMS files of two tables, evaluating a sensor's tick as the daemon does, running its requests. Not
here: the real daemon (`test_daemon.py`).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.gold.mart import Follow, Input, Mart, MartRequest
from lake_assets.iceberg.table_io import load_table
from lake_assets.orchestration.checks.silver_checks import APPLIED
from lake_assets.orchestration.lake_definitions import Lake, build_definitions, open_lake
from lake_assets.orchestration.sensors import file_sensor, polling
from lake_assets.rounds import backoff
from lake_assets_tests.helpers.lakes.small_lakes import lake_config, sequence, write_file

HEADER = "Op,commit_ts,id,name,at,change_seq,BI_id"
COLUMNS = {"id": "long not null", "name": "string", "at": "timestamptz"}
STOPS = {"quarantine": {"max_rows": 0}}
RUNBOOK = "[runbook](https://wiki.example/sales)"
TABLES: dict[str, Any] = {
    "public.sales": {
        "description": f"What was sold, {RUNBOOK}",
        "columns": COLUMNS,
        "primary_key": ["id"],
        "partition_by": ["day(at)"],
        **STOPS,
    },
    "public.notes": {"columns": COLUMNS, "primary_key": ["id"], **STOPS},
}
AUTOMATION = {
    # One evaluation a tick: the tests write the files before it, and do not wait.
    "poll_interval": "10s",
    # Each sensor's own part, unless a test asks for it.
    "marts_in_silver_runs": False,
}
SALES, NOTES, BATCH = (
    dg.AssetKey(path)
    for path in (["silver", "shop", "sales"], ["silver", "shop", "notes"], ["lake_ops", "shop_batch"])
)
ORIGIN = RemoteJobOrigin(
    RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("elsewhere"), "repository"), "__ASSET_JOB"
)
INSTANCE: dict[str, Any] = {"telemetry": {"enabled": False}}
NO_OUTPUT: dict[str, Any] = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    },
}
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def sales_steady(request: MartRequest) -> Any:
    """Sales per day."""
    return _of_the_days(request).groupBy("day").agg(F.count(F.lit(1)).alias("sales"))


def sales_daily(request: MartRequest) -> Any:
    """Sales per day. A sale named `broken` breaks it."""
    broken = F.when(F.count_if(F.col("name") == "broken") > 0, F.raise_error(F.lit("this sale is broken")))
    count = F.coalesce(broken.cast("bigint"), F.count(F.lit(1)))
    return _of_the_days(request).groupBy("day").agg(count.alias("sales"))


def _of_the_days(request: MartRequest) -> Any:
    first, last = request.days
    sales = request.inputs["sales"].withColumn("day", F.to_date("at"))
    return sales.filter(F.col("day").between(F.lit(first), F.lit(last)))


def sales_total(request: MartRequest) -> Any:
    """All sales in one row."""
    return request.inputs["sales"].agg(F.count(F.lit(1)).alias("sales"))


DAILY = Mart(
    name="sales_daily",
    description=f"Sales per day, {RUNBOOK}.",
    inputs={"sales": Input("shop", "sales", Follow.DAY, "at")},
    columns=(parse_column("day", "date not null"), parse_column("sales", "long not null")),
    compute=sales_daily,
)
TOTAL = Mart(
    name="sales_total",
    description="All sales.",
    inputs={"sales": Input("shop", "sales")},
    columns=(parse_column("sales", "long not null"),),
    compute=sales_total,
    partition_column=None,
)


@dataclass
class Shop:
    """The lake in `folder` and Dagster's own storage in `dagster`."""

    folder: Path
    lake: Lake
    dagster: Path
    instance: dg.DagsterInstance
    definitions: dg.Definitions
    cursors: dict[str, str | None] = field(default_factory=dict)
    files: int = 0
    window: float = 10.0
    """Seconds of a tick."""
    first_wait: timedelta = timedelta(hours=1)
    """Before what failed is tried again."""

    def load(self, table: str, ids: Sequence[int], day: int = 1) -> str:
        """A LOAD file with these rows."""
        return self._file(f"public/{table}/LOAD00000001.csv", [_row("I", key, day) for key in ids])

    def change(
        self,
        table: str,
        ids: Sequence[int],
        day: int = 1,
        op: str = "I",
        name: str | None = None,
        at: str | None = None,
    ) -> str:
        """A CDC file, written on that day of March 2026; the rows' `at` is on the same day unless given."""
        self.files += 1
        rows = [_row(op, key, day, name, self.files * 100 + place, at) for place, key in enumerate(ids)]
        return self._file(f"public/{table}/202603{day:02d}-{100_000_000 + self.files:09d}.csv", rows)

    def spoil(self, table: str, day: int = 1) -> str:
        """A CDC file with a row that cannot be decoded."""
        return self.change(table, [99], day, at="no time at all")

    def _file(self, key: str, rows: Sequence[str]) -> str:
        write_file(self.folder, key, [HEADER, *rows])
        return key

    def tick(self, sensor: str = "shop_files") -> SensorExecutionData:
        """A tick of the sensor, whose outcome is handled as by the daemon, except that no run is launched. It reports
        what has landed at once, and waits long before what failed is tried again."""
        repository = self.definitions.get_repository_def()
        context = dg.build_sensor_context(
            instance=self.instance, cursor=self.cursors.get(sensor), repository_def=repository
        )
        with (
            patch.object(polling, "WINDOW_SECONDS", self.window),
            patch.object(file_sensor, "REPORT_SECONDS", 0.0),
            patch.multiple(backoff, FIRST_WAIT=self.first_wait, LONGEST_WAIT=4 * self.first_wait),
        ):
            outcome = repository.get_sensor_def(sensor).evaluate_tick(context)
        for event in outcome.asset_events:
            self.instance.report_runless_asset_event(event)
        self.cursors[sensor] = outcome.cursor
        return outcome

    def run(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        """What the daemon would launch for the request, in this process."""
        return self.materialize(request.asset_selection or (), request.tags, checks=request.asset_check_keys)

    def materialize(
        self,
        keys: Sequence[dg.AssetKey],
        tags: Any = None,
        partition: str | None = None,
        checks: Sequence[dg.AssetCheckKey] | None = None,
    ) -> dg.ExecuteInProcessResult:
        """A run of these assets with these checks; None for all of their checks."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        of_run = job.get_subset(
            asset_selection=set(keys), asset_check_selection=None if checks is None else set(checks)
        )
        return of_run.execute_in_process(
            instance=self.instance,
            tags=dict(tags or {}),
            partition_key=partition,
            run_config=QUIET,
            raise_on_error=False,
        )

    def request(self, sensor: str = "shop_files") -> dg.RunRequest:
        """The one run that a tick has to request."""
        outcome = self.tick(sensor)
        assert len(outcome.run_requests or ()) == 1, outcome.run_requests or outcome.skip_message
        return (outcome.run_requests or ())[0]

    def apply(self) -> dg.ExecuteInProcessResult:
        """A tick of the file sensor, and the run that it requests."""
        return self.run(self.request())

    def refusal(self, sensor: str = "shop_files") -> str:
        """Why a tick requests nothing."""
        outcome = self.tick(sensor)
        assert not outcome.run_requests
        assert outcome.skip_message is not None
        return outcome.skip_message

    def forget_dagster(self) -> None:
        """Deletes Dagster's storage and cursors, so that only the lake is left, and loads the definitions again."""
        self.instance.dispose()
        self.cursors.clear()
        self.dagster = self.dagster.with_name(f"{self.dagster.name}x")
        self.instance = open_instance(self.dagster)
        self.restart()

    def restart(self) -> None:
        """Loads the definitions again, as a new process without any state."""
        self.lake = open_lake(self.lake.config, marts=self.lake.marts)
        self.definitions = build_definitions(self.lake)

    def again(self) -> "Shop":
        """The same shop as new processes would have it: see `restored.py`."""
        lake = open_lake(self.lake.config, marts=self.lake.marts)
        instance = open_instance(self.dagster)
        return replace(
            self, lake=lake, instance=instance, definitions=build_definitions(lake), cursors={**self.cursors}
        )

    def rows(self, identifier: str) -> list[dict[str, Any]]:
        """A table's rows, through PyIceberg."""
        table = load_table(self.lake.runtime.catalog, identifier)
        return [] if table is None else sorted(table.scan().to_arrow().to_pylist(), key=str)

    def snapshots(self, identifier: str) -> int:
        table = load_table(self.lake.runtime.catalog, identifier)
        return 0 if table is None else len(table.snapshots())


def add_run(
    instance: dg.DagsterInstance,
    keys: Sequence[dg.AssetKey] | None,
    status: dg.DagsterRunStatus,
    tags: dict[str, str] | None = None,
) -> dg.DagsterRun:
    """A run of another process; None for `keys`: of a job that was launched whole."""
    run = dg.DagsterRun(
        job_name="__ASSET_JOB",
        run_id=str(uuid4()),
        asset_selection=None if keys is None else frozenset(keys),
        status=status,
        tags=tags or {},
        remote_job_origin=ORIGIN,
    )
    return instance.add_run(run)


def plan_check(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """What Dagster writes of a run that is to evaluate the sales table's `applied`."""
    event = dg.DagsterEvent(
        event_type_value=dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED.value,
        job_name=run.job_name,
        event_specific_data=AssetCheckEvaluationPlanned(asset_key=SALES, check_name=APPLIED),
    )
    instance.report_dagster_event(event, run.run_id)


def failures(run: dg.ExecuteInProcessResult) -> dict[str, str]:
    """By table, why its turn in the run failed."""
    return {
        evaluation.asset_key.path[-1]: str(evaluation.metadata["error"].value)
        for evaluation in run.get_asset_check_evaluations()
        if evaluation.check_name == APPLIED and not evaluation.passed
    }


def pass_time(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Advances the clock of back-off and heartbeats by this time, but not Dagster's own."""
    now = time.time() + seconds
    for module in ("retry_wait", "in_flight"):
        monkeypatch.setattr(
            f"lake_assets.orchestration.runs.{module}.time", SimpleNamespace(time=lambda: now)
        )


def _row(op: str, key: int, day: int, name: str | None = None, number: int = 0, at: str | None = None) -> str:
    moment = f"2026-03-{day:02d} 10:00:00.000000"
    name = name or f"n{key}"
    if op == "D":
        name, at = "NULL", "NULL"
    return f"{op},{moment},{key},{name},{at or moment},{sequence(number, day) if number else ''},NULL"


def open_instance(folder: Path, *, keep_output: bool = False) -> dg.DagsterInstance:
    """A Dagster instance on SQLite files in `folder`, new unless they are there. `keep_output`: it keeps the output of
    runs, for which Dagster starts four processes a run."""
    if not (folder / "history").exists():
        copytree(_empty_instance().name, folder, dirs_exist_ok=True)
    settings = INSTANCE if keep_output else INSTANCE | NO_OUTPUT
    return dg.DagsterInstance.local_temp(str(folder), overrides=settings)


@cache
def _empty_instance() -> "TemporaryDirectory[str]":
    """The files of an instance without runs: copying them takes a fifth of the time in which Dagster makes them."""
    folder = TemporaryDirectory()
    with dg.DagsterInstance.local_temp(folder.name, overrides=INSTANCE) as instance:
        instance.get_runs_count()
        instance.all_asset_keys()
        instance.all_instigator_state()
    return folder


def open_shop(folder: Path, marts: Sequence[Mart] = (DAILY, TOTAL), **sections: Any) -> Shop:
    """An empty shop. `sections` replace or add to the configuration's top level; `automation` adds to AUTOMATION."""
    sections["automation"] = AUTOMATION | sections.get("automation", {})
    tables = sections.pop("tables", TABLES)
    lake = open_lake(lake_config(folder, tables, **sections), marts=marts)
    dagster = folder / "dagster"
    return Shop(folder, lake, dagster, open_instance(dagster), build_definitions(lake))


def days(request: dg.RunRequest) -> tuple[date, date] | None:
    """First and last day of a request with range tags."""
    start = request.tags.get("dagster/asset_partition_range_start")
    end = request.tags.get("dagster/asset_partition_range_end")
    return (date.fromisoformat(start), date.fromisoformat(end)) if start and end else None
