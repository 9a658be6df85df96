"""Key moves and partial images: the state of doubtful keys, found by following rows from key to key.

Here: collecting the events of those keys for `row_lineage.py`, and building images from its result. Not here: which
keys are doubtful (`last_changes.py`), which files are read for them (`silver/reduce/current/late_batch.py`), key moves
of tables that keep former rows (`past/timeline.py`), whose partial images `past/partial_images.py` makes whole.
DataFrame API only.
"""

import json
from collections.abc import Collection, Iterable
from datetime import datetime
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lake_assets.errors import TableStopped, UndeterminedRow
from lake_assets.silver.reduce.current.row_lineage import Step, Undecidable, survivors
from lake_assets.silver.reduce.events import committed_at, events, has_own_sequence
from lake_assets.silver.reduce.key_states import table_image
from lake_assets.silver.table.change_events import MOVED_AWAY, MOVED_HERE, key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import Observed, checkpointed

PLACE = ("_sequence", "_file", "_row")
MOST_STEPS = 3_000_000
"""Limit of the events of doubtful keys in one batch, which are followed in this process' memory."""


def settled(
    spark: SparkSession,
    target: Target,
    changes: DataFrame,
    keys: DataFrame,
    base: DataFrame | None,
    *,
    overlap_end: datetime | None = None,
    observed: Iterable[Observed] = (),
) -> DataFrame:
    """The states of `keys` (`_key_0`…), `_key_0`…, `_tombstone`, `_image`.

    `changes` are all changes since the state `base` of the table, or since the table was empty. The full load may have
    read the effect of changes that were committed up to `overlap_end` (UTC). `observed`: the observations in the plan
    of `changes`. Raises TableStopped if the changes do not determine a state.
    """
    found = events(changes, target.key, before_images=target.before_images, carry=("_commit_ts",))
    numbered = followed_keys(target, found, keys)
    names = key_columns(target.key)
    steps = found.join(F.broadcast(numbered), on=names)
    if base is not None:
        steps = steps.unionByName(_base_events(target, base, numbered))
    steps = checkpointed(with_loaded(target, steps, committed_at(), overlap_end), observed)
    try:
        images = survivors(steps_of(target, steps))
    except Undecidable as unclear:
        raise undetermined(target, numbered, unclear) from unclear
    parts = [(key, *place) for key, places in images.items() for place in places]
    chosen = spark.createDataFrame(parts, "_survivor bigint, _sequence string, _file string, _row bigint")
    rows = images_by_place(steps).join(F.broadcast(chosen), on=list(PLACE))
    state = rows.groupBy("_survivor").agg(image_of_changes(target).alias("_image"))
    both = numbered.join(state, F.col("_number") == F.col("_survivor"), "left")
    return both.select(*names, F.col("_survivor").isNull().alias("_tombstone"), "_image")


def images_by_place(steps: DataFrame) -> DataFrame:
    """The events with an image: their places in the files, in the columns of PLACE, and `_order`, `_image` and
    `_unsupplied`."""
    own = steps.filter(~F.col("_tombstone")).select("_order", "_image", "_unsupplied")
    return own.withColumns({name: F.col(f"_order.{name}") for name in PLACE})


def with_destinations(target: Target, found: DataFrame, keys: DataFrame) -> DataFrame:
    """The keys, computed; also the keys to which a row moved from one of them by a change that lacks columns: what is
    recomputed of the row counts there, too. `found`: the events of all keys."""
    return _with_linked(target, found, keys, MOVED_AWAY, MOVED_HERE)


def followed_keys(target: Target, found: DataFrame, keys: DataFrame) -> DataFrame:
    """The keys, computed, each with a number (`_number`); also the keys from which a row moved to one of them by a
    change that lacks columns. `found`: the events of all keys."""
    known = _with_linked(target, found, keys, MOVED_HERE, MOVED_AWAY)
    return checkpointed(known.withColumn("_number", F.monotonically_increasing_id()))


def _with_linked(target: Target, found: DataFrame, keys: DataFrame, one: str, other: str) -> DataFrame:
    """The keys; also those of the events of kind `other` whose change is an event of kind `one` at one of the keys, if
    the change lacks columns."""
    known = checkpointed(_own_names(keys, target))
    if not (target.may_be_partial and target.before_images):
        return known
    names, lacks = key_columns(target.key), F.size("_unsupplied") > 0
    moves = checkpointed(found.filter(F.col("_kind").isin(one, other) & lacks))
    while True:
        here = moves.filter(F.col("_kind") == one).join(F.broadcast(known), on=names, how="left_semi")
        here = here.select(F.col("_order").alias("_moved"))
        there = moves.filter(F.col("_kind") == other)
        linked = there.join(here, there["_order"] == here["_moved"], how="left_semi")
        more = checkpointed(_own_names(linked, target).distinct().join(known, on=names, how="left_anti"))
        if more.isEmpty():
            return known
        known = checkpointed(known.unionByName(more))


def _own_names(rows: DataFrame, target: Target) -> DataFrame:
    """The keys of the rows, as new columns: what Spark knows of a column of a checkpoint (that it is not NULL) may name
    another column once joins have both, and a union then fails. An alias does not suffice, because Spark removes it."""
    return rows.select(F.inline(F.array(F.struct(*key_columns(target.key)))))


