"""One fixed view of a mart's inputs: their snapshots, the mart's "now", and the stale periods.

Here: applying the decisions of `changed_periods.py` to `LoadedTables`. The sensor requests runs by the same view by
which a run records what it has consumed, so the two cannot disagree. Not here: reading tables (`table_snapshots.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lake_assets.config import GoldConfig
from lake_assets.gold.at_cut import newest_cut
from lake_assets.gold.changed_periods import Changed, changed_periods, gap_to, held_onwards, spread_onwards
from lake_assets.gold.consumption import Consumption, fingerprint, read_consumption
from lake_assets.gold.mart import Follow, Input, Mart
from lake_assets.gold.periods.grain import Grain, Period, Periods, hull, span
from lake_assets.gold.registry import code_version
from lake_assets.gold.table_snapshots import (
    LoadedTables,
    column_periods,
    commits_since,
    naming_transform,
    periods_held,
    snapshot_of_rows,
)
from lake_assets.iceberg.table_io import current_snapshot, live_rows, summary


@dataclass(frozen=True, slots=True)
class MartView:
    """What a mart would compute now, and from which snapshots."""

    snapshots: Mapping[str, int]
    """By silver table, the snapshot at which the input is read."""
    rows: int
    """The rows of all these tables."""
    now: datetime
    """The source's last commit, or the cut, UTC."""
    mart_snapshot: int | None
    """The mart's snapshot from which the work list was planned."""
    work: tuple[Period, ...]
    """Periods to be computed, in order; empty for an unpartitioned mart."""
    settings: str
    """Fingerprint of `gold.settings`, of partitions other than days, and of the code of a mart with
    `recompute_on_new_code`."""
    stale: bool
    """Whether there is anything to compute."""
    changes: tuple[Mapping[str, str], ...] = ()
    """Summaries of the commits that the mart has not consumed, as far as they are known."""
    span: Periods = frozenset()
    """First and last period of the inputs' data; see `Consumption.span`."""
    every: bool = False
    """Whether all periods count as changed, also those of which neither the inputs nor the mart have rows any more."""


def mart_view(
    loaded: LoadedTables, mart: Mart, gold: GoldConfig, consumed: Consumption | None = None
) -> MartView | None:
    """The view, or None while an input has no published rows yet, or the inputs have no cut in common.

    `consumed`: what computed rows that are not stored yet have consumed; by default what the mart's stored rows
    have."""
    inputs = _inputs(loaded, mart)
    if inputs is None:
        return None
    tables, snapshots, now = inputs
    rows = sum(live_rows(summary(table.snapshot_by_id(snapshots[name]))) for name, table in tables.items())
    target = loaded.table(mart.identifier)
    planned = current_snapshot(target)
    mart_snapshot = planned.snapshot_id if planned is not None else None
    # A maintenance commit of the mart does not record what the mart has consumed.
    newest = snapshot_of_rows(target)
    consumed = consumed or read_consumption(summary(newest))
    changed, changes = _unconsumed(mart, tables, snapshots, consumed)
    settings, grain = fingerprint(gold.settings), mart.partitions
    if grain is not Grain.DAY:
        settings = fingerprint({"settings": settings, "partitions": grain})
    if consumed.grain is not grain:
        # The mart had other partitions, so all of them are computed again.
        consumed = replace(consumed, pending=frozenset(), span=frozenset(), grain=grain)
    if mart.recompute_on_new_code:
        settings = fingerprint({"settings": settings, "code": code_version(mart)})
    as_before = consumed.settings == settings and not _has_new_columns(mart, target, newest, consumed)
    if mart.partition_column is None:
        stale = any(changed.values()) or consumed.now != now or not as_before
        return MartView(snapshots, rows, now, mart_snapshot, (), settings, stale, changes)
    current, first, column = grain.of(now), grain.of(gold.start_date), mart.partition_column
    own = consumed.span
    every = not as_before or any(found.every for found in changed.values())
    if every:
        periods = _every_period(mart, tables, snapshots, current, first)
        own = span(periods, current, first)
        # Added one by one, because a period before all data that a user has requested does not extend the range.
        periods |= periods_held(target, column, grain)
    else:
        # Commits of an earlier version do not name a span.
        own = own or span(periods_held(target, column, grain), current, first)
        periods = _touched(grain, changed, replace(consumed, span=own), now, first)
        if periods - consumed.pending:
            periods |= gap_to(grain, own, periods, current, first)
            own = span(own | periods, current, first)
    work = tuple(sorted(consumed.pending | periods))
    return MartView(snapshots, rows, now, mart_snapshot, work, settings, bool(work), changes, own, every)


