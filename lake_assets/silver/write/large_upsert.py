"""A batch of Parquet changes of a large table, written as it is read.

The last change of each key is known before Spark reads the files. So Spark deletes the keys and appends the rows
without computing the changes in between. That no row is unusable is known only when all are written: if one is, the
attempt is given up, and the next one computes the changes first. Here: that strategy. Not here: the last changes
(`silver/changes/last_changes.py`), every other batch (`upsert.py`).
"""

from collections.abc import Mapping

from pyspark.sql import functions as F

from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.changes.collapse import events
from lake_assets.silver.changes.last_changes import LastChanges, fingerprint, last_changes
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.changes.touched_periods import touched_by_keys
from lake_assets.silver.table.change_events import DELETED, commit_of
from lake_assets.silver.table.targets import UNTRACKED
from lake_assets.silver.write.batch import NO_KEY, Written
from lake_assets.silver.write.batch_reader import BatchReader
from lake_assets.silver.write.commit import (
    Unforeseen,
    count_unseen,
    delete_last,
    refuse_unforeseen,
)
from lake_assets.spark.checkpoint import Observed


def foreseen(reader: BatchReader, reading: Reading) -> LastChanges | None:
    """The last changes of the batch; None if it has to be computed before it is written."""
    context, figures, changes = reader.context, reading.foreseen, reading.changes_by_file
    if figures is None or changes is None or context.in_steps or context.retries or context.again:
        return None
    if commit_of(figures.min_sequence) <= commit_of(context.position.max_sequence):
        return None  # late, or of a transaction that was applied in part
    with context.watch.stage("read"):
        return last_changes(changes, context.target.key, has_range=context.target.has_number_key)


def write_large_batch(reader: BatchReader, reading: Reading, current: Attempt, last: LastChanges) -> Written:
    """Replaces the rows of the batch's keys. Raises Unforeseen."""
    context, target, counts = reader.context, reader.context.target, last.counts
    reader.check(reading, reading.foreseen)
    touched: Mapping[str, str] = {}
    if target.tracked != UNTRACKED:
        with context.watch.stage("touched_periods"):
            marked = last.marked(reading.usable, last.is_last).filter("_marked")
            states = events(marked, target.key, before_images=False)
            touched = touched_by_keys(context.address, context.position.snapshot_id, target, states)
    context.stage("write")
    deletes = delete_last(context, current, last)
    observed = Observed()
    changes = observed.on(
        last.marked(reading.changes, last.is_last),
        F.count_if(F.col("_bad").isNotNull()).alias("bad"),
        fingerprint(F.when(F.col("_marked"), F.col("_sequence"))).alias("fingerprint"),
    )
    images = changes.filter(F.col("_marked") & F.col("_bad").isNull() & (F.col("_op") != DELETED))

    def confirm() -> None:
        seen = observed.get
        refuse_unforeseen(context, current, counts.rows, bad=int(seen["bad"]))
        if seen["fingerprint"] != last.fingerprint:
            raise Unforeseen("a file has been written again since its sequences were read")

    def unseen_updates(removed: int) -> int:
        marked = last.marked(reading.usable, last.is_update).filter("_marked")
        return count_unseen(context, events(marked, target.key, before_images=False), counts, removed)

    return Written(
        strategy="delete_and_append" if deletes else "append",
        reason=f"{context.why_marked}; the files' own figures foresee the batch" if deletes else NO_KEY,
        keys=counts.keys,
        rows=counts.rows,
        images=images.select("_image.*"),
        confirm=confirm,
        touched=touched,
        unseen_updates=unseen_updates,
        present=counts.present,
    )
