"""Applying one batch to one silver table: read, collapse, write to a branch, check, publish.

Here: the order of those steps and what each mode writes. Not here: which files make the batch (`plan.py`), reading them
(`reading.py`), the rule of a key's state (`collapse.py`), repeated deliveries (`deliveries.py`), the commit that bears the
position (`commit.py`), the publishing protocol (`iceberg/publish.py`), retries and threads (`engine.py`).

The rows of a batch and the position it brings the table to are published by one fast-forward: a process killed
anywhere before it has published nothing, and one killed after it has nothing left to do.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.file_log import LoggedFile
from lake_assets.bronze.inspect import UnreadableFile, inspect_file
from lake_assets.bronze.keys import FileKind
from lake_assets.config import Mode
from lake_assets.errors import TableStopped
from lake_assets.iceberg.publish import Attempt, attempt
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.batch import BatchResult, Stopwatch, Written
from lake_assets.silver.collapse import ChangeFigures, collapse, events, key_columns
from lake_assets.silver.commit import count_rows, next_position, stamp
from lake_assets.silver.deliveries import IDENTITY, each_once, not_among
from lake_assets.silver.plan import Batch, epoch_members
from lake_assets.silver.position import Position
from lake_assets.silver.reading import Reading
from lake_assets.silver.targets import Target
from lake_assets.silver.touched_days import all_days, touched_days

KEYS_VIEW = "batch_keys"
MOST_BROADCAST_KEYS = 1_000_000


class BatchApply:
    """One batch of one table, in a Spark session of its own."""

    def __init__(
        self,
        runtime: LakeRuntime,
        spark: SparkSession,
        target: Target,
        position: Position,
        batch: Batch,
        logged: Sequence[LoggedFile],
        stage: Callable[[str], None] = lambda name: None,
    ) -> None:
        """`logged` are all files of the table in the log; `stage` is told the name of each stage as it begins."""
        self._runtime = runtime
        self._spark = spark
        self._target = target
        self._position = position
        self._batch = batch
        self._logged = logged
        self._stage = stage
        self._files = [self._inspected(file) for file in batch.files]
        self._watch = Stopwatch()
        self._replayed_bytes = 0

    def run(self) -> BatchResult:
        """Applies and publishes the batch. Raises TableStopped and ApplyConflict; nothing is published then."""
        catalog = self._runtime.lake.catalog.name
        with attempt(self._spark, catalog, self._target.identifier, self._position.snapshot_id) as current:
            if not self._files:
                written = Written("append", ChangeFigures(by_op=dict.fromkeys("IUD", 0)), keys=0, rows=0)
            elif self._batch.kind == "full_load":
                written = self._replace_table(current)
            else:
                written = self._apply_changes(current)
            position = next_position(self._position, self._batch, written.changes)
            result = self._result(written, position)
            with self._watch.stage("write"):
                stamp(self._spark, current, self._target, result, written)
            with self._watch.stage("check"):
                result = count_rows(self._runtime.catalog, current, self._target, self._position, result)
            self._stage("publish")
            with self._watch.stage("publish"):
                snapshot_id = current.publish()
        return replace(
            result, position=replace(result.position, snapshot_id=snapshot_id), seconds=self._watch.seconds
        )

    def _replace_table(self, current: Attempt) -> Written:
        """A full load and the CDC that belongs to it: the whole table anew, read and written in one pass."""
        reading = self._reading(self._files)
        changes = reading.good
        if self._may_repeat(late=False):
            changes = each_once(changes)
        counted = Observation()
        rows = self._rows(changes).observe(counted, F.count(F.lit(1)).alias("rows"))
        self._stage("write")
        with self._watch.stage("write"):
            rows.writeTo(current.address).option("check-nullability", False).overwrite(F.lit(True))
        seen = self._seen(reading)
        # What the position needs is known only now, so that the commit that bears it comes second, without rows.
        return Written(
            "overwrite", seen, keys=seen.rows, rows=int(counted.get["rows"]), touched=all_days(self._target)
        )

    def _apply_changes(self, current: Attempt) -> Written:
        """CDC: what the batch says of its keys replaces what the table says; a log only grows."""
        reading = self._reading(self._files)
        keyed = self._target.mode is Mode.CURRENT
        self._stage("read")
        with self._watch.stage("read"):
            # A checkpoint, not a cache: the delete's subquery and the append must see the very same rows.
            delta = (self._state(reading.good) if keyed else reading.good).localCheckpoint()
        seen = self._seen(reading)
        late = "" < seen.min_sequence <= self._position.max_sequence
        return self._replace_keys(current, delta, seen, late) if keyed else self._append(current, delta, seen, late)

    def _replace_keys(self, current: Attempt, delta: DataFrame, seen: ChangeFigures, late: bool) -> Written:
        if late:
            delta = self._replayed(delta)
        with self._watch.stage("read"):
            counts = delta.agg(F.count(F.lit(1)), F.count_if(~F.col("_tombstone"))).first()
            assert counts is not None, "an aggregate without grouping has one row"
        delta.createOrReplaceTempView(KEYS_VIEW)
        with self._watch.stage("touched_days"):
            touched = touched_days(self._spark, current.table, self._position.snapshot_id, self._target, KEYS_VIEW)
        self._stage("write")
        if self._position.rows:
            matches = self._target.key_matches("k", "t")
            with self._watch.stage("delete"):
                self._spark.sql(
                    f"DELETE FROM {current.address} AS t WHERE EXISTS (SELECT 1 FROM {KEYS_VIEW} AS k WHERE {matches})"
                )
        images = self._rows_of_state(delta)
        return Written("delete_and_append", seen, keys=counts[0], rows=counts[1], images=images, touched=touched)

    def _append(self, current: Attempt, delta: DataFrame, seen: ChangeFigures, late: bool) -> Written:
        rows = seen.rows
        if self._may_repeat(late=late):
            with self._watch.stage("repetitions"):
                delta = each_once(delta)
                if late:
                    delta = not_among(delta, self._applied_changes(current, delta))
                rows = delta.count()
        return Written("append", seen, keys=seen.rows, rows=rows, images=self._columns(delta))

    def _may_repeat(self, *, late: bool) -> bool:
        """Whether the batch of a log can hold a change twice, or one that was applied before, and that can be told.
        DMS writes a change again into another file, whose sequences then do not lie above all earlier ones."""
        several = sum(file.kind is FileKind.CDC for file in self._files) > 1
        is_log = self._target.mode is not Mode.CURRENT
        return is_log and self._target.dms.change_sequence_column is not None and (several or late)

    def _applied_changes(self, current: Attempt, delta: DataFrame) -> DataFrame:
        """What a late batch of a log may repeat, in the columns of IDENTITY."""
        if self._target.mode is Mode.CHANGE_LOG:
            bounds = delta.agg(F.min("_commit_ts"), F.max("_commit_ts")).first()
            assert bounds is not None, "an aggregate without grouping has one row"
            image = F.struct(*(F.col(f"`{column.name}`") for column in self._target.config.columns))
            # The table is partitioned by the day of its commits, and a repetition has the commit of its first delivery.
            return (
                self._spark.table(current.table)
                .filter(F.col("_commit_ts").between(*bounds))
                .select(*IDENTITY[:-1], image.alias("_image"))
            )
        members = epoch_members(self._logged, self._batch.epoch, self._position.log_offset)
        reading = self._reading([self._inspected(file) for file in members if file.kind is FileKind.CDC])
        self._replayed_bytes = sum(file.size for file in reading.files)
        applied = reading.good.localCheckpoint()
        reading.figures()
        return applied

    def _replayed(self, delta: DataFrame) -> DataFrame:
        """A late batch: the state of its keys from every file of the epoch, as if nothing had been applied yet."""
        self._stage("replay")
        with self._watch.stage("replay"):
            members = epoch_members(self._logged, self._batch.epoch, self._batch.upto)
            reading = self._reading([self._inspected(file) for file in members])
            self._replayed_bytes = sum(file.size for file in members)
            affected = delta.select(*key_columns(self._target.key))
            if affected.count() <= MOST_BROADCAST_KEYS:
                affected = F.broadcast(affected)
            state = self._state(reading.good, only=affected).localCheckpoint()
            reading.figures()
            return state

    def _rows(self, changes: DataFrame) -> DataFrame:
        """What the changes leave behind in a table of the target's mode, in its columns."""
        if self._target.mode is Mode.CURRENT:
            return self._rows_of_state(self._state(changes))
        return self._columns(changes)

    def _rows_of_state(self, state: DataFrame) -> DataFrame:
        return state.filter(~F.col("_tombstone")).select("_image.*")

    def _columns(self, changes: DataFrame) -> DataFrame:
        if self._target.mode is Mode.CHANGE_LOG:
            return changes.select("_op", "_commit_ts", "_sequence", "_image.*")
        return changes.select("_image.*")

    def _state(self, changes: DataFrame, only: DataFrame | None = None) -> DataFrame:
        target = self._target
        found = events(changes, target.key, before_images=target.dms.before_image_prefix is not None)
        if only is not None:
            found = found.join(only, on=key_columns(target.key), how="left_semi")
        return collapse(found, target.key)

    def _reading(self, files: Sequence[LoggedFile]) -> Reading:
        return Reading(self._runtime, self._spark, self._target, files)

    def _seen(self, reading: Reading) -> ChangeFigures:
        seen = reading.figures()
        others = seen.by_op["U"] + seen.by_op["D"]
        if self._target.mode is Mode.APPEND_LOG and others:
            raise TableStopped(
                self._target.table,
                f"{others} rows of the {len(self._files)} files from {self._files[0].key} on update or delete, which an "
                "append_log cannot express.",
                "Declare a primary_key for mode: current, or use mode: change_log.",
            )
        return seen

    def _inspected(self, file: LoggedFile) -> LoggedFile:
        """The file with its own row count and columns; big files are left uncounted by the listing."""
        if file.rows is not None:
            return file
        try:
            found = inspect_file(self._runtime.store(self._target.source), file, self._target.dms)
        except UnreadableFile as error:
            raise TableStopped(self._target.table, str(error), "Have DMS write it again, or remove it.") from error
        return replace(file, rows=found.rows, columns=found.columns)

    def _result(self, written: Written, position: Position) -> BatchResult:
        return BatchResult(
            kind=self._batch.kind,
            strategy=written.strategy,
            files=len(self._files),
            first_key=self._files[0].key if self._files else None,
            last_key=self._files[-1].key if self._files else None,
            bytes=sum(file.size for file in self._files),
            rows_counted=sum(file.rows or 0 for file in self._files),
            rows_read=written.changes.rows,
            by_op=written.changes.by_op,
            keys=written.keys,
            rows_written=written.rows,
            rows_removed=0,
            rows_before=self._position.rows,
            position=position,
            replayed_bytes=self._replayed_bytes,
            superseded_files=self._batch.superseded_files,
        )
