"""The sensor for new DMS files of a source.

It asks "is there a logged file above a table's position, no run under way for it, and is it not backing off?" at every
look, and needs neither a cursor nor run keys: deleting Dagster's storage loses and repeats nothing. Within a tick it
looks again and again, because the daemon's own loop is 5 s.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

from lake_assets.automation.backoff import check_backing_off
from lake_assets.automation.in_flight import assets_in_flight
from lake_assets.bronze.arrivals import log_arrivals
from lake_assets.bronze.assets import landed_events
from lake_assets.checks.silver_checks import APPLIED
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.assets import batch_keys
from lake_assets.silver.pending import table_states
from lake_assets.silver.plan import Batch
from lake_assets.silver.targets import Target

SCOPE = "lake_assets/scope"


def file_sensor(runtime: LakeRuntime, source: str, targets: Sequence[Target]) -> dg.SensorDefinition:
    """The sensor of one source; running by default."""
    own = [target for target in targets if target.source == source]
    keys = [dg.AssetKey(target.asset_key) for target in own]
    batches = batch_keys(source, targets, own)

    @dg.sensor(
        name=f"{source}_files",
        target=dg.AssetSelection.assets(*keys, *batches),
        minimum_interval_seconds=1,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"New DMS files of {source} become bronze events, and one run for all tables that have any.",
        tags={"source": source},
    )
    def files(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        automation = runtime.lake.automation
        end = time.monotonic() + automation.poll_window.total_seconds()
        while True:
            found = log_arrivals(runtime, source)
            ready, reasons = ready_targets(context.instance, runtime, own)
            if found.logged or ready:
                events = landed_events(runtime.lake, source, found.logged)
                requests = [_request(source, targets, ready)] if ready else []
                return dg.SensorResult(run_requests=requests, asset_events=events)
            if time.monotonic() + automation.poll_interval.total_seconds() > end:
                return dg.SkipReason("; ".join(reasons) or "no file is pending")
            time.sleep(automation.poll_interval.total_seconds())

    return files


def ready_targets(
    instance: dg.DagsterInstance, runtime: LakeRuntime, targets: Sequence[Target]
) -> tuple[list[Target], list[str]]:
    """Tables to be requested now, and for the other pending ones why not."""
    automation = runtime.lake.automation
    pending = [state for state in table_states(runtime, targets, datetime.now(UTC)) if state.next_batch is not None]
    if not pending:
        return [], []
    keys = [dg.AssetKey(target.asset_key) for target in targets]
    in_flight = assets_in_flight(instance, keys, automation.heartbeat_timeout.total_seconds())
    if in_flight:
        # One run at a time for a source: each has a Spark of its own, and what comes meanwhile is the next one's.
        return [], [f"a run is under way for {len(in_flight)} tables"]
    ready, reasons = [], []
    for state in pending:
        key = dg.AssetKey(state.target.asset_key)
        wait = check_backing_off(
            instance, dg.AssetCheckKey(key, APPLIED), automation.backoff_base, automation.backoff_max
        )
        if not isinstance(state.next_batch, Batch):
            reasons.append(f"{state.target.identifier}: {state.next_batch.reason if state.next_batch else ''}")
        elif wait > 0:
            reasons.append(f"{state.target.identifier} failed and is tried again in {wait:.0f} s")
        else:
            ready.append(state.target)
    return ready, reasons


def _request(source: str, targets: Sequence[Target], ready: Sequence[Target]) -> dg.RunRequest:
    selection = [dg.AssetKey(target.asset_key) for target in ready]
    return dg.RunRequest(
        asset_selection=[*selection, *sorted(batch_keys(source, targets, ready))],
        tags={SCOPE: f"silver/{source}"},
    )


