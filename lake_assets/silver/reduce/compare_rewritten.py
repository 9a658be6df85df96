"""Files that were written again, compared with the rows of a table that cannot be recomputed.

A log has the rows of the file, a history has each key's row at that time. If the table has all rows of the file, and
the file has as many as before, it is recognised and changes nothing. Additional rows are applied. A file that lacks or
changes former rows is quarantined: `quarantine discard` leaves the table as it is, `quarantine retry` applies the
file's present rows.

Here: that comparison. Not here: which files these are (`silver/plan/rewritten.py`), repetitions within a change log
(`append_only_tables.py`). DataFrame API only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce
from operator import and_
from urllib.parse import unquote

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lake_assets.bronze.files.content import FilesUnusable, HeldBack
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.quarantine.quarantine_log import State
from lake_assets.bronze.reader.places import plain
from lake_assets.config import LOGS, Mode
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.reader import BatchReader
from lake_assets.silver.plan.rewritten import former_content, rewritten
from lake_assets.silver.reduce.events import events
from lake_assets.silver.reduce.key_states import table_image
from lake_assets.silver.reduce.past.history_and_soft_delete import epoch_beginning
from lake_assets.silver.table.change_events import key_columns
from lake_assets.spark.sql import Sql, literal, quoted, sql
from lake_assets.words import does, many

_NOT_ALL = ", and not all files that the table would be recomputed from are in the bucket"
_THEN = (
    "the table keeps the rows that it has: `lake-assets quarantine discard` leaves it so, `quarantine retry` applies "
    "the file's present rows"
)


def recognised(reader: BatchReader) -> BatchReader:
    """A reader of the batch without the files that were written again and whose rows the table already has; files with
    additional rows stay. Raises FilesUnusable for files with other rows."""
    context, batch = reader.context, reader.context.batch
    if batch.kind != "cdc":
        return reader
    again = rewritten(batch.files, context.logged, context.position.log_offset, context.damaged)
    if not again:
        return reader
    with context.watch.stage("recognise"):
        known = _in_table(reader, again)
    files = tuple(file for file in batch.files if file not in known)
    return reader.of(replace(batch, files=files, superseded_files=batch.superseded_files + len(known)))


def _in_table(reader: BatchReader, files: Sequence[LoggedFile]) -> list[LoggedFile]:
    """Those of the files whose rows the table has. Raises FilesUnusable for those that contradict it."""
    context = reader.context
    if context.target.mode not in (*LOGS, Mode.HISTORY):
        raise _unusable(context, dict.fromkeys(files, _NOT_ALL))
    reading = reader.read_again(files)
    if reading is None:
        raise _unusable(context, dict.fromkeys(files, ", and cannot be read"))
    rows = reading.checkpointed(reading.good)
    counts, missing = _by_file(rows), _by_file(_not_in_table(context, rows))
    faults: dict[LoggedFile, str] = {}
    known: list[LoggedFile] = []
    for file in files:
        address = plain(context.store.spark_uri(file.path))
        now, new, before = counts.get(address, 0), missing.get(address, 0), _rows_before(context, file)
        if new and (before is None or before > now - new):
            faults[file] = f": {new} of its {many(now, 'row')} {does(new, 'differ')}"
        elif before is not None and before > now:
            faults[file] = f": it had {many(before, 'row')} that can be used, and has {now}"
        elif not new:
            known.append(file)
    if faults:
        raise _unusable(context, faults)
    return known


def _unusable(context: BatchContext, faults: Mapping[LoggedFile, str]) -> FilesUnusable:
    written = f"it was written again after its rows had been applied to {context.target.identifier}"
    return FilesUnusable([HeldBack(file.key, f"{written}{fault}; {_THEN}") for file, fault in faults.items()])


def _by_file(rows: DataFrame) -> Mapping[str, int]:
    counted = rows.groupBy("_file").count().collect()
    return {plain(unquote(row["_file"])): row["count"] for row in counted}


def _rows_before(context: BatchContext, file: LoggedFile) -> int | None:
    """How many rows of the file were applied; None if that is unknown."""
    former = former_content(file, context.logged, context.position.log_offset, context.damaged)
    if former is None or former.rows is None or context.position.cut is not None:
        return None  # at a consistent cut, some of its rows may wait
    place = (former.key, former.version)
    bad = {
        one.row
        for one in context.held()
        if one.row is not None
        and (one.key, one.version) == place
        and one.state is not State.RELEASED
        and one.counts_among(former.counted_among)
    }
    return former.rows - len(bad)


def _not_in_table(context: BatchContext, rows: DataFrame) -> DataFrame:
    """Those of the rows that the table does not have."""
    if context.position.cut is not None:
        rows = rows.filter(
            F.col("_commit_ts") <= F.lit(context.position.cut)
        )  # later ones are not applied yet
    if context.target.mode is Mode.HISTORY:
        return _not_in_history(context, rows)
    return not_in_log(context, since_history(context, rows))


def since_history(context: BatchContext, changes: DataFrame) -> DataFrame:
    """The changes without those that a change log does not keep any more."""
    ended = context.position.history_from
    if context.target.mode is not Mode.CHANGE_LOG or ended is None:
        return changes
    return changes.filter(sql("NOT {ended}", ended=committed_before(ended)))


def committed_before(moment: datetime) -> Sql:
    """The condition for changes that were committed before that time; false for one without a time."""
    return sql("coalesce(_commit_ts < TIMESTAMP {moment}, false)", moment=literal(moment.isoformat()))


def not_in_log(context: BatchContext, rows: DataFrame) -> DataFrame:
    """Those of the changes that the log does not have, or has fewer times than one file."""
    if context.target.mode is Mode.CHANGE_LOG:
        own, table = ["_sequence", "_op", "_commit_ts"], rows_of_commits(context, rows)
    else:
        own, table = [], context.main.select(table_image(context.target).alias("_image"))
    value = F.struct(*own, "_image")
    present = table.groupBy(value.alias("_present")).agg(F.count(F.lit(1)).alias("_times"))
    place = F.row_number().over(Window.partitionBy("_file", "_value").orderBy("_row"))
    numbered = rows.withColumn("_value", value).withColumn("_number", place)
    joined = numbered.join(present, numbered["_value"].eqNullSafe(present["_present"]), "left")
    return joined.filter(F.col("_number") > F.coalesce("_times", F.lit(0))).select(*rows.columns)


def rows_of_commits(context: BatchContext, changes: DataFrame) -> DataFrame:
    """The rows of a change log that may be the changes: `_sequence`, `_op`, `_commit_ts`, `_image`."""
    # As numbers: PySpark would give, and take, local times of this machine, of which some are two instants.
    found = changes.agg(*(F.unix_micros(of("_commit_ts")) for of in (F.min, F.max))).first()
    assert found is not None, "an aggregate without grouping has one row"
    bounds = [F.timestamp_micros(F.lit(micros).cast("bigint")) for micros in found]
    # The table is partitioned by the day of its commits.
    rows = context.main.filter(F.col("_commit_ts").between(*bounds) | F.col("_commit_ts").isNull())
    return rows.select("_sequence", "_op", "_commit_ts", table_image(context.target).alias("_image"))


def _not_in_history(context: BatchContext, rows: DataFrame) -> DataFrame:
    """The last events of each key in each commit that contradict the key's version at that time. Of a column that an
    update lacks, the commit's newest value counts, if there is one."""
    target = context.target
    names, columns = key_columns(target.key), [column.name for column in target.image_columns]
    found = events(rows, target.key, before_images=target.before_images, carry=("_commit_ts",))
    event = F.struct("_tombstone", F.col("_order._file").alias("_file"))
    has_it = {name: ~F.col("_tombstone") & ~F.array_contains("_unsupplied", name) for name in columns}
    newest = (F.max_by(F.col("_image")[n], F.when(has_it[n], F.col("_order"))).alias(n) for n in columns)
    last = found.groupBy(*names, "_commit_ts").agg(
        F.max_by(event, F.col("_order")).alias("_event"),
        F.struct(*newest).alias("_image"),
        F.struct(*(F.bool_or(has_it[name]).alias(name) for name in columns)).alias("_has"),
    )
    begun = epoch_beginning(context, context.batch.epoch, context.batch.upto)
    last = last.withColumn("_at", F.greatest(F.col("_commit_ts"), F.lit(begun.at)))
    versions = context.main.select(
        *(F.col(quoted(name)).alias(f"{held}_") for name, held in zip(target.key, names, strict=True)),
        table_image(target).alias("_version"),
        "_valid_from",
        "_valid_to",
    )
    same = (F.col("_valid_from") <= F.col("_at")) & (
        F.col("_valid_to").isNull() | (F.col("_at") < F.col("_valid_to"))
    )
    for name in names:
        same = same & (F.col(name) == F.col(f"{name}_"))
    joined = last.join(versions, same, "left")
    image, version = F.col("_image"), F.col("_version")
    equal = (~F.col("_has")[name] | image[name].eqNullSafe(version[name]) for name in columns)
    agrees = F.when(F.col("_event._tombstone"), F.col("_valid_from").isNull()).otherwise(
        F.col("_valid_from").isNotNull() & reduce(and_, equal)
    )
    return joined.filter(~agrees).select("_event._file")
