"""A silver table made anew from its files, or some of its keys.

The new rows are written to a branch and compared with the table; one fast-forward makes them the table, so that a
reader has the old rows or the new ones. Here: what is read again, and the comparison. Not here: applying (`apply.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lake_assets.bronze.file_log import LoggedFile
from lake_assets.bronze.keys import FileKind
from lake_assets.bronze.vanished import missing_files
from lake_assets.config import Mode
from lake_assets.errors import LakeError, TableStopped
from lake_assets.iceberg.publish import Attempt
from lake_assets.iceberg.tables import load_table
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.batch import BatchResult
from lake_assets.silver.plan import Batch, epoch_members, living_files, newest_versions, with_requests
from lake_assets.silver.planned import Planned, apply_planned, known_damage, retrying
from lake_assets.silver.position import Position, read_position
from lake_assets.silver.shape import has_other_shape, refuse_other_shape
from lake_assets.silver.targets import Target
from lake_assets.silver.work import Work
from lake_assets.spark.sql import quoted


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What became of a table that was made anew."""

    files: int
    rows_only_before: int
    """Rows that the table had and the files do not give."""
    rows_only_after: int
    reshaped: bool
    """Whether the table had another shape before, so that its rows cannot be compared."""
    published: BatchResult | None
    """None when nothing differs, or nothing was to be published."""

    @property
    def equal(self) -> bool:
        return not (self.rows_only_before or self.rows_only_after or self.reshaped)


class _NotPublished(LakeError):
    """The comparison is known, and the branch is not wanted."""


def rebuild(
    runtime: LakeRuntime,
    target: Target,
    *,
    publish: bool = True,
    by_today: bool = False,
    stage: Callable[[str], None] = lambda name: None,
) -> Rebuilt:
    """The whole table from its files, each read by the contract that it was first read by (`by_today`: all by that of
    lake.yaml). Files that are pending stay so. Starts over when another run publishes meanwhile. Raises TableStopped
    when files are gone, ApplyConflict after some attempts."""

    def plan(position: Position, logged: Sequence[LoggedFile]) -> Batch:
        if target.mode is Mode.CHANGE_LOG:
            members = _of_a_change_log(target, logged)
        else:
            members = epoch_members(logged, position.epoch, position.log_offset)
        return Batch("full_load", members, position.log_offset, position.epoch, cut=position.cut)

    return retrying(target, lambda: _again(runtime, target, plan, publish, by_today, stage))


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
    """The keys of which the files from `first` to `last` (keys in the bucket, in the order of the log) speak, from all
    files. Raises as `rebuild`, and for a table that is no table of current rows."""
    if target.mode is not Mode.CURRENT:
        raise TableStopped(
            target.table,
            f"{target.identifier} is a {target.mode.value}, whose rows have no keys to replay.",
            "Use lake-assets rebuild.",
        )

    def plan(position: Position, logged: Sequence[LoggedFile]) -> Batch:
        members = epoch_members(logged, position.epoch, position.log_offset)
        bounds = [_offset(target, members, key) for key in (first, last or members[-1].key)]
        files = tuple(file for file in members if bounds[0] <= file.offset <= bounds[1])
        if any(file.kind is FileKind.LOAD for file in files):
            raise TableStopped(
                target.table, "the files from there on include the full load.", "Use lake-assets rebuild."
            )
        return Batch("cdc", files, position.log_offset, position.epoch, cut=position.cut)

    return retrying(target, lambda: _again(runtime, target, plan, publish, by_today, stage))


def _again(
    runtime: LakeRuntime,
    target: Target,
    plan: Callable[[Position, Sequence[LoggedFile]], Batch],
    publish: bool,
    by_today: bool,
    stage: Callable[[str], None],
) -> Rebuilt:
    table = load_table(runtime.catalog, target.identifier)
    position = read_position(table)
    if position.snapshot_id is None or not position.log_offset:
        raise TableStopped(
            target.table,
            f"{target.identifier} has nothing to compare with yet.",
            "Run lake-assets sync first.",
        )
    files = runtime.file_log.files(target.source, target.table, upto=position.log_offset)
    logged = living_files(files, target.mode, target.config.on_vanished)
    if not publish and table is not None:
        refuse_other_shape(target, table)  # to compare, columns would have to be changed
    batch = plan(position, logged)
    damaged = known_damage(runtime, target)
    needed = [file for file in batch.files if (file.key, file.version) not in damaged]
    if missing := missing_files(runtime.store(target.source), needed):
        raise TableStopped(
            target.table,
            f"{len(missing)} of the {len(needed)} files that it was made of are gone from the bucket, the first of "
            f"them {missing[0].key}.",
            "Put them back, or have DMS reload the table.",
        )
    found: list[tuple[int, int]] = []

    reshape = table is not None and has_other_shape(target, table)

    def compare(work: Work, current: Attempt) -> None:
        found.append((0, 0) if reshape else _differences(work, current))
        if not publish or (found[-1] == (0, 0) and not reshape):
            raise _NotPublished(target.identifier)

    planned = Planned(target, table, position, batch, logged, again=True, by_today=by_today, reshape=reshape)
    try:
        result = apply_planned(runtime, planned, damaged, stage, compare)
    except _NotPublished:
        result = None
    return Rebuilt(len(batch.files), *found[-1], reshape, result)


def _differences(work: Work, current: Attempt) -> tuple[int, int]:
    """Rows of the table that the branch does not have, and the other way round."""
    tables = [work.spark.table(name) for name in (current.table, current.address)]
    columns = [quoted(column.name) for column in work.target.columns]
    before, after = (table.select(*columns) for table in tables)
    return before.exceptAll(after).count(), after.exceptAll(before).count()


def _of_a_change_log(target: Target, logged: Sequence[LoggedFile]) -> tuple[LoggedFile, ...]:
    newest = newest_versions(logged)
    if lost := sorted(
        {file.key for file in logged} & {f.key for f in set(logged) - set(newest) if not f.retry}
    ):
        raise TableStopped(
            target.table,
            f"{target.identifier} has rows of files that were written again since, the first of them {lost[0]}.",
            "What they said is only in that table now, which cannot be made anew.",
        )
    return with_requests(newest, logged)


def _offset(target: Target, members: Sequence[LoggedFile], key: str) -> int:
    for file in members:
        if file.key == key:
            return file.offset
    raise TableStopped(
        target.table,
        f"{key} is no file that {target.identifier} is made of.",
        "Name its key below the source's location, as `lake-assets status` and the events of bronze do.",
    )
