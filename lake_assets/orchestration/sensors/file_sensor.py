"""The sensor for new DMS files of a source.

At every evaluation it requests one run for all tables of the source that are due (`rounds/round.py`), unless a run of
one of the source's tables is under way. The run also computes marts of the present that read these tables
(`orchestration/runs/marts_in_silver_runs.py`). The sensor needs neither a cursor nor run keys: deleting Dagster's
storage loses and repeats nothing.
"""

import time
from collections.abc import Callable, Sequence

import dagster as dg

from lake_assets.bronze.log.day_totals import DayTotals
from lake_assets.bronze.scan.discovery import Discovery
from lake_assets.config import LakeConfig
from lake_assets.gold.mart import Mart
from lake_assets.orchestration.assets.bronze_assets import landed_events
from lake_assets.orchestration.assets.bronze_reports import UnreportedFiles
from lake_assets.orchestration.assets.silver_assets import batch_keys
from lake_assets.orchestration.checks.data_checks import checks_of_run
from lake_assets.orchestration.checks.silver_checks import APPLIED
from lake_assets.orchestration.runs.continuous_job import alive_runs
from lake_assets.orchestration.runs.in_flight import assets_in_flight
from lake_assets.orchestration.runs.marts_in_silver_runs import can_share_run, marts_to_include
from lake_assets.orchestration.runs.retry_wait import check_retry_wait
from lake_assets.orchestration.sensors import polling
from lake_assets.orchestration.sensors.arrival_watch import ArrivalWatch
from lake_assets.orchestration.shared.asset_keys import prefixed
from lake_assets.orchestration.shared.equal_keys import refuse_equal_keys
from lake_assets.orchestration.shared.run_tags import mart_tag, run_tags, scope_tag
from lake_assets.rounds.arrivals import Input, opened_input, unconfirmed_sentence
from lake_assets.rounds.round import plan_round
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.targets import Target
from lake_assets.words import does, many

REPORT_SECONDS = 30.0
"""The shortest interval between two reports of landed files to Dagster. A report is an event for each table, and
Dagster keeps events for ever."""