def _base_events(target: Target, base: DataFrame, numbered: DataFrame) -> DataFrame:
    """The keys' rows in the table as inserts before all changes, each with a place of its own that no file has."""
    nowhere = F.lit(0).cast("bigint").alias("_row")
    rows = base.select(
        F.lit("I").alias("_op"),
        F.lit("").alias("_sequence"),
        F.lit("").alias("_file"),
        nowhere,
        F.lit(None).cast("timestamp").alias("_commit_ts"),
        table_image(target).alias("_image"),
    )
    own = events(rows, target.key, before_images=False, carry=("_commit_ts",)).join(
        F.broadcast(numbered), on=key_columns(target.key)
    )
    place = F.concat(F.lit("table "), F.col("_number").cast("string"))
    return own.withColumn("_order", F.col("_order").withField("_file", place))


def with_loaded(
    target: Target, steps: DataFrame, committed: Column, overlap_end: datetime | None
) -> DataFrame:
    """The steps with `_in_load`, whether the full load may have run when the change was `committed`, `_loaded`, whether
    it has read the image of the change, or the columns that the change has, and `_vanishes`, which is false for all
    changes."""
    before = F.col("_order._sequence") == ""
    last = F.max_by("_image", F.when(before, F.col("_order"))).over(Window.partitionBy("_number"))
    same = F.col("_image").eqNullSafe(last)
    if target.may_be_partial:
        names = [column.name for column in target.image_columns]
        each = (F.col("_image")[name].eqNullSafe(last[name]) for name in names)
        lacks = (F.array_contains("_unsupplied", name) for name in names)
        same = reduce(and_, (one | other for one, other in zip(lacks, each, strict=True)))
    in_load = ~before & F.coalesce(committed <= F.lit(overlap_end), F.lit(False))
    loaded = in_load & last.isNotNull() & same
    return steps.withColumns({"_in_load": in_load, "_loaded": loaded, "_vanishes": F.lit(False)})


def steps_of(target: Target, steps: DataFrame) -> list[Step]:
    """The events, with `_number` and the columns of `with_loaded`, for `row_lineage.py`. `_order` is that of changes or
    of a timeline. Raises TableStopped if they are too many."""
    flat = steps.select(
        "_number",
        "_kind",
        "_order.*",
        F.when(F.size("_unsupplied") > 0, F.to_json("_unsupplied")).alias("_lacks"),
        _lacks_only(target.kept_when_null).alias("_kept"),
        has_own_sequence(F.col("_order._sequence")).alias("_repeats"),
        "_loaded",
        "_in_load",
        "_vanishes",
    )
    rows = flat.limit(MOST_STEPS + 1).toArrow().to_pylist()
    if len(rows) > MOST_STEPS:
        raise TableStopped(
            target.table,
            f"more than {MOST_STEPS:,} changes belong to keys whose rows must be followed one by one (key moves within "
            "a transaction, or updates without all columns).",
            "Lower automation.max_files_per_batch, or have DMS reload the table.",
        )
    lacks = {text: frozenset(json.loads(text or "[]")) for text in {row["_lacks"] for row in rows}}
    return [
        Step(
            key=row["_number"],
            kind=row["_kind"],
            sequence=row["_sequence"],
            flushed=row["_flushed"],
            file=row["_file"],
            row=row["_row"],
            partial=row["_lacks"] is not None,
            lacks=lacks[row["_lacks"]],
            repeats=row["_repeats"],
            loaded=row["_loaded"],
            in_load=row["_in_load"],
            kept=row["_kept"],
            required=lacks[row["_lacks"]] - target.may_stay_null,
            phase=row.get("_phase", 0),
            since=() if row.get("_since") is None else (row["_since"],),
            begins=row.get("_begins", False),
            vanishes=row["_vanishes"],
        )
        for row in rows
    ]


def _lacks_only(names: Collection[str]) -> Column:
    """Whether all columns that an image lacks are among these."""
    allowed = F.array(*map(F.lit, sorted(names))).cast("array<string>")
    return F.size(F.array_except("_unsupplied", allowed)) == 0


def image_of_changes(target: Target) -> Column:
    """The image from the changes of one row: each column from the newest change that has it."""
    if not target.may_be_partial:
        return F.max_by("_image", F.col("_order"))

    def newest(name: str) -> Column:
        has_it = ~F.array_contains("_unsupplied", name)
        return F.max_by(F.col("_image")[name], F.when(has_it, F.col("_order"))).alias(name)

    return F.struct(*(newest(column.name) for column in target.image_columns))


def undetermined(target: Target, numbered: DataFrame, unclear: Undecidable) -> UndeterminedRow:
    """The error for changes that do not determine a row. `numbered`: the keys that are followed."""
    step = unclear.step
    row = numbered.filter(F.col("_number") == step.key).first()
    assert row is not None, "every step's key has a number"
    key = ", ".join(
        f"{name} = {row[held]}" for name, held in zip(target.key, key_columns(target.key), strict=True)
    )
    return UndeterminedRow(
        target.table,
        f"{unclear} ({key}, in {step.file}, sequence {step.sequence or 'of a full load'}).",
        "The table continues if an earlier file that shows it arrives later; else have DMS reload the table.",
    )
