"""Removing the versions and changes of long ago from a table that keeps them, in one commit that keeps the position.

The commit records the time, and every batch, replay and rebuild leaves out what ended or was made before it: so the
table is a function of its files and this time. Here: when that is due, the edit, and applying it. Not here: the other
steps of maintenance (`rounds/maintenance.py`).
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pyiceberg.table import Table

from lake_assets.config import Mode
from lake_assets.iceberg.publish import lost_races
from lake_assets.iceberg.table_io import HISTORY_TRIMMED_TO, current_snapshot, load_table, set_property
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.apply_batch import apply_batch
from lake_assets.silver.apply.planned import Planned, in_context, retrying
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.result import BatchResult
from lake_assets.silver.plan.members import living_files
from lake_assets.silver.plan.plan import Batch
from lake_assets.silver.reduce.compare_rewritten import committed_before
from lake_assets.silver.reduce.edit import Edit, Matching, Recounted
from lake_assets.silver.reduce.past.scd2_versions import ended_before
from lake_assets.silver.reduce.touched_periods import touched_by_rows
from lake_assets.silver.table.guard import refuse_unfit
from lake_assets.silver.table.masks import described
from lake_assets.silver.table.position import read_position
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import sql, table_address

APART = timedelta(days=1)
"""Between the ends of two removals: each marks rows of large files."""
ENDED = {Mode.HISTORY: ended_before, Mode.CHANGE_LOG: committed_before}
"""By mode, the condition for rows that ended, or were made, before a time."""


def is_trim_due(target: Target, table: Table | None, now: datetime, times: int = 1) -> bool:
    """Whether maintenance should look for rows that `keep_history` no longer keeps. `now`: UTC; `times`: how often
    APART has to be over, for a table that somebody else maintains, too."""
    window = target.config.keep_history
    if window is None or target.mode not in ENDED:
        return False
    if table is None or current_snapshot(table) is None:
        return False
    given = table.properties.get(HISTORY_TRIMMED_TO)
    return given is None or now - window - datetime.fromisoformat(given) >= APART * times


def _is_as_lake_yaml_says(context: BatchContext) -> bool:
    """Whether the table has today's columns, masks and folders, and the log is that of its position. If not, a batch or
    a rebuild has to come first: the commit of a removal would say that all of this had been applied."""
    then, target = context.position, context.target
    today = (
        context.contracts.versions[-1].number,
        described(target),
        target.folder_rule.text,
        context.log_mark,
    )
    return (then.contract_version, then.masks, then.folders, then.mark) == today


def trim_history(runtime: LakeRuntime, target: Target, now: datetime) -> int:
    """Removes the rows that ended longer before `now` (UTC) than `keep_history`, and notes that time in the table;
    returns how many. Makes no commit without such rows. Raises TableStopped and ApplyConflict."""
    window = target.config.keep_history
    if window is None or target.mode not in ENDED:
        return 0
    ends = (now - window).astimezone(UTC)

    def once() -> BatchResult | None:
        table = load_table(runtime.catalog, target.identifier)
        refuse_unfit(target, table)
        position = read_position(table)
        last = position.history_from
        if current_snapshot(table) is None or (last is not None and ends <= last):
            return None
        batch = Batch("cdc", (), position.log_offset, position.epoch, cut=position.cut, again=True)
        logged = runtime.file_log.files(target.source, target.table)
        living = living_files(logged, target.mode, target.config.on_vanished)
        planned = Planned(target, table, replace(position, history_from=ends), batch, living)
        return in_context(runtime, planned, {}, lambda stage: None, work)

    def work(context: BatchContext) -> BatchResult | None:
        if not _is_as_lake_yaml_says(context):
            return None
        condition = ENDED[context.target.mode](ends)
        rows = context.main.filter(condition)
        number = rows.count()
        if not number:
            return None
        edit = Edit(
            removed=Matching(condition=condition),
            rows=0,
            counted=lambda: Recounted(0, replaced=number),
            touched=touched_by_rows(context.target, rows),
            repairs=True,
        )
        return apply_batch(context, edit=lambda context: edit)

    def note() -> None:
        noted = set_property(HISTORY_TRIMMED_TO, ends.isoformat())
        address = table_address(runtime.catalog.name, target.identifier)
        with lost_races(target.identifier):
            runtime.sessions.root().sql(sql("ALTER TABLE {table} {change}", table=address, change=noted))

    result = retrying(target, once)
    retrying(target, note)
    return 0 if result is None else result.rows_removed