def file_sensor(
    runtime: LakeRuntime, source: str, targets: Sequence[Target], marts: Sequence[Mart] = ()
) -> dg.SensorDefinition:
    """The sensor of one source; running by default."""
    own = [target for target in targets if target.source == source]
    keys = [dg.AssetKey(target.asset_key) for target in own]
    batches = batch_keys(source, targets, own)
    shared_marts = [dg.AssetKey(mart.asset_key) for mart in marts if can_share_run(mart, source)]
    watch = ArrivalWatch(source_scan(runtime, source))
    reports = _Reports(runtime, source)

    @dg.sensor(
        name=prefixed(runtime.lake, f"{source}_files"),
        target=dg.AssetSelection.assets(*keys, *batches, *shared_marts),
        minimum_interval_seconds=1,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Reports new DMS files of {source} as bronze events, and requests one run for all their tables.",
        tags={"source": source},
    )
    def files(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        refuse_equal_keys(context, runtime.lake)

        def evaluate() -> dg.SensorResult:
            found = watch.poll(polling.WINDOW_SECONDS)
            events = reports.due_events(context.instance)
            ready, reasons = ready_targets(context.instance, runtime, own)
            if ready:
                included = marts_to_include(
                    context.instance, runtime, source, marts, ready, context.repository_def
                )
                request = _request(runtime.lake, source, targets, ready, included, context.repository_def)
                return dg.SensorResult(run_requests=[request], asset_events=events)
            summary = _summary(found, watch.seconds, runtime, source)
            return dg.SensorResult(
                skip_reason=polling.sentence(reasons, f"no file is pending: {summary}"), asset_events=events
            )

        return polling.poll(evaluate, runtime.lake.automation)

    return files


class _Reports:
    """Gives the events of landed files at intervals, because Dagster keeps them for ever."""

    def __init__(self, runtime: LakeRuntime, source: str) -> None:
        self._runtime = runtime
        self._source = source
        self._unreported = UnreportedFiles(runtime, source)
        self._days: DayTotals | None = None
        """Made by the first report: defining the sensor opens no catalog."""
        self._reported: float | None = None
        """When events were last returned, by the monotonic clock."""

    def due_events(self, instance: dg.DagsterInstance) -> list[dg.AssetMaterialization]:
        """The events that are due now. The continuous run reports its source's files itself."""
        now = time.monotonic()
        if self._reported is not None and now - self._reported < REPORT_SECONDS:
            return []
        if alive_runs(instance, self._runtime, [self._source]):
            return []
        files = self._unreported.take(instance)
        if files:
            self._reported = now
        self._days = self._days or DayTotals(self._runtime.file_log, self._source)
        return landed_events(self._runtime.lake, self._source, files, self._days)


def source_scan(runtime: LakeRuntime, source: str) -> Callable[[], Discovery]:
    """A function that scans the source. With S3 events, it waits up to a second for the next one."""
    opened: list[Input] = []

    def scan() -> Discovery:
        if not opened:
            # Opened at the first scan: defining the sensor needs neither the bucket nor the queue.
            opened.append(opened_input(runtime, source))
        return opened[0].scan(wait_seconds=1)

    return scan


def ready_targets(
    instance: dg.DagsterInstance, runtime: LakeRuntime, targets: Sequence[Target]
) -> tuple[list[Target], list[str]]:
    """The tables to request now, and the reasons why other pending tables are not requested."""
    if alive := alive_runs(instance, runtime, sorted({target.source for target in targets})):
        # A second run would apply nothing twice, but start a process for nothing.
        return [], [f"run {alive[0][:8]} keeps its tables current"]
    keys = [dg.AssetKey(target.asset_key) for target in targets]
    if in_flight := assets_in_flight(instance, keys):
        # One run at a time for a source: each has its own Spark. The next run applies the files that arrive meanwhile.
        runs = sorted({run for ids in in_flight.values() for run in ids})
        return [], [
            f"run {', '.join(run[:8] for run in runs)} is under way for {many(len(in_flight), 'table')}"
        ]

    def seconds_left(target: Target) -> float:
        return check_retry_wait(instance, dg.AssetCheckKey(dg.AssetKey(target.asset_key), APPLIED))

    plan = plan_round(runtime, targets, seconds_left)
    return list(plan.ready), plan.reasons


def _summary(found: Discovery | None, seconds: float, runtime: LakeRuntime, source: str) -> str:
    """What the scan that has taken so long has found; None: it goes on."""
    if runtime.lake.sources[source].stream is not None:
        return "another run lands the messages of the stream"
    location = runtime.store(source).location
    return _scan_summary(found, location) if found else f"still scanning {location}: {seconds:.0f} s"


def _scan_summary(found: Discovery, location: str) -> str:
    if found.unconfirmed:
        return unconfirmed_sentence(*min(found.unconfirmed.items()))
    if not found.listed:
        return f"{location} holds no files"
    strange = len(found.unknown) + sum(found.unconfigured.values())
    if not strange:
        return f"{many(found.listed, 'file')} in {location}"
    example = found.unknown[0].key if found.unknown else f"files of {min(found.unconfigured)}"
    return (
        f"{many(found.listed, 'file')} in {location}, of which {strange} {does(strange, 'are')} of no configured "
        f"table, such as {example}"
    )


def _request(
    lake: LakeConfig,
    source: str,
    targets: Sequence[Target],
    ready: Sequence[Target],
    shared_marts: Sequence[Mart],
    repository: dg.RepositoryDefinition | None,
) -> dg.RunRequest:
    tables = [dg.AssetKey(target.asset_key) for target in ready]
    marts = [dg.AssetKey(mart.asset_key) for mart in shared_marts]
    selection = [*tables, *sorted(batch_keys(source, targets, ready)), *marts]
    return dg.RunRequest(
        asset_selection=selection,
        asset_check_keys=checks_of_run(repository, selection),
        tags=scope_tag(lake, "silver", source)
        | run_tags(lake)
        | {mart_tag(mart.name, mart.key_prefix): "1" for mart in shared_marts},
    )
