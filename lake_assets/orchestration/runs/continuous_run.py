"""The continuous run: scans, applies and refreshes in rounds until it hands over.

It does what a sensor's run does, with the same code, but without starting a process, a run and a Spark for each file.
Its state is in the lake: a sensor's run beside it does no harm, and its death loses nothing. Here: the rounds of one
source, and their events for Dagster. Not here: the job and its sensor (`continuous_job.py`).
"""

import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from lake_assets.bronze.log.day_totals import DayTotals
from lake_assets.config import ContinuousConfig
from lake_assets.config.secrets import hidden_in
from lake_assets.errors import SparkLost
from lake_assets.gold.compute_mart import computed_mart
from lake_assets.gold.mart import Mart
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.gold.view import mart_view
from lake_assets.iceberg.publish import KeptBranches
from lake_assets.iceberg.table_io import load_table
from lake_assets.iceberg.upkeep.table_maintenance import Maintained
from lake_assets.orchestration.assets.bronze_assets import landed_events
from lake_assets.orchestration.assets.bronze_reports import UnreportedFiles
from lake_assets.orchestration.assets.mart_lineage import Lineage, derived_lineage
from lake_assets.orchestration.assets.silver_report import Event, inconsistencies, turn_events
from lake_assets.orchestration.assets.versions import mart_versions
from lake_assets.orchestration.checks.blocking_checks import failed_inputs
from lake_assets.orchestration.checks.check_history import newest_runs
from lake_assets.orchestration.checks.silver_checks import ROW_COUNT
from lake_assets.orchestration.io_managers.iceberg_io_manager import SHOWN, TableIOManager
from lake_assets.orchestration.runs.marts_in_silver_runs import keeps_up
from lake_assets.orchestration.runs.missed_positions import reported_positions
from lake_assets.orchestration.shared.asset_metadata import grouped
from lake_assets.orchestration.shared.preview import preview
from lake_assets.rounds.arrivals import opened_input
from lake_assets.rounds.backoff import Failures
from lake_assets.rounds.maintenance import MaintenanceSchedule
from lake_assets.rounds.round import plan_round
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.engine import Turns
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.plan.plan import State
from lake_assets.silver.table.position import read_position
from lake_assets.silver.table.targets import Target
from lake_assets.spark.causes import full_traceback, root_cause
from lake_assets.spark.connect.connect_address import server_lost
from lake_assets.spark.session import process_lost
from lake_assets.storage.object_store import StoreError
from lake_assets.words import many

