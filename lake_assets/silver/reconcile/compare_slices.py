"""Comparing slices of a silver table with its files, at one snapshot, while other processes go on applying.

Here: planning and running a comparison, and its progress in the lake. Not here: how rows are compared
(`differences.py`), which slices are due (`cycle.py`), repairing (`repair.py`).
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.config import Mode
from lake_assets.errors import TableStopped
from lake_assets.iceberg.table_io import current_snapshot, load_table, table_at
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.planned import Planned, in_context, known_damage, refuse_lost_files, retrying
from lake_assets.silver.apply.rebuild import plan_again
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.reader import BatchReader
from lake_assets.silver.plan.planner import whole_table
from lake_assets.silver.plan.table_state import changed_folders
from lake_assets.silver.reconcile.cycle import Cycle
from lake_assets.silver.reconcile.differences import differing_rows, example, unequal_buckets
from lake_assets.silver.reconcile.expected_rows import held_key, states_within
from lake_assets.silver.reconcile.key_slices import BUCKETS, KeySlices, bucket
from lake_assets.silver.table.change_events import key_columns
from lake_assets.silver.table.folders import other_folders
from lake_assets.silver.table.guard import refuse_other_source
from lake_assets.silver.table.masks import lost_masks, other_masks
from lake_assets.silver.table.shape import refuse_other_shape
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import checkpointed
from lake_assets.spark.sql import joined, sql
from lake_assets.words import many

RECONCILED = "reconciled"
"""Kind of the finding that has a table's progress."""
MOST_SHOWN = 10
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Compared:
    """The outcome of comparing some slices."""

    slices: tuple[int, ...]
    rows: int
    """Rows of the table in these slices."""
    different: dict[int, int]
    """By slice, the number of keys whose rows differ; slices that are equal are left out."""
    examples: dict[int, list[str]]
    """By slice, lines for users."""
    snapshot_id: int
    seconds: float


def known_cycle(runtime: LakeRuntime, target: Target) -> Cycle | None:
    """The table's progress; None if it was never compared in slices."""
    found = runtime.findings.of(RECONCILED).get(target.identifier)
    return Cycle.from_json(found.content) if found is not None else None


def begun_cycle(
    runtime: LakeRuntime, target: Target, slices: int, before: Cycle | None, now: datetime
) -> Cycle:
    """A new cycle of so many slices. While slices of the former one differ, the new one has the same slices, so that
    they are compared again. Raises TableStopped for a table whose rows have no key, or that has no rows yet."""
    if target.mode is not Mode.CURRENT:
        raise TableStopped(
            target.table,
            f"{target.identifier} has the mode {target.mode.value}; only mode current is compared in slices of keys.",
            "Use lake-assets rebuild --check.",
        )
    if before is not None and before.different:
        return replace(before, begun=now, next=0, rows=0, seconds=0.0, readings=0)
    completed = before.completed if before is not None else None
    cycle = Cycle(slices, now, completed=completed)
    head = current_snapshot(load_table(runtime.catalog, target.identifier))
    if head is None:
        raise TableStopped(
            target.table, f"{target.identifier} has no rows yet.", "Run lake-assets sync first."
        )
    if slices == 1 or not target.has_number_key:
        return cycle
    rows = table_at(runtime.lake.catalog.name, target.identifier, head.snapshot_id)
    shares = joined(", ", (sql("{one} / {all}", one=one, all=slices) for one in range(1, slices)))
    query = "SELECT percentile_approx({key}, array({shares})) FROM ({rows})"
    ((bounds,),) = (
        runtime.sessions.root().sql(sql(query, key=target.key[0], shares=shares, rows=rows)).collect()
    )
    distinct = tuple(sorted(set(bounds or ())))
    return replace(cycle, number=len(distinct) + 1, bounds=distinct)


def compare(runtime: LakeRuntime, target: Target, cycle: Cycle, chosen: Collection[int]) -> Compared:
    """Compares the slices of the cycle with all files that the table was computed from, which are read once. Writes
    nothing. Raises TableStopped when files are gone."""
    begin = time.perf_counter()

    def work(context: BatchContext) -> Compared:
        rows, found = located(context, cycle, chosen)
        different, examples = ({}, {}) if found is None else _described(context.target, found)
        assert context.position.snapshot_id is not None, "the table has a position"
        seconds = round(time.perf_counter() - begin, 3)
        return Compared(
            tuple(sorted(chosen)), rows, different, examples, context.position.snapshot_id, seconds
        )

    return at_position(runtime, target, work)


def note(runtime: LakeRuntime, target: Target, cycle: Cycle, compared: Compared) -> Cycle:
    """Records the comparison in the lake, and returns the progress after it."""
    texts = {
        one: "\n".join(
            [f"{many(number, 'row')} in {slice_name(target, cycle, one)}", *compared.examples[one]]
        )
        for one, number in compared.different.items()
    }
    after = cycle.after(compared.slices, texts, compared.rows, compared.seconds, datetime.now(UTC))
    runtime.findings.note(RECONCILED, target.identifier, after.as_json())
    return after


