"""One fixed view of a mart's inputs: which snapshots, what "now" is, and which days that makes stale.

Here: fetching the summaries and file bounds that the decision needs, through PyIceberg; no Spark. The same view tells
the sensor what to request and the run what it has consumed, so that the two cannot disagree.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

from pyiceberg.catalog import Catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.table import Table

from lake_assets.gold.changed_days import Changed, Commit, Stretch, changed_days, days_between, spread_onwards
from lake_assets.gold.consumption import Consumption, read_consumption
from lake_assets.gold.mart import Follow, Input, Mart
from lake_assets.iceberg.tables import current_snapshot, load_table, summary
from lake_assets.silver.position import read_position


@dataclass(frozen=True, slots=True)
class MartView:
    """What a mart would compute from at this moment."""

    mart: Mart
    snapshots: Mapping[str, int]
    """By silver table; the inputs are read at these."""
    now: datetime
    """The source's last commit, UTC."""
    mart_snapshot: int | None
    """The mart's snapshot that the work list was made against."""
    work: tuple[date, ...]
    """Days to be computed, in order; empty for an unpartitioned mart."""
    stale: bool
    """Whether there is anything to compute."""


def mart_view(catalog: Catalog, mart: Mart) -> MartView | None:
    """The view, or None while an input has no rows published yet."""
    tables: dict[str, Table] = {}
    for rule in mart.rules:
        table = load_table(catalog, rule.identifier)
        if table is None or table.current_snapshot() is None:
            return None
        tables[rule.identifier] = table
    now = source_now(catalog, mart)
    if now is None:
        return None
    snapshots = {name: _snapshot_id(table) for name, table in tables.items()}
    target = load_table(catalog, mart.identifier)
    current = current_snapshot(target)
    consumed = read_consumption(summary(current))
    if mart.partition_column is None:
        stale = dict(consumed.snapshots) != snapshots or consumed.now != now
        return MartView(mart, snapshots, now, current.snapshot_id if current else None, (), stale)
    work = sorted(consumed.pending | _changed(mart, tables, consumed, target, now))
    return MartView(mart, snapshots, now, current.snapshot_id if current else None, tuple(work), bool(work))


def source_now(catalog: Catalog, mart: Mart) -> datetime | None:
    """The newest source commit applied to any silver table of the mart's sources, UTC."""
    found = []
    for source in mart.sources:
        for identifier in catalog.list_tables(f"silver_{source}"):
            position = read_position(load_table(catalog, ".".join(identifier)))
            if position.max_commit_ts is not None:
                found.append(position.max_commit_ts)
    return max(found, default=None)


def _changed(
    mart: Mart, tables: Mapping[str, Table], consumed: Consumption, target: Table | None, now: datetime
) -> frozenset[date]:
    found: frozenset[date] = frozenset()
    for rule in mart.rules:
        table = tables[rule.identifier]
        stretch = Stretch(_commits_since(table, consumed.snapshots.get(rule.identifier)))
        changed = changed_days(rule, stretch, by_partition=_partitioned_by_day(table, rule.column))
        if changed.every:
            return _every_day(mart, tables, target, now)
        days = changed.days
        if rule.follow is Follow.DAY_ONWARDS and (days or consumed.now != now):
            days = spread_onwards(days, consumed.now.date() if consumed.now else None, now.date())
        found |= days
    return found


def _every_day(
    mart: Mart, tables: Mapping[str, Table], target: Table | None, now: datetime
) -> frozenset[date]:
    """All days that the inputs' rows lie in, by the bounds in their files, and all that the mart has."""
    bounds: list[date] = []
    onwards = any(rule.follow is Follow.DAY_ONWARDS for rule in mart.rules)
    for rule in mart.rules:
        if rule.column is not None:
            bounds += _bounds(tables[rule.identifier], rule)
    if bounds and onwards:
        bounds.append(now.date())
    had: set[date] = set()
    if target is not None and target.current_snapshot() is not None:
        for row in target.inspect.partitions().to_pylist():
            day = row["partition"][mart.partition_column]
            had.add(day)
    return frozenset(had | (set(days_between(min(bounds), max(bounds))) if bounds else set()))


def _bounds(table: Table, rule: Input) -> list[date]:
    """First and last day of a timestamp column over the table's files; deleted rows count, which costs a day more."""
    field = table.schema().find_field(rule.column or "")
    found: list[date] = []
    for task in table.scan().plan_files():
        for bound in (task.file.lower_bounds, task.file.upper_bounds):
            if bound and field.field_id in bound:
                value = from_bytes(field.field_type, bound[field.field_id])
                found.append(datetime.fromtimestamp(value // 1_000_000, UTC).date())
    return [min(found), max(found)] if found else []


def _commits_since(table: Table, consumed: int | None) -> tuple[Commit, ...] | None:
    """Commits after the consumed snapshot, oldest first; None when the chain does not lead back to it."""
    commits: list[Commit] = []
    snapshot = table.current_snapshot()
    while snapshot is not None and consumed is not None:
        if snapshot.snapshot_id == consumed:
            return tuple(reversed(commits))
        operation = snapshot.summary.operation.value if snapshot.summary else "unknown"
        commits.append(Commit(operation, summary(snapshot)))
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    return None


def _partitioned_by_day(table: Table, column: str | None) -> bool:
    if column is None:
        return False
    source_id = table.schema().find_field(column).field_id
    return any(f.source_id == source_id and str(f.transform) == "day" for f in table.spec().fields)


def _snapshot_id(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None, "only tables with a snapshot get here"
    return snapshot.snapshot_id
