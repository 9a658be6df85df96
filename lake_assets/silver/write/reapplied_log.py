"""What a table says of the rows of files that were written again, where it cannot be made anew.

A log has the rows of the file, a history has each key's row at that time. If the table says all rows of the file, and
there are as many as before, the file is recognised, and changes nothing. Rows that came to those that it had are
applied. If it withdraws what it said before, it is set aside: `quarantine discard` leaves the table as it is,
`quarantine retry` applies what the file says now.

Here: that comparison. Not here: which files these are (`silver/plan/rewritten.py`), a change log's own repetitions
(`log_tables.py`). DataFrame API only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lake_assets.bronze.files.content import FilesUnusable, HeldBack
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.quarantine.quarantine_log import State
from lake_assets.bronze.reader.places import plain
from lake_assets.config import Mode
from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.changes.collapse import events
from lake_assets.silver.plan.planner import Batch
from lake_assets.silver.plan.rewritten import former_content, rewritten
from lake_assets.silver.table.change_events import key_columns
from lake_assets.silver.write.batch_work import Work
from lake_assets.silver.write.versioned_tables import epoch_beginning
from lake_assets.spark.sql import quoted
from lake_assets.words import does, many

LOGS = frozenset({Mode.CHANGE_LOG, Mode.APPEND_LOG})
_THEN = (
    "the table keeps the rows that it has: `lake-assets quarantine discard` leaves it so, `quarantine retry` applies "
    "what the file says now"
)


def recognised(work: Work, current: Attempt) -> Batch:
    """The batch without the files whose rows the table says already. Raises FilesUnusable for those of other rows."""
    batch, applied = work.batch, work.position.log_offset
    if batch.kind != "cdc":
        return batch
    again = rewritten(batch.files, work.logged, applied, work.damaged)
    if not again:
        return batch
    with work.watch.stage("recognise"):
        found = _compared(work, current, again)
    if unknown := [HeldBack(file.key, f"{one.fault}; {_THEN}") for file, one in found if one.fault]:
        raise FilesUnusable(unknown)
    work.grown = [file for file, one in found if one.new]
    files = tuple(file for file in batch.files if file not in again or file in work.grown)
    left_out = len(batch.files) - len(files)
    return replace(batch, files=files, superseded_files=batch.superseded_files + left_out)


@dataclass(frozen=True, slots=True)
class _Compared:
    fault: str = ""
    """What of the file contradicts the table; empty if nothing does."""
    new: int = 0
    """Rows that the table does not say."""


def _compared(
    work: Work, current: Attempt, files: Sequence[LoggedFile]
) -> list[tuple[LoggedFile, _Compared]]:
    written = f"it was written again after its rows had been applied to {work.target.identifier}"
    if work.target.mode not in (*LOGS, Mode.HISTORY):
        gone = f"{written}, and not all files that the table would be recomputed from are there"
        return [(file, _Compared(gone)) for file in files]
    reading = work.read_again(files)
    if reading is None:
        return [(file, _Compared(f"{written}, and cannot be read")) for file in files]
    rows = reading.checkpointed(reading.good)
    reading.figures()
    store = work.runtime.store(work.target.source)
    there, unsaid = _by_file(rows), _by_file(_unsaid(work, current, rows))
    found = []
    for file in files:
        address = plain(store.spark_uri(file.path))
        now, new, before = there.get(address, 0), unsaid.get(address, 0), _rows_before(work, file)
        if new and (before is None or before > now - new):
            fault = f"{written}: {new} of its {many(now, 'row')} {does(new, 'differ')}"
            found.append((file, _Compared(fault)))
        elif before is not None and before > now:
            fault = f"{written}: it had {many(before, 'row')} that can be used, and has {now}"
            found.append((file, _Compared(fault)))
        else:
            found.append((file, _Compared(new=new)))
    return found


def _by_file(rows: DataFrame) -> Mapping[str, int]:
    counted = rows.groupBy("_file").count().collect()
    return {plain(unquote(row["_file"])): row["count"] for row in counted}


def _rows_before(work: Work, file: LoggedFile) -> int | None:
    """How many rows of the file were applied; None where nobody knows."""
    former = former_content(file, work.logged, work.position.log_offset, work.damaged)
    if former is None or former.rows is None or work.position.cut is not None:
        return None  # at a consistent cut, some of its rows may wait
    held = work.runtime.quarantine.all(work.target.identifier)
    place = (former.key, former.version)
    return former.rows - sum(
        one.row is not None and (one.key, one.version) == place and one.state is not State.RELEASED
        for one in held
    )


def _unsaid(work: Work, current: Attempt, rows: DataFrame) -> DataFrame:
    """Of the rows, those that the table does not say."""
    if work.position.cut is not None:
        rows = rows.filter(F.col("_commit_ts") <= F.lit(work.position.cut))  # those after it are news
    if work.target.mode is Mode.HISTORY:
        return _unsaid_by_history(work, current, rows)
    return not_in_log(work, current, rows)


def not_in_log(work: Work, current: Attempt, rows: DataFrame) -> DataFrame:
    """Of the changes, those that the log does not have, or does not have as often as one file has them."""
    own = (
        [F.col(name) for name in ("_sequence", "_op", "_commit_ts")]
        if work.target.mode is Mode.CHANGE_LOG
        else []
    )
    image = F.struct(*(F.col(quoted(column.name)) for column in work.target.image_columns))
    table = work.spark.table(current.table)
    if own:
        bounds = rows.agg(F.min("_commit_ts"), F.max("_commit_ts")).first()
        assert bounds is not None, "an aggregate without grouping has one row"
        # The table is partitioned by the day of its commits.
        table = table.filter(F.col("_commit_ts").between(*bounds) | F.col("_commit_ts").isNull())
    there = table.groupBy(_value(own, image).alias("_there")).agg(F.count(F.lit(1)).alias("_times"))
    value = _value(own, F.col("_image"))
    place = F.row_number().over(Window.partitionBy("_file", "_value").orderBy("_row"))
    numbered = rows.withColumn("_value", value).withColumn("_number", place)
    joined = numbered.join(there, numbered["_value"].eqNullSafe(there["_there"]), "left")
    return joined.filter(F.col("_number") > F.coalesce("_times", F.lit(0))).select(*rows.columns)


def _value(own: Sequence[Column], image: Column) -> Column:
    return F.struct(*own, image.alias("_image"))


def _unsaid_by_history(work: Work, current: Attempt, rows: DataFrame) -> DataFrame:
    """The last event of each key in each commit says what the key's row was from then on."""
    target = work.target
    names = key_columns(target.key)
    found = events(rows, target.key, before_images=target.before_images, carry=("_commit_ts",))
    said = F.struct("_tombstone", "_image", F.col("_order._file").alias("_file"))
    last = found.groupBy(*names, "_commit_ts").agg(F.max_by(said, F.col("_order")).alias("_said"))
    begun = epoch_beginning(work, work.batch.epoch, work.batch.upto)
    last = last.withColumn("_at", F.greatest(F.col("_commit_ts"), F.lit(begun.at)))
    image = F.struct(*(F.col(quoted(column.name)) for column in target.image_columns))
    versions = work.spark.table(current.table).select(
        *(F.col(quoted(name)).alias(f"{held}_") for name, held in zip(target.key, names, strict=True)),
        image.alias("_version"),
        "_valid_from",
        "_valid_to",
    )
    same = (F.col("_valid_from") <= F.col("_at")) & (
        F.col("_valid_to").isNull() | (F.col("_at") < F.col("_valid_to"))
    )
    for name in names:
        same = same & (F.col(name) == F.col(f"{name}_"))
    joined = last.join(versions, same, "left")
    agrees = F.when(F.col("_said._tombstone"), F.col("_valid_from").isNull()).otherwise(
        F.col("_valid_from").isNotNull() & F.col("_said._image").eqNullSafe(F.col("_version"))
    )
    return joined.filter(~agrees).select("_said._file")
