"""The Dagster events of a table's turn: its materialization, its checks, and an event for each change of its columns
and for each time that all of its files had vanished.

Here: turning figures into events, which the UI plots. Not here: collecting the figures, giving the events to Dagster
(`silver_assets.py`, `orchestration/runs/continuous_run.py`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import dagster as dg

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.scan.vanished import before
from lake_assets.orchestration.assets.versions import silver_versions
from lake_assets.orchestration.checks.silver_checks import turn_evaluations
from lake_assets.orchestration.shared.asset_metadata import STAGE, grouped
from lake_assets.orchestration.shared.preview import preview
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.batch.result import OPERATIONS, BatchResult, TableResult
from lake_assets.silver.table.batch_latency import Spread
from lake_assets.silver.table.position import Position
from lake_assets.words import many

Event = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
POSITION = "position"
"""Metadata: the offset up to which the table has applied its files."""
SHOWN = {
    POSITION,
    "newest_commit",
    "lag_seconds",
    "latency_p50_seconds",
    "latency_p99_seconds",
    *(f"rows_{name}" for name in OPERATIONS.values()),
    "rows_quarantined",
    "files_quarantined",
    "unseen_updates",
    "unmatched",
    "rows_behind_cut",
    "consistent_cut",
    "rows_waiting_for_cut",
    "schema_changes",
    "seconds",
}
"""The figures that a materialization shows at once, unless they are zero."""
SUMS = {
    "bytes_replayed": "replayed_bytes",
    "files_superseded": "superseded_files",
} | {
    name: name
    for name in (
        "rows_read",
        "rows_quarantined",
        "files_quarantined",
        "rows_written",
        "rows_removed",
        "rows_behind_cut",
        "files",
        "bytes",
        "unseen_updates",
        "unmatched",
    )
}
"""The figures that are sums over the batches of a turn, with the names that a batch has for them."""


def state_metadata(position: Position) -> dict[str, Any]:
    """Metadata of a table at a position."""
    metadata: dict[str, Any] = {
        "dagster/row_count": position.rows,
        POSITION: position.log_offset,
        "epoch": position.epoch,
        "snapshot_id": str(position.snapshot_id),
    }
    if position.cut is not None:
        metadata["consistent_cut"] = dg.MetadataValue.timestamp(position.cut)
        metadata["rows_waiting_for_cut"] = position.waiting
    if position.max_commit_ts is not None:
        metadata["newest_commit"] = dg.MetadataValue.timestamp(position.max_commit_ts)
    return metadata


def turn_events(runtime: LakeRuntime, result: TableResult, now: datetime) -> Iterator[Event]:
    """All events of a table's turn, in order; `now` is UTC. There is no materialization if nothing was applied."""
    target = result.target
    logged = runtime.file_log.files(target.source, target.table)
    yield from schema_observations(result)
    yield from vanished_observations(result, logged)
    if result.batches:
        metadata = materialization_metadata(result, now)
        metadata |= preview(runtime, target.identifier, show=target.config.preview)
        versions = silver_versions(result.position)
        yield dg.AssetMaterialization(dg.AssetKey(target.asset_key), metadata=metadata, tags=versions)
    yield from turn_evaluations(result, logged, runtime.quarantine.open(target.identifier), now)


def schema_observations(result: TableResult) -> Iterator[dg.AssetObservation]:
    """One event for each change of the silver table's columns."""
    for batch in result.batches:
        for change in batch.schema_changes:
            yield dg.AssetObservation(
                dg.AssetKey(result.target.asset_key),
                description=change,
                metadata={"schema_change": change, **state_metadata(batch.position)},
            )


def vanished_observations(result: TableResult, logged: Sequence[LoggedFile]) -> Iterator[dg.AssetObservation]:
    """One event for each time that all files of the table had vanished; `logged` are all files of the table."""
    policy = result.target.config.on_vanished
    for batch in result.batches:
        for mark in batch.vanished:
            gone = before(mark, logged)
            yield dg.AssetObservation(
                dg.AssetKey(result.target.asset_key),
                description=f"DMS deletes a table's files at TRUNCATE and DROP: {gone}; on_vanished is {policy}.",
                metadata={
                    "vanished_at": dg.MetadataValue.timestamp(gone.seen_at),
                    "vanished_files": gone.files,
                    "vanished_bytes": gone.bytes,
                    "on_vanished": policy,
                    "rows_removed": batch.rows_removed,
                    **state_metadata(batch.position),
                },
            )


def inconsistencies(result: TableResult) -> Iterator[str]:
    """Warnings about changes that were applied but do not fit the table as it was."""
    if unseen := sum(batch.unseen_updates for batch in result.batches):
        yield (
            f"{many(unseen, 'update', 'are')} of rows that the table did not have, and that no before image explains; "
            "each became a row. An earlier file may be missing, or before images of a key that changed."
        )
    if unmatched := sum(batch.unmatched for batch in result.batches):
        yield (
            f"deletes and updates referred to {many(unmatched, 'row')} that the table did not have. The source may not "
            "show whole rows, an earlier file may be missing, or rows were changed while the full load ran."
        )


def materialization_metadata(result: TableResult, now: datetime) -> dict[str, Any]:
    """Figures over all the batches of one turn. The lag is `now` minus the newest applied source commit, in seconds.
    The latency is that of each batch's oldest change, from the source's commit (without commit times, from the file).
    """
    batches = result.batches
    seconds: Counter[str] = Counter()
    by_op: Counter[str] = Counter()
    for batch in batches:
        seconds.update(batch.seconds)
        by_op.update(batch.by_op)
    figures: dict[str, Any] = {
        **state_metadata(result.position),
        **{f"rows_{name}": by_op[op] for op, name in OPERATIONS.items()},
        **{name: sum(getattr(batch, field) for batch in batches) for name, field in SUMS.items()},
        "batches": len(batches),
        "kinds_of_batch": ", ".join(sorted({b.kind for b in batches})),
        "strategies": "; ".join(sorted({": ".join(filter(None, (b.strategy, b.reason))) for b in batches})),
        "schema_changes": "\n".join(change for batch in batches for change in batch.schema_changes),
        **{name: getattr(batches[-1], name) for name in ("data_files", "delete_files", "deleted_rows")},
        "seconds": round(sum(seconds.values()), 3),
        **{f"{STAGE}{stage}": round(value, 3) for stage, value in sorted(seconds.items())},
        **_latency(batches),
    }
    if (newest := result.position.max_commit_ts) is not None:
        figures["lag_seconds"] = round((now - newest).total_seconds(), 3)
    return grouped(figures, SHOWN)


def _latency(batches: Sequence[BatchResult]) -> dict[str, Any]:
    ways = [batch.passage for batch in batches if batch.passage is not None]
    took = Spread.of(way.from_file if way.from_commit is None else way.from_commit for way in ways)
    if took is None:
        return {}
    slowest = max(ways, key=lambda way: way.from_file)
    return slowest.metadata() | {"latency_p50_seconds": took.p50, "latency_p99_seconds": took.p99}
