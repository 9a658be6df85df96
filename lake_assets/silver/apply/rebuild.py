"""Recomputing a silver table, or some of its keys, from its files.

The new rows are written to a branch and compared with the table; one fast-forward publishes them, so that a reader sees
the old rows or the new ones. Here: which files are read, and the comparison. Not here: applying (`apply_batch.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from pyiceberg.table import Table

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.config import LOGS, Mode
from lake_assets.errors import LakeError, Remedy, TableStopped
from lake_assets.iceberg.publish import Attempt
from lake_assets.iceberg.table_io import current_snapshot, live_rows, load_table, summary
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.planned import Planned, apply_planned, known_damage, refuse_lost_files, retrying
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.result import BatchResult
from lake_assets.silver.plan.members import epoch_members, living_files, newest_versions
from lake_assets.silver.plan.plan import Batch
from lake_assets.silver.plan.planner import whole_table
from lake_assets.silver.plan.table_state import changed_folders, plan_table
from lake_assets.silver.table.folders import other_folders
from lake_assets.silver.table.guard import foreign_commits, refuse_other_source
from lake_assets.silver.table.log_mark import why_other_log
from lake_assets.silver.table.masks import lost_masks, other_masks
from lake_assets.silver.table.position import Position, PositionLost, read_position
from lake_assets.silver.table.shape import has_other_shape, refuse_other_shape
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import quoted
from lake_assets.words import many


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The outcome of a rebuild."""

    files: int
    rows_only_before: int
    """Rows that the table had and the files do not give."""
    rows_only_after: int
    reshaped: bool
    """Whether the table had another shape or other masks before, so that its rows cannot be compared."""
    published: BatchResult | None
    """None when nothing differs, or the caller did not want to publish."""

    @property
    def equal(self) -> bool:
        return not (self.rows_only_before or self.rows_only_after or self.reshaped)


class _NotPublished(LakeError):
    """Ends the attempt after the comparison, without publishing the branch."""


def rebuild(
    runtime: LakeRuntime,
    target: Target,
    *,
    publish: bool = True,
    by_today: bool = False,
    stage: Callable[[str], None] = lambda name: None,
) -> Rebuilt:
    """Recomputes the whole table from its files, each read by the contract by which it was first read (`by_today`: all
    by that of lake.yaml). Pending files stay pending. Starts over when another run publishes meanwhile. Raises
    TableStopped when files are gone, ApplyConflict after some attempts."""

    plan = partial(whole_table, mode=target.mode)
    return retrying(target, lambda: _attempt_once(runtime, target, plan, publish, by_today, stage))


def replay(
    runtime: LakeRuntime,
    target: Target,
    first: str,
    last: str | None = None,
    *,
    publish: bool = True,
    by_today: bool = False,
    stage: Callable[[str], None] = lambda name: None,
) -> Rebuilt:
    """Recomputes, from all files, the rows whose keys are in the files from `first` to `last` (keys in the bucket, in
    the order of the log). Raises as `rebuild`, and TableStopped for a table that is not of mode current."""
    if target.mode is not Mode.CURRENT:
        raise TableStopped(
            target.table,
            f"{target.identifier} has the mode {target.mode.value}; only mode current is replayed by keys.",
            "Use lake-assets rebuild.",
        )

    def plan(position: Position, logged: Sequence[LoggedFile]) -> Batch:
        members = epoch_members(logged, position.log_offset)
        bounds = [_offset(target, members, key) for key in (first, last or members[-1].key)]
        files = tuple(file for file in members if bounds[0] <= file.offset <= bounds[1])
        if any(file.kind is FileKind.LOAD for file in files):
            raise TableStopped(
                target.table, "the files from there on include the full load.", "Use lake-assets rebuild."
            )
        return Batch("cdc", files, position.log_offset, position.epoch, cut=position.cut, again=True)

    return retrying(target, lambda: _attempt_once(runtime, target, plan, publish, by_today, stage))


def _attempt_once(
    runtime: LakeRuntime,
    target: Target,
    plan: Callable[[Position, Sequence[LoggedFile]], Batch],
    publish: bool,
    by_today: bool,
    stage: Callable[[str], None],
) -> Rebuilt:
    table = load_table(runtime.catalog, target.identifier)
    refuse_other_source(target, table)
    position, batch, logged = plan_again(runtime, target, table, plan)
    if not publish and table is not None:
        refuse_other_shape(target, table)  # a comparison would have to change its columns
    if (lost := lost_masks(target, position)) is not None:
        raise lost
    folders = other_folders(target, position, changed_folders(runtime, target, position))
    if folders is not None and (not publish or batch.kind != "full_load"):
        raise folders
    masks = other_masks(target, position, runtime.contracts.of(target.identifier))
    if masks is not None and (not publish or batch.kind != "full_load"):
        raise masks
    damaged = known_damage(runtime, target)
    refuse_lost_files(runtime, target, batch, logged, damaged)
    found: list[tuple[int, int]] = []
    reshape = masks is not None or (table is not None and has_other_shape(target, table))

    def compare(context: BatchContext, current: Attempt) -> None:
        found.append((0, 0) if reshape else _differences(context, current))
        # Publishes above another writer's commit even if the rows are equal, so that the table is no longer stopped.
        stopped = folders is not None or reshape or foreign_commits(table) or not position.log_offset
        if not publish or not (stopped or found[-1] != (0, 0)):
            raise _NotPublished(target.identifier)
        lost_rows = found[-1][0] if masks is None else _fewer_rows(context, current)
        _refuse_loss(target, position, batch, logged, lost_rows)

    planned = Planned(target, table, position, batch, logged, by_today=by_today, reshape=reshape)
    try:
        result = apply_planned(runtime, planned, damaged, stage, compare)
    except _NotPublished:
        result = None
    return Rebuilt(len(batch.files), *found[-1], reshape, result)


