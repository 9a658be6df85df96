"""Deletes old runs of the lake from Dagster's history, which otherwise grows for ever.

Here: which runs, and what Dagster's own deletion leaves behind. Not here: the settings (`config/automation.py`). A run
stays as long as it holds the newest materialization of a table or of a partition: without the run, the UI would show
that table or partition as missing. Correctness needs none of the history: every position is in the Iceberg tables.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
from dagster import DagsterEventType, DagsterRunStatus, RunsFilter

from lake_assets.config import LakeConfig, MaintenanceConfig
from lake_assets.orchestration.shared.asset_keys import prefixed
from lake_assets.orchestration.shared.equal_keys import refuse_equal_keys
from lake_assets.orchestration.shared.run_tags import own_tag
from lake_assets.words import many

PAGE = 100
"""The most runs that are looked at in one call: a deletion takes some 20 ms, and a sensor's tick a minute at most."""


class OldRuns:
    """The old runs of the lake. Each call looks at the next PAGE of them, and starts over after the last one."""

    def __init__(self, settings: MaintenanceConfig, own: dict[str, str]) -> None:
        """`own`: the tag of the lake's runs."""
        self._own = own
        self._kinds = (
            ([DagsterRunStatus.SUCCESS], settings.keep_runs),
            ([DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED], settings.keep_failed_runs),
        )
        self._after: dict[int, str | None] = {}
        """By kind, the last run that was looked at and stays."""
        self._has_more = False

    def delete(self, instance: dg.DagsterInstance, now: datetime | None = None) -> int:
        """Deletes those of the next page that the UI does not need; returns their number. `now`: UTC."""
        moment = now or datetime.now(UTC)
        self._has_more = False
        return sum(
            self._delete(instance, number, statuses, moment - keep)
            for number, (statuses, keep) in enumerate(self._kinds)
            if keep is not None
        )

    def delete_all(self, instance: dg.DagsterInstance, now: datetime | None = None) -> int:
        """As `delete`, for all pages."""
        deleted = self.delete(instance, now)
        while self._has_more:
            deleted += self.delete(instance, now)
        return deleted

    def _delete(
        self,
        instance: dg.DagsterInstance,
        number: int,
        statuses: Sequence[DagsterRunStatus],
        before: datetime,
    ) -> int:
        old = RunsFilter(tags=self._own, statuses=statuses, updated_before=before)
        after = self._after.get(number)
        records = instance.get_run_records(old, limit=PAGE, ascending=True, cursor=after)
        newest: dict[tuple[dg.AssetKey, str | None], str | None] = {}
        kept = after
        deleted = 0
        for record in records:
            run_id = record.dagster_run.run_id
            if _is_needed(instance, run_id, newest):
                kept = run_id
            else:
                _delete_run(instance, run_id)
                deleted += 1
        # A deleted run cannot be a cursor: Dagster would find nothing after it.
        is_last = len(records) < PAGE
        self._has_more |= not is_last
        self._after[number] = None if is_last else kept
        return deleted


def _is_needed(
    instance: dg.DagsterInstance, run_id: str, newest: dict[tuple[dg.AssetKey, str | None], str | None]
) -> bool:
    """Whether the run has the newest materialization of a table or a partition. `newest`: by table and partition, the
    run that has it, as far as known."""
    made = instance.get_records_for_run(run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION)
    for record in made.records:
        if record.asset_key is None:
            continue
        place = record.asset_key, record.partition_key
        if place not in newest:
            partitions = None if record.partition_key is None else [record.partition_key]
            wanted = dg.AssetRecordsFilter(record.asset_key, asset_partitions=partitions)
            found = instance.fetch_materializations(wanted, limit=1).records
            newest[place] = found[0].run_id if found else None
        if newest[place] == run_id:
            return True
    return False


def _delete_run(instance: dg.DagsterInstance, run_id: str) -> None:
    instance.delete_run(run_id)
    with suppress(NotImplementedError):
        instance.compute_log_manager.delete_logs(prefix=[run_id])
    # With SQLite, each run has a file. Dagster deletes only its rows, so 400 KB would stay.
    shard = getattr(instance.event_log_storage, "path_for_shard", None)
    if shard is not None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{shard(run_id)}{suffix}").unlink(missing_ok=True)


def retention_sensor(lake: LakeConfig) -> dg.SensorDefinition:
    """Deletes the old runs of the lake; running by default."""
    old = OldRuns(lake.maintenance, own_tag(lake))

    @dg.sensor(
        name=prefixed(lake, "old_runs"),
        minimum_interval_seconds=300,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Deletes old runs of the lake from Dagster's history (maintenance.keep_runs in lake.yaml).",
    )
    def old_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        refuse_equal_keys(context, lake)
        return dg.SkipReason(f"{many(old.delete(context.instance), 'old run')} deleted")

    return old_runs
