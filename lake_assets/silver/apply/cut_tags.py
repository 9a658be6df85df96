"""Tags at the consistent cut: on every table of a source, the snapshot that shows all transactions up to it.

A query that reads several tables at one tag sees whole transactions, whatever is applied meanwhile. Here: which
snapshot gets the tag, and creating and dropping tags. Not here: finding the cut (`silver/plan/cut.py`), marts that read
at a cut (`gold/at_cut.py`).
"""

import logging
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.scan.discovery import anything_unlogged
from lake_assets.iceberg.table_io import load_table
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.plan.cut import Cut, source_cut
from lake_assets.silver.plan.members import epoch_members, living_files
from lake_assets.silver.table.position import Position, read_position
from lake_assets.silver.table.targets import Target, source_targets
from lake_assets.spark.sql import Sql, sql, table_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = re.compile(r"cut_(\d{8}T\d{6})Z")
_FORMAT = "%Y%m%dT%H%M%S"

logger = logging.getLogger(__name__)


def tag_of(cut: datetime) -> str:
    """Such as `cut_20260301T081500Z`: sorts by time, and is a name in every engine."""
    return f"cut_{cut.astimezone(UTC):{_FORMAT}}Z"


def cut_of(tag: str) -> datetime | None:
    """The cut of a tag; None for a tag that is not ours."""
    match = _NAME.fullmatch(tag)
    return datetime.strptime(match[1], _FORMAT).replace(tzinfo=UTC) if match is not None else None


def cut_tags(table: Table) -> dict[datetime, int]:
    """The table's cuts and their snapshots."""
    return {
        cut: ref.snapshot_id
        for name, ref in table.metadata.refs.items()
        if ref.snapshot_ref_type is SnapshotRefType.TAG and (cut := cut_of(name)) is not None
    }


def shows(target: Target, position: Position, files: Sequence[LoggedFile], found: Cut) -> bool:
    """Whether the table, at the position, shows exactly the transactions up to the cut. `files`: all its files in the
    log when the cut was found."""
    cut = found.upto
    if cut is None:
        return False
    living = living_files(files, target.mode, target.config.on_vanished)
    if position.snapshot_id is None or any(file.offset > position.log_offset for file in living):
        return False
    if position.cut is not None and position.cut != cut and (position.cut > cut or position.waiting):
        return False
    # A full load shows the time at which DMS read it; changes applied before the source had a cut may be of any time.
    at_start = target.dms.use_task_start_time_for_full_load_timestamp
    loads = [f for f in epoch_members(living, position.log_offset) if f.kind is FileKind.LOAD]
    read = [f.last_modified if at_start else f.written_at for f in loads]
    marks = [f.last_modified for f in files if f.kind is FileKind.VANISHED]
    applied = [position.max_commit_ts] if position.max_commit_ts is not None else []
    return found.quiet or all(moment <= cut for moment in (*read, *applied, *marks))


@dataclass(frozen=True, slots=True)
class SourceCut:
    """The cut of one source in one round."""

    runtime: LakeRuntime
    source: str
    cut: Cut
    logged: Mapping[str, Sequence[LoggedFile]]
    """By `schema.table`, all files in the log when the cut was found."""

    @classmethod
    def of(cls, runtime: LakeRuntime, source: str, as_of: datetime) -> "SourceCut":
        """The cut by the log at a moment, UTC. A source without new files in the log is asked once more before it
        counts as quiet: perhaps only the scans have stopped, or the process that lands its stream."""
        settings = runtime.lake.sources[source].consistent_cut
        logged: dict[str, list[LoggedFile]] = defaultdict(list)
        if settings is not None:
            for file in runtime.file_log.files(source):
                if file.logged_at <= as_of:
                    logged[file.qualified_table].append(file)
        files = [file for own in logged.values() for file in own]
        found = source_cut(settings, files, as_of)
        if found.quiet and _has_unlogged(runtime, source):
            found = source_cut(settings, files, max(file.logged_at for file in files))
        return cls(runtime, source, found, logged)

    def tag(self) -> None:
        """Tags the source's tables that show the cut, and drops their oldest tags. Logs a warning for a table that
        cannot be tagged; it keeps its earlier tags."""
        config = self.runtime.lake.sources[self.source]
        if config.consistent_cut is None or self.cut.upto is None:
            return
        keep, threads = config.consistent_cut.keep, self.runtime.lake.automation.apply_threads
        with ThreadPoolExecutor(threads, thread_name_prefix="tag") as pool:
            for target in source_targets(self.source, config):
                pool.submit(self._tag, target, keep)

    def _tag(self, target: Target, keep: int) -> None:
        cut = self.cut.upto
        assert cut is not None, "the caller returns without a cut"
        try:
            table = load_table(self.runtime.catalog, target.identifier)
            if table is None:
                return
            tags, position = cut_tags(table), read_position(table)
            # A repair of a quiet source's table moves its tag; a busy source's table gets the next tag.
            known = tags.get(cut) is not None and (not self.cut.quiet or tags[cut] == position.snapshot_id)
            if known or any(later > cut for later in tags):
                return
            if shows(target, position, self.logged.get(target.table, ()), self.cut):
                _move_tags(self.runtime, target, position, tags, cut, keep)
        except Exception as error:  # noqa: BLE001  (its rows are right, and the next round tags again)
            logger.warning("%s could not be tagged at %s: %s", target.identifier, tag_of(cut), error)


def _has_unlogged(runtime: LakeRuntime, source: str) -> bool:
    config = runtime.lake.sources[source]
    if config.stream is not None:
        return not runtime.backlogs.of(source, config.stream).is_empty
    return anything_unlogged(source, config, runtime.store(source), runtime.file_log)


def _move_tags(
    runtime: LakeRuntime,
    target: Target,
    position: Position,
    tags: Collection[datetime],
    cut: datetime,
    keep: int,
) -> None:
    spark = runtime.sessions.root()
    name = table_address(runtime.lake.catalog.name, target.identifier)
    # Without RETAIN, which counts from the snapshot's commit: a quiet table's tag would expire at once.
    assert position.snapshot_id is not None, "`shows` requires a snapshot"
    statement = sql(
        "CREATE OR REPLACE TAG {tag} AS OF VERSION {snapshot}",
        tag=tag_of(cut),
        snapshot=position.snapshot_id,
    )
    _alter(spark, name, statement)
    for old in sorted({*tags} - {cut}, reverse=True)[keep - 1 :]:
        _alter(spark, name, sql("DROP TAG IF EXISTS {tag}", tag=tag_of(old)))


def _alter(spark: "SparkSession", table: Sql, what: Sql) -> None:
    spark.sql(sql("ALTER TABLE {table} {what}", table=table, what=what)).collect()