def plan_again(
    runtime: LakeRuntime,
    target: Target,
    table: Table | None,
    plan: Callable[[Position, Sequence[LoggedFile]], Batch],
) -> tuple[Position, Batch, list[LoggedFile]]:
    """The table's position, the batch that recomputes it, and its files up to the position."""
    try:
        position = read_position(table)
    except PositionLost:
        return _from_the_beginning(runtime, target, table)
    if position.snapshot_id is None or not position.log_offset:
        raise TableStopped(
            target.table,
            f"{target.identifier} has nothing to compare with yet.",
            "Run lake-assets sync first.",
        )
    change = changed_folders(runtime, target, position)
    upto = position.log_offset if change is None else change.upto
    # A later copy has the content of an earlier file at its new key.
    files = [
        file
        for file in runtime.file_log.files(target.source, target.table)
        if file.offset <= upto or file.copy_of is not None
    ]
    known, identity = files if change is None else change.passed, runtime.file_log.identity()
    if (other := why_other_log(position.log_offset, position.mark, identity, known)) is not None:
        raise TableStopped(
            target.table, f"{target.identifier}: {other}", "Run `lake-assets recover`."
        ).mended_by(Remedy.RECOVER)
    if not upto and (stopped := other_folders(target, position, change)) is not None:
        raise stopped  # it would have no file
    logged = living_files(files, target.mode, target.config.on_vanished)
    return position, plan(replace(position, log_offset=upto), logged), logged


def _from_the_beginning(
    runtime: LakeRuntime, target: Target, table: Table | None
) -> tuple[Position, Batch, list[LoggedFile]]:
    """As `plan_again`, for a table whose position is lost: as if it were empty."""
    head = current_snapshot(table)
    assert head is not None, "its rows are in a snapshot"
    files = runtime.file_log.files(target.source, target.table)
    recorded = runtime.contracts.of(target.identifier)
    planned = plan_table(runtime, target, Position(), files, recorded, datetime.now(UTC), in_one_batch=True)
    if planned.stop is not None:
        raise planned.stop.error(target.table)
    if planned.batch is None:
        raise TableStopped(
            target.table,
            f"{target.identifier} cannot be computed from its files yet: {planned.waiting or 'it has none'}.",
            "Run it again when they are in the bucket.",
        )
    position = Position(snapshot_id=head.snapshot_id, rows=live_rows(summary(head)))
    logged = living_files(files, target.mode, target.config.on_vanished)
    return position, replace(planned.batch, kind="full_load", again=True), logged


def _differences(context: BatchContext, current: Attempt) -> tuple[int, int]:
    """How many rows only the table has, and how many only the branch has."""
    columns = [quoted(column.name) for column in context.target.columns]
    before = context.main.select(*columns)
    after = context.spark.table(current.address).select(*columns)
    return before.exceptAll(after).count(), after.exceptAll(before).count()


def _fewer_rows(context: BatchContext, current: Attempt) -> int:
    """By how many rows the branch is smaller. Rows with other masks can be compared only by their number."""
    return max(0, context.position.rows - context.spark.table(current.address).count())


def _refuse_loss(
    target: Target, position: Position, batch: Batch, logged: Sequence[LoggedFile], lost: int
) -> None:
    """Raises TableStopped for a rebuild that would lose rows which no file has any more."""
    cause = _cause_of_loss(target, position, batch, logged) if lost else None
    if cause is None:
        return
    raise TableStopped(
        target.table,
        f"{target.identifier} {cause}; {many(lost, 'row', 'are')} in no file any more.",
        "They are only in that table now, which stays as it is. To go on without them, rename it (ALTER TABLE … "
        "RENAME TO …) and run lake-assets sync, which makes a new table from the files.",
    )


def _cause_of_loss(
    target: Target, position: Position, batch: Batch, logged: Sequence[LoggedFile]
) -> str | None:
    """Why rows that only the table has can be of files that are gone; None if they cannot."""
    newest = newest_versions(logged)
    again = {file.key for file in logged} & {f.key for f in set(logged) - set(newest) if not f.retry}
    if again and target.mode is Mode.CHANGE_LOG:
        return f"has rows of files that were written again since, the first of them {min(again)}"
    # Where the position is lost, the file log can be another one, and lack the files that the table was computed from.
    if position.log_offset:
        return None
    if target.mode in LOGS:
        return "has rows of files that lake_ops.bronze_files does not have"
    if target.config.cdc_only or any(file.kind is FileKind.LOAD for file in batch.files):
        return None
    return "has rows of a full load that lake_ops.bronze_files does not have"


def _offset(target: Target, members: Sequence[LoggedFile], key: str) -> int:
    for file in members:
        if file.key == key:
            return file.offset
    raise TableStopped(
        target.table,
        f"{key} is not a file that {target.identifier} was computed from.",
        "Name its key below the source's location, as `lake-assets status` and the events of bronze do.",
    )
