"""Applying one batch to one silver table: read, collapse, write to a branch, check, publish.

Here: the order of those steps and what each mode writes. Not here: which files make the batch (`plan.py`), the rule of
a key's state (`collapse.py`), the commit that bears the position (`commit.py`), the publishing protocol
(`iceberg/publish.py`), retries and threads (`engine.py`).

The rows of a batch and the position it brings the table to are published by one fast-forward: a process killed
anywhere before it has published nothing, and one killed after it has nothing left to do.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.bad_rows import stop_for_bad_row
from lake_assets.bronze.file_log import LoggedFile
from lake_assets.bronze.inspect import UnreadableFile, inspect_file
from lake_assets.bronze.reader import read_changes
from lake_assets.config import Mode
from lake_assets.errors import TableStopped
from lake_assets.iceberg.publish import Attempt, attempt
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.batch import BatchResult, Stopwatch, Written
from lake_assets.silver.collapse import ChangeFigures, collapse, events, figures, observe_changes
from lake_assets.silver.commit import count_rows, next_position, stamp
from lake_assets.silver.plan import Batch, epoch_members
from lake_assets.silver.position import Position
from lake_assets.silver.targets import Target
from lake_assets.silver.touched_days import all_days, touched_days

KEYS_VIEW = "batch_keys"


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
        changes = self._read(self._files)
        observed, observation = observe_changes(changes)
        rows = self._rows(observed.filter(F.col("_bad").isNull()))
        counted = Observation()
        rows = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
        self._stage("write")
        with self._watch.stage("write"):
            rows.writeTo(current.address).option("check-nullability", False).overwrite(F.lit(True))
        seen = self._checked(figures(observation), changes)
        # What the position needs is known only now, so that the commit that bears it comes second, without rows.
        return Written(
            "overwrite", seen, keys=seen.rows, rows=int(counted.get["rows"]), touched=all_days(self._target)
        )

    def _apply_changes(self, current: Attempt) -> Written:
        """CDC: what the batch says of its keys replaces what the table says; a log only grows."""
        changes = self._read(self._files)
        observed, observation = observe_changes(changes)
        good = observed.filter(F.col("_bad").isNull())
        keyed = self._target.mode is Mode.CURRENT
        self._stage("read")
        with self._watch.stage("read"):
            # A checkpoint, not a cache: the delete's subquery and the append must see the very same rows.
            delta = (self._state(good) if keyed else self._rows(good)).localCheckpoint()
        seen = self._checked(figures(observation), changes)
        if not keyed:
            return Written("append", seen, keys=seen.rows, rows=seen.rows, images=delta)
        if seen.min_sequence and seen.min_sequence <= self._position.max_sequence:
            delta = self._replayed(delta)
        with self._watch.stage("read"):
            counts = delta.agg(F.count(F.lit(1)), F.count_if(~F.col("_tombstone"))).first()
            assert counts is not None, "an aggregate without grouping has one row"
        delta.createOrReplaceTempView(KEYS_VIEW)
        with self._watch.stage("touched_days"):
            touched = touched_days(self._spark, current.table, self._position.snapshot_id, self._target, KEYS_VIEW)
        self._stage("write")
        if self._position.rows:
            matches = " AND ".join(f"k.`{key}` = t.`{key}`" for key in self._target.key)
            with self._watch.stage("delete"):
                self._spark.sql(
                    f"DELETE FROM {current.address} AS t WHERE EXISTS (SELECT 1 FROM {KEYS_VIEW} AS k WHERE {matches})"
                )
        images = delta.filter(~F.col("_tombstone"))
        return Written("delete_and_append", seen, keys=counts[0], rows=counts[1], images=images, touched=touched)

    def _replayed(self, delta: DataFrame) -> DataFrame:
        """A late batch: the state of its keys from every file of the epoch, as if nothing had been applied yet."""
        self._stage("replay")
        with self._watch.stage("replay"):
            members = [self._inspected(f) for f in epoch_members(self._logged, self._batch.epoch, self._batch.upto)]
            self._replayed_bytes = sum(file.size for file in members)
            affected = delta.select(*(f"`{key}`" for key in self._target.key))
            everything = self._read(members).filter(F.col("_bad").isNull())
            return self._state(everything, only=affected).localCheckpoint()

    def _rows(self, changes: DataFrame) -> DataFrame:
        """What the changes leave behind in a table of the target's mode, in its columns."""
        rows = changes
        if self._target.mode is Mode.CURRENT:
            rows = self._state(changes).filter(~F.col("_tombstone"))
        return rows.select(*(f"`{column.name}`" for column in self._target.columns))

    def _state(self, changes: DataFrame, only: DataFrame | None = None) -> DataFrame:
        target = self._target
        columns = [column.name for column in target.columns]
        found = events(changes, target.key, columns, before_images=target.dms.before_image_prefix is not None)
        if only is not None:
            found = found.join(F.broadcast(only), on=list(target.key), how="left_semi")
        return collapse(found, target.key, columns)

    def _read(self, files: Sequence[LoggedFile]) -> DataFrame:
        target = self._target
        return read_changes(
            self._spark,
            self._runtime.store(target.source),
            files,
            name=target.table,
            table=target.config,
            dms=target.dms,
        )

    def _checked(self, seen: ChangeFigures, changes: DataFrame) -> ChangeFigures:
        if seen.bad_rows:
            stop_for_bad_row(self._target.table, seen.bad_rows, seen.first_bad, changes)
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