def note_repaired(runtime: LakeRuntime, target: Target, cycle: Cycle, slices: Collection[int]) -> None:
    """Records that these slices do not differ any more."""
    left = {one: text for one, text in cycle.different.items() if one not in slices}
    runtime.findings.note(RECONCILED, target.identifier, replace(cycle, different=left).as_json())


def current_cycle(
    runtime: LakeRuntime, target: Target, slices: int, every: timedelta | None, now: datetime
) -> Cycle:
    """The table's cycle, or a new one if there is none, or the former one is over. `every`: a new cycle begins no
    earlier than that after the former one; None: at once."""
    known = known_cycle(runtime, target)
    if known is not None and not (known.over if every is None else known.is_outdated(now, every)):
        return known
    return begun_cycle(runtime, target, slices, known, now)


def slice_name(target: Target, cycle: Cycle, one: int) -> str:
    """The slice for users."""
    return key_slices(cycle).name(one, target.key[0])


def key_slices(cycle: Cycle) -> KeySlices:
    """The slices of the cycle."""
    return KeySlices(cycle.number, cycle.bounds)


def at_position(runtime: LakeRuntime, target: Target, work: Callable[[BatchContext], T]) -> T:
    """The result of the work with all files that the table was computed from. Raises as `rebuild`."""

    def once() -> T:
        table = load_table(runtime.catalog, target.identifier)
        refuse_other_source(target, table)
        refuse_other_shape(target, table)
        position, batch, logged = plan_again(runtime, target, table, partial(whole_table, mode=target.mode))
        if not position.log_offset:
            raise TableStopped(
                target.table, f"{target.identifier} has lost its position.", "Use lake-assets rebuild."
            )
        stops = (
            other_folders(target, position, changed_folders(runtime, target, position)),
            lost_masks(target, position),
            other_masks(target, position, runtime.contracts.of(target.identifier)),
        )
        if (stopped := next(filter(None, stops), None)) is not None:
            raise stopped
        damaged = known_damage(runtime, target)
        refuse_lost_files(runtime, target, batch, logged, damaged)
        planned = Planned(target, table, position, batch, logged)
        return in_context(runtime, planned, damaged, lambda stage: None, work)

    return retrying(target, once)


def located(context: BatchContext, cycle: Cycle, chosen: Collection[int]) -> tuple[int, DataFrame | None]:
    """How many rows the table has in the slices, and the rows that differ as `differing_rows` describes them, with
    their `_slice`, computed; None without any."""
    target, slices, main = context.target, key_slices(cycle), _main(context)

    def within(key: Any) -> Column:
        return slices.contain(chosen, key)

    reader = BatchReader(context)
    if (reading := reader.read_again(context.members)) is None:
        return _without_files(context)

    rows, unequal = unequal_buckets(target, reading, main, within)
    if not unequal:
        return rows, None

    def within_buckets(key: Any) -> Column:
        # No condition if it would choose all buckets.
        few = F.lit(True) if len(unequal) == BUCKETS else bucket(key).isin(unequal)
        return within(key) & few

    states = states_within(reader, reader.read_with_own(context.members), within_buckets)
    found = differing_rows(target, states, main, within_buckets)
    found = checkpointed(found.withColumn("_slice", slices.of(chosen, held_key(target))))
    return rows, None if found.isEmpty() else found


def _without_files(context: BatchContext) -> tuple[int, None]:
    """The outcome for a table without files, as after a TRUNCATE. Raises TableStopped if it has rows."""
    if not context.position.rows:
        return 0, None
    target = context.target
    raise TableStopped(
        target.table,
        f"{target.identifier} has rows, and no file that they could be of can be read.",
        "Run lake-assets rebuild --check.",
    )


def _main(context: BatchContext) -> DataFrame:
    """The rows of the table at the position. Raises TableStopped if it lacks a column."""
    target, snapshot = context.target, context.position.snapshot_id
    assert snapshot is not None, "the table has a position"
    main = context.spark.sql(table_at(context.runtime.lake.catalog.name, target.identifier, snapshot))
    held = set(main.columns)
    if lacking := [column.name for column in target.image_columns if column.name not in held]:
        raise TableStopped(
            target.table,
            f"{target.identifier} does not have the column {lacking[0]} yet.",
            "Run lake-assets sync first.",
        )
    return main


def _described(target: Target, found: DataFrame) -> tuple[dict[int, int], dict[int, list[str]]]:
    """By slice, the number of rows that differ, and lines about the first of them."""
    numbers = {row["_slice"]: row["count"] for row in found.groupBy("_slice").count().collect()}
    names = key_columns(target.key)
    texts = (
        found.orderBy(*names)
        .limit(MOST_SHOWN)
        .select(
            *(F.col(name).cast("string").alias(name) for name in names),
            "_kind",
            "_copies",
            "_cells",
            "_slice",
        )
    )
    examples: dict[int, list[str]] = {one: [] for one in numbers}
    for row in texts.collect():
        examples[row["_slice"]].append(example(target, row))
    return numbers, examples