def _has_new_columns(mart: Mart, table: Table | None, newest: Snapshot | None, consumed: Consumption) -> bool:
    """Whether the mart declares columns that its rows were computed without. Decided by what the newest commit says
    (without that, by its schema), because the table's own schema gets a new column before its rows have values for it,
    and commits without rows may follow."""
    if table is None or newest is None or newest.schema_id is None:
        return False
    known = consumed.columns or table.schemas()[newest.schema_id].column_names
    return not {column.name for column in mart.columns} <= set(known)


def _inputs(loaded: LoadedTables, mart: Mart) -> tuple[dict[str, Table], dict[str, int], datetime] | None:
    """The inputs' tables, the snapshots to read, and the mart's "now"; None under the conditions of `mart_view`."""
    tables: dict[str, Table] = {}
    snapshots: dict[str, int] = {}
    for rule in mart.rules:
        table = loaded.table(rule.identifier)
        current = current_snapshot(table)
        if table is None or current is None:
            return None
        if rule.column is not None and rule.column not in table.schema().column_names:
            return None  # lake.yaml has it, and no batch has added it yet
        tables[rule.identifier], snapshots[rule.identifier] = table, current.snapshot_id
    if not mart.at_cut:
        return tables, snapshots, loaded.source_now(mart.sources)
    if (cut := newest_cut(tables)) is None:
        return None
    now, snapshots = cut
    return tables, snapshots, now


def _unconsumed(
    mart: Mart, tables: Mapping[str, Table], snapshots: Mapping[str, int], consumed: Consumption
) -> tuple[dict[Input, Changed], tuple[Mapping[str, str], ...]]:
    """What has changed since the mart was computed, by input rule, and the summaries of those commits."""
    changed, changes = {}, {}
    for rule in mart.rules:
        table = tables[rule.identifier]
        commits = commits_since(table, consumed.snapshots.get(rule.identifier), snapshots[rule.identifier])
        transform = naming_transform(table, rule.column, mart.partitions)
        changed[rule] = changed_periods(rule, commits, mart.partitions, transform=transform)
        changes[rule.identifier] = [commit.summary for commit in commits or ()]
    return changed, tuple(summary for found in changes.values() for summary in found)


def _touched(
    grain: Grain,
    changed: Mapping[Input, Changed],
    consumed: Consumption,
    now: datetime,
    first_partition: Period,
) -> Periods:
    found: Periods = frozenset()
    until = grain.of(consumed.now) if consumed.now else None
    for rule, touched in changed.items():
        if rule.follow is Follow.DAY_ONWARDS and (touched or consumed.now != now):
            found |= spread_onwards(
                grain, touched.periods, until, grain.of(now), first_partition, consumed.span
            )
        else:
            found |= touched.periods
    return found


def _every_period(
    mart: Mart,
    tables: Mapping[str, Table],
    snapshots: Mapping[str, int],
    now: Period,
    first_partition: Period,
) -> Periods:
    """All periods of the inputs' rows, and those between them: see `hull`."""
    found: Periods = frozenset()
    for rule in mart.rules:
        if rule.column is not None:
            table, snapshot = tables[rule.identifier], snapshots[rule.identifier]
            held = column_periods(table, snapshot, rule.column, mart.partitions)
            if rule.follow is Follow.DAY_ONWARDS:
                held = held_onwards(mart.partitions, held, now, first_partition)
            found |= held
    return hull(mart.partitions, found, now, first_partition)
