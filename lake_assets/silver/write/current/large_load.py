"""A large full load of a table of current rows: written as it is read.

The key of a source table is unique, so the rows of a full load need no sort. They are written first, and the written
keys prove that none repeats. Then the states of the other keys replace their rows: these are keys with several rows,
and keys that the CDC of the same batch changes. Here: those two passes. Not here: small full loads (`upsert.py`), the
rule of a key's state (`silver/changes/collapse.py`).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.files.keys import FileKind
from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.changes.collapse import collapse, events
from lake_assets.silver.changes.key_states import (
    Counts,
    counted,
    keys_of,
    living,
)
from lake_assets.silver.changes.large_batch import batch_states, repeated_keys, repeated_numbers
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.changes.touched_periods import all_touched
from lake_assets.silver.table.change_events import DELETED, INSERTED, UPDATED, ChangeFigures, key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.silver.write.batch import Written
from lake_assets.silver.write.batch_context import BatchContext
from lake_assets.silver.write.batch_reader import BatchReader
from lake_assets.silver.write.commit import (
    added_rows,
    delete_matching,
    on_branch,
    refuse_unforeseen,
    refuse_written_again,
    same_key,
    write_all,
)
from lake_assets.silver.write.current.late_batch import settled_in_load
from lake_assets.spark.checkpoint import Observed, checkpointed
from lake_assets.spark.sql import quoted


def write_large_load(reader: BatchReader, reading: Reading, current: Attempt) -> Written:
    """Writes the whole table. The batch has files of a full load."""
    context, target = reader.context, reader.context.target
    load, changes = reader.of_kind(reading, FileKind.LOAD), reader.of_kind(reading, FileKind.CDC)
    assert load is not None, "it has files of a full load"
    is_load = changes is None and reading.held is None
    if is_load and (inserts := _foreseen_inserts(context, load)) is not None and load.has_unique_keys:
        reader.check(reading, inserts)
        return _unique_inserts(context, load, inserts.rows)
    seen, rows = _written(context, load, current)
    several: DataFrame | None = None
    number = 0
    with context.watch.stage("unique"):
        if not _has_unique_keys(load, seen):
            several, number = _several(reader.context, load, current, seen)
    if changes is None and not number:
        reader.check(reading, seen)
        return Written("overwrite", keys=seen.used, rows=rows, touched=all_touched(target))
    with context.watch.stage("read"):
        delta, counts = _states(target, load, several if number else None, changes)
    seen = seen if changes is None else seen + changes.figures()
    reader.check(reading, seen)
    if counts.doubtful:
        with context.watch.stage("replay"):
            delta, counts = settled_in_load(reader, delta, counts)
    keys = keys_of(delta, target, counts.keys)
    taken_back = on_branch(context, current).join(keys.alias("k"), same_key(target), "left_semi").count()
    delete_matching(context, current, keys, target.key_matches("k", "t"))
    return Written(
        "overwrite",
        keys=rows + counts.keys,
        rows=rows + counts.rows,
        images=living(delta),
        touched=all_touched(target),
        followed=counts.followed,
        taken_back=taken_back,
    )


def _foreseen_inserts(context: BatchContext, load: Reading) -> ChangeFigures | None:
    """The figures of the full load, if a look at its files has found nothing but inserts."""
    foreseen = None if context.in_steps else load.foreseen
    return foreseen if foreseen is not None and foreseen.by_op[INSERTED] == foreseen.rows else None


def _unique_inserts(context: BatchContext, load: Reading, rows: int) -> Written:
    """The rows of the full load, none of which has the key of another, for the commit that has the position."""

    def confirm(added: int) -> None:
        # Every row is written or bad, so that their number shows whether one is bad.
        refuse_unforeseen(added, rows)
        refuse_written_again(load)

    context.stage("write")
    return Written(
        "overwrite",
        keys=rows,
        rows=rows,
        images=load.usable.select("_image.*"),
        is_whole=True,
        confirm=confirm,
        touched=all_touched(context.target),
    )


def _written(context: BatchContext, load: Reading, current: Attempt) -> tuple[ChangeFigures, int]:
    """Writes the inserts of the full load. Returns the load's figures and the number of the written rows. Raises
    Unforeseen."""
    foreseen = _foreseen_inserts(context, load)
    if foreseen is not None:
        write_all(context, current, _inserts(load.usable))
        _, head = current.head(context.runtime.catalog)
        refuse_unforeseen(added_rows(head), foreseen.rows)
        return foreseen, foreseen.rows
    observed = Observed()
    write_all(context, current, observed.on(_inserts(load.good), F.count(F.lit(1)).alias("rows")))
    return load.figures(), int(observed.get["rows"])


def _inserts(changes: DataFrame) -> DataFrame:
    return changes.filter(F.col("_op") == INSERTED).select("_image.*")


def _has_unique_keys(load: Reading, seen: ChangeFigures) -> bool:
    """Whether the look at the files has found that no key of the written rows repeats."""
    are_inserts = seen.by_op[INSERTED] == seen.used == seen.rows
    return are_inserts and load.has_unique_keys and load.is_as_checked


def _several(
    context: BatchContext, load: Reading, current: Attempt, seen: ChangeFigures
) -> tuple[DataFrame, int]:
    """The keys whose rows need a collapse, and their number: those of several rows, and of rows that are no insert."""
    target, names = context.target, key_columns(context.target.key)
    written = on_branch(context, current).select(
        *(F.col(quoted(column)).alias(name) for column, name in zip(target.key, names, strict=True))
    )
    is_number = len(names) == 1 and target.has_number_key
    several, number = repeated_numbers(written, names[0]) if is_number else repeated_keys(written, names)
    if seen.by_op[UPDATED] or seen.by_op[DELETED]:
        others = events(load.good.filter(F.col("_op") != INSERTED), target.key, before_images=False)
        several = checkpointed(several.unionByName(others.select(*names)).distinct())
        number = several.count()
    return several, number


def _states(
    target: Target, load: Reading, several: DataFrame | None, changes: Reading | None
) -> tuple[DataFrame, Counts]:
    """The states of the keys in `several`, if there are any, and of those that the changes name. `load`: to be read
    again for `several`."""
    if several is None:
        assert changes is not None, "some keys need a collapse"
        return batch_states(target, changes)
    own = events(load.good, target.key, before_images=target.before_images)
    found = own.join(several, on=several.columns, how="left_semi")
    if changes is not None:
        found = found.unionByName(events(changes.good, target.key, before_images=target.before_images))
    return counted(target, collapse(found, target.key), load, *([] if changes is None else [changes]))
