"""What DMS and the bucket show about the parts of a full load, for the full-load gate.

Here: the gate of one table, which fetches DMS's report or lists the bucket. Not here: the decision
(`full_load_gate.py`), the API (`storage/dms_tasks.py`), the listing (`bronze/scan/discovery.py`).
"""

from collections.abc import Sequence
from functools import partial

from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.scan.discovery import unlogged_parts
from lake_assets.config import DmsTask, table_text
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.plan.full_load_gate import Gate, load_problem
from lake_assets.silver.table.targets import Target
from lake_assets.storage.dms_tasks import DmsUnavailable
from lake_assets.storage.object_store import StoreError
from lake_assets.words import many


def gate_of(runtime: LakeRuntime, target: Target, logged: Sequence[LoggedFile]) -> Gate | None:
    """The gate of a table, by its `full_load_complete`; None if it needs none."""
    policy, source = target.config.full_load_complete.when, runtime.lake.sources[target.source]
    if policy == "dms" and (task := source.task(target.table)) is not None:
        return partial(_dms_gate, runtime, target, logged, task)
    return partial(_bucket_gate, runtime, target, logged) if policy == "first_cdc" else None


def _dms_gate(
    runtime: LakeRuntime,
    target: Target,
    logged: Sequence[LoggedFile],
    task: DmsTask,
    parts: Sequence[LoggedFile],
) -> str | None:
    try:
        # A report from before the newest part may be about an earlier load.
        report = runtime.dms_tasks.report(task, newer_than=max(part.logged_at for part in parts))
    except DmsUnavailable as error:
        return f"full load of {many(len(parts), 'file')}: {error}"
    if (problem := load_problem(report, table_text(*parts[0].stream), parts)) is not None:
        return f"full load of {many(len(parts), 'file')}: {problem}"
    # Only now are all parts in the bucket; the last scan may have been too early to log them.
    return _bucket_gate(runtime, target, logged, parts)


def _bucket_gate(
    runtime: LakeRuntime, target: Target, logged: Sequence[LoggedFile], parts: Sequence[LoggedFile]
) -> str | None:
    source, store = runtime.lake.sources[target.source], runtime.store(target.source)
    try:
        # Files of a stream are logged as they are written.
        found = [] if source.stream is not None else unlogged_parts(source, store, parts, logged)
    except StoreError as error:
        return f"full load of {many(len(parts), 'file')}: {error}"
    return f"full load of {many(len(parts), 'file')}: {found[0]} is yet to be logged" if found else None