PASSES_EVERY = 600.0
"""Seconds after which a check that still passes is reported again: five checks of each table with every report would be
most of Dagster's history."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Round:
    """What one round did."""

    files: int = 0
    batches: int = 0
    marts: int = 0
    under_way: int = 0
    """Tables whose turn goes on after the round."""
    failed: list[str] = field(default_factory=list)
    maintained: list[Maintained] = field(default_factory=list)


class Continuous:
    """The rounds of one process over one source."""

    def __init__(
        self,
        runtime: LakeRuntime,
        source: str,
        targets: Sequence[Target],
        marts: Sequence[Mart],
        instance: dg.DagsterInstance,
        clock: Callable[[], float] = time.monotonic,
        settings: ContinuousConfig | None = None,
        tables: TableIOManager | None = None,
        repository: dg.RepositoryDefinition | None = None,
        run_id: str | None = None,
    ) -> None:
        """`tables`: the IO manager by which marts are read and stored; by default the lake's own. `repository`: the
        definitions that the lake was merged with, whose blocking checks hold marts. `run_id`: the run that reports the
        events."""
        self._runtime = runtime
        self._tables = tables or TableIOManager(runtime)
        runtime.branches, runtime.run_id = KeptBranches(), run_id or ""
        self._source = source
        self._targets = [target for target in targets if target.source == source]
        self._marts = [mart for mart in marts if keeps_up(mart, source)]
        self._instance, self._repository, self._run_id = instance, repository, run_id
        self._maintenance = MaintenanceSchedule(
            runtime, self._targets, marts, (settings or ContinuousConfig()).keep_commits
        )
        self._arrivals = opened_input(runtime, source)
        self._unreported = UnreportedFiles(runtime, source)
        self._days = DayTotals(runtime.file_log, source)
        self._turns = Turns(runtime)
        self._failures = Failures(clock)
        self._results: dict[str, TableResult] = {}
        """By table, the result that has not been reported yet."""
        self._refreshed: dict[str, tuple[int, dict[str, Any]]] = {}
        """By mart, the number of refreshes since the last report, and the newest metadata."""
        self._passed: dict[dg.AssetCheckKey, float] = {}
        """By check that passed in its last report, the time of that report."""
        self._reported: set[dg.AssetCheckKey] = set()
        """The checks that this run has reported."""
        self._shown_runs: dict[dg.AssetCheckKey, str] = {}
        """By check, the run whose execution Dagster shows before the present report."""
        self._held: dict[str, list[str]] = {}
        """By waiting mart, the blocking checks that fail."""
        self._lineage: dict[str, Lineage] = {}
        self._dead: Exception | None = None
        """The error that showed that the Spark of this process has died."""

    def round(self, wait_seconds: float = 0.0) -> Round:
        """One scan, a turn of each table with pending files, one refresh of each stale mart. A turn with much to do
        goes on while further rounds begin. Does not raise when a table, a mart or the bucket fails: each is retried
        with its own back-off. Raises SparkLost when the Spark of this process has died: another process has to
        continue."""
        done = Round()
        try:
            done.files = len(self._arrivals.scan(wait_seconds).logged)
        except StoreError as error:
            # The files that are logged already can still be applied.
            logger.warning("%s", error)
            done.failed.append(str(error))
        under_way = self._turns.under_way
        free = [target for target in self._targets if target.identifier not in under_way]
        plan = plan_round(self._runtime, free, self._seconds_left)
        for state in plan.states:
            over = state.state in (State.UP_TO_DATE, State.NO_FILES)
            if over and state.target.identifier in self._failures:
                # Its batch failed after it was published, or another process has applied the files.
                self._applied(TableResult(state.target, position=state.position), done)
        if plan.ready:
            self._turns.begin(plan.ready, long=plan.long)
        for result in self._turns.finished():
            self._applied(result, done)
        done.under_way = len(self._turns.under_way)
        if self._dead is not None:
            raise SparkLost("The Spark of this process has died: a new run continues.") from self._dead
        loaded = LoadedTables(self._runtime.catalog)
        for mart in self._marts:
            self._refresh(mart, loaded, done)
        if (maintained := self._maintenance.maintain_next(self._turns.under_way)) is not None:
            done.maintained.append(maintained)
        return done

    def finish(self) -> None:
        """Ends the turns that are under way after their present batch; `events` then has their results. No round may
        follow."""
        for result in self._turns.close():
            self._applied(result, Round())

    def close(self) -> None:
        """Drops the branches that the process keeps from one round to the next. Call `finish` before."""
        branches, self._runtime.branches = self._runtime.branches, None
        if branches is None:
            return
        try:
            with self._runtime.sessions.isolated() as spark:
                branches.drop(spark, self._runtime.lake.catalog.name)
        except Exception:  # `lake-assets maintain` drops them
            logger.warning("branches of %s are left over", self._source, exc_info=True)

    def events(self) -> Iterator[Event]:
        """The events since the last call: one for each table, with the sums of its batches, and one for each mart."""
        unreported = self._unreported.take(self._instance)
        yield from landed_events(self._runtime.lake, self._source, unreported, self._days)
        results, self._results = self._results, {}
        now = datetime.now(UTC)
        self._move_on(results.values())
        turns = [event for result in results.values() for event in turn_events(self._runtime, result, now)]
        checks = [event.asset_check_key for event in turns if isinstance(event, dg.AssetCheckEvaluation)]
        self._shown_runs = newest_runs(self._instance, checks)
        yield from filter(self._is_news, turns)
        self._reported.update(checks)
        refreshed, self._refreshed = self._refreshed, {}
        for mart in self._marts:
            if mart.name in refreshed:
                times, metadata = refreshed[mart.name]
                shown = preview(self._runtime, mart.identifier, show=mart.preview)
                yield dg.AssetMaterialization(
                    dg.AssetKey(mart.asset_key),
                    metadata={**metadata, **shown, "refreshed": times},
                    tags=mart_versions(self._instance, mart),
                )

    def _move_on(self, results: Collection[TableResult]) -> None:
        """Moves results to their tables' present positions if another run has applied and reported more since: the
        newest event should show the table as it is."""
        reported = reported_positions(
            self._instance, [dg.AssetKey(result.target.asset_key) for result in results]
        )
        for result in results:
            at = reported.get(dg.AssetKey(result.target.asset_key), 0)
            if result.batches and at > result.position.log_offset:
                result.position = read_position(load_table(self._runtime.catalog, result.target.identifier))

    def _is_news(self, event: Event) -> bool:
        """Whether Dagster needs the event: not if its check still passes, this run reported that within PASSES_EVERY,
        and Dagster shows that report. An execution of another run would not count for the run's materializations."""
        if not isinstance(event, dg.AssetCheckEvaluation):
            return True
        check, now = event.asset_check_key, time.monotonic()
        is_recent = now - self._passed.get(check, -math.inf) < PASSES_EVERY
        if event.passed and is_recent and not self.is_behind_another_run(event):
            return False
        self._passed.pop(check, None)
        if event.passed:
            self._passed[check] = now
        return True

    def is_behind_another_run(self, event: Event) -> bool:
        """Whether the event's check was executed outside of this run since this run executed it. If this run logged the
        evaluation, it would be hidden: see `newest_runs`."""
        if not isinstance(event, dg.AssetCheckEvaluation) or event.asset_check_key not in self._reported:
            return False
        return self._shown_runs.get(event.asset_check_key, self._run_id) != self._run_id

    def _seconds_left(self, target: Target) -> float:
        return self._failures.seconds_left(target.identifier)

    def _failed(self, name: str, error: Exception, done: Round) -> None:
        if self._runtime.lake.spark.mode == "embedded" and process_lost(error):
            self._dead = error
        times = self._failures.add(name)
        reason = hidden_in(self._runtime.lake, root_cause(error))
        logger.error("%s failed, %s in a row: %s", name, many(times, "time"), reason)
        done.failed.append(reason)

    def _applied(self, result: TableResult, done: Round) -> None:
        name = result.target.identifier
        done.batches += len(result.batches)
        self._maintenance.committed(name, len(result.batches))
        if result.error is not None:
            self._failed(name, result.error, done)
        else:
            self._failures.clear(name)
        for sentence in inconsistencies(result):
            logger.warning("%s: %s", name, sentence)
        if (earlier := self._results.get(name)) is not None:
            result.batches[:0] = earlier.batches
        self._results[name] = result

    def _is_held(self, mart: Mart) -> bool:
        # The run itself knows whether it can apply a table; Dagster learns it with the next report.
        failed = failed_inputs(self._instance, mart, self._repository, batch_checks=(ROW_COUNT,))
        if failed and failed != self._held.get(mart.name):
            logger.warning("%s waits for %s", mart.identifier, ", ".join(failed))
        self._held[mart.name] = failed
        return bool(failed)

    def _refresh(self, mart: Mart, loaded: LoadedTables, done: Round) -> None:
        if any(rule.identifier in self._failures for rule in mart.rules):
            return
        if self._failures.seconds_left(mart.identifier):
            return
        try:
            view = mart_view(loaded, mart, self._runtime.lake.gold)
            if view is None or not view.stale or self._is_held(mart):
                return
            computed, metadata = computed_mart(self._runtime, self._tables.read, mart, view, None)
            stored = self._tables.store(mart.identifier, computed)
            # After the rows are readable, because it takes some tenths of a second.
            if mart.name not in self._lineage:
                self._lineage[mart.name] = derived_lineage(
                    self._runtime.lake.catalog.name, mart, computed.frame
                )
        except Exception as error:  # noqa: BLE001  (one mart's failure must not stop the others)
            if server_lost(error):
                self._runtime.sessions.forget()
            logger.debug("%s could not be computed:\n%s", mart.identifier, full_traceback(error))
            self._failed(mart.identifier, error, done)
            return
        self._failures.clear(mart.identifier)
        times = self._refreshed.get(mart.name, (0, {}))[0]
        self._refreshed[mart.name] = (
            times + 1,
            grouped(
                {
                    **metadata,
                    "source_now": dg.MetadataValue.timestamp(view.now),
                    **stored,
                    **self._lineage[mart.name],
                },
                SHOWN,
            ),
        )
        self._maintenance.committed(mart.identifier)
        done.marts += 1
