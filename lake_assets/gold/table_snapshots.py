"""The snapshots and periods of the lake's tables, read from their metadata by PyIceberg, without Spark.

Here: fetching summaries, file bounds, partitions. Not here: the decisions from them
(`changed_periods.py`, `view.py`).
"""

import contextlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import DateType, NestedField, PrimitiveType

from lake_assets.errors import LakeError
from lake_assets.gold.changed_periods import WITHIN, Commit
from lake_assets.gold.consumption import Consumption, read_consumption
from lake_assets.gold.periods.column_values import column_values
from lake_assets.gold.periods.grain import YEAR, Grain, Period, Periods
from lake_assets.iceberg.table_io import applied_at, load_table, since_1970, summary
from lake_assets.iceberg.upkeep.retention import chain, main_chain
from lake_assets.silver.table.position import read_position


class LoadedTables:
    """The lake's tables at one moment. Each table is loaded once, however many marts read it, and never again: create a
    new one for each round."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tables: dict[str, Table | None] = {}
        self._now: dict[str, datetime | None] = {}

    def table(self, identifier: str) -> Table | None:
        if identifier not in self._tables:
            self._tables[identifier] = load_table(self._catalog, identifier)
        return self._tables[identifier]

    def source_now(self, sources: Iterable[str]) -> datetime:
        """The newest source commit applied to any silver table of the sources, UTC; if the files have no commit times,
        the time of silver's newest change.
        """
        names = [f"silver_{source}" for source in sources]
        found = [now for name in names if (now := self._newest_commit(name)) is not None]
        return max(found) if found else max(self._newest_snapshot(name) for name in names)

    def _newest_commit(self, namespace: str) -> datetime | None:
        if namespace not in self._now:
            stamps = []
            for table in self._namespace(namespace):
                # A table without a position is not one of the source's.
                with contextlib.suppress(LakeError):
                    stamps.append(read_position(table).max_commit_ts)
            self._now[namespace] = max((stamp for stamp in stamps if stamp is not None), default=None)
        return self._now[namespace]

    def _newest_snapshot(self, namespace: str) -> datetime:
        current = [snapshot for table in self._namespace(namespace) if (snapshot := snapshot_of_rows(table))]
        # A re-stamp changes no rows; it has the time of the commit that it repeats.
        return max((applied_at(snapshot) for snapshot in current), default=datetime.fromtimestamp(0, UTC))

    def _namespace(self, namespace: str) -> list[Table]:
        found = [self.table(".".join(identifier)) for identifier in self._catalog.list_tables(namespace)]
        return [table for table in found if table is not None]


def snapshot_of_rows(table: Table | None) -> Snapshot | None:
    """The newest snapshot that is not a maintenance commit: maintenance changes no rows, and its commits have no
    properties of ours. If all other snapshots have expired, the oldest retained one."""
    snapshot = None
    for snapshot in main_chain(table) if table is not None else ():
        if _commit(snapshot).operation != "replace":
            break
    return snapshot


def commits_since(table: Table, consumed: int | None, upto: int) -> tuple[Commit, ...] | None:
    """Commits after the snapshot `consumed` up to `upto`, the oldest first; None when the chain does not lead back."""
    if consumed is None:
        return None
    commits: list[Commit] = []
    for snapshot in chain(table, upto):
        if snapshot.snapshot_id == consumed:
            break
        commits.append(_commit(snapshot))
        if snapshot.parent_snapshot_id == consumed:
            break  # the consumed snapshot itself may have expired
    else:
        return None
    return tuple(reversed(commits))


def changed_since(table: Table, consumed: int | None) -> list[Snapshot]:
    """The retained snapshots of main after `consumed` that changed rows, the newest first; all of them for None."""
    found: list[Snapshot] = []
    for snapshot in main_chain(table):
        if snapshot.snapshot_id == consumed:
            break
        if _commit(snapshot).changes_rows:
            found.append(snapshot)
    return found


def newest_consumption(table: Table | None) -> Consumption | None:
    """What the mart had consumed at its newest own commit; None without one."""
    states = (
        read_consumption(summary(snapshot)) for snapshot in (main_chain(table) if table is not None else ())
    )
    return next((state for state in states if state.snapshots), None)


def _commit(snapshot: Snapshot) -> Commit:
    return Commit(snapshot.summary.operation.value if snapshot.summary else "unknown", summary(snapshot))


def naming_transform(table: Table, column: str | None, grain: Grain) -> str | None:
    """The transform by which the table partitions the column, so that its commits name the periods that they touch;
    None if there is none."""
    if column is None:
        return None
    source_id = table.schema().find_field(column).field_id
    found = (str(field.transform) for field in table.spec().fields if field.source_id == source_id)
    return next((transform for transform in found if transform in WITHIN[grain]), None)


def periods_held(table: Table | None, partition_column: str, grain: Grain) -> Periods:
    """The partitions of a mart that have rows."""
    if table is None or table.current_snapshot() is None:
        return frozenset()
    source_id = table.schema().find_field(partition_column).field_id
    (name,) = (field.name for field in table.spec().fields if field.source_id == source_id)
    values = (row["partition"][name] for row in table.inspect.partitions().to_pylist())
    # The value of Iceberg's transform `hour` is a number.
    return frozenset(grain.of(since_1970(timedelta(hours=v)) if isinstance(v, int) else v) for v in values)


def column_periods(table: Table, snapshot_id: int, column: str, grain: Grain) -> Periods:
    """Periods of a timestamp or date column in a snapshot: at least the first and the last one of each file. If a
    file's values are more than a YEAR apart, all of their periods, because one of them may be a marker, which would
    hide the others. Deleted rows count, which costs at most some extra periods."""
    field = table.schema().find_field(column)
    found: set[Period] = set()
    for task in table.scan(snapshot_id=snapshot_id).plan_files():
        bounds = _file_bounds(task.file, field)
        if bounds is None or (bounds and max(bounds) - min(bounds) > YEAR):
            found |= column_values(table, task, field, grain)
        else:
            found |= set(map(grain.of, bounds))
    return frozenset(found)


def _file_bounds(file: DataFile, field: NestedField) -> set[datetime] | None:
    """None if the file has no bounds: Iceberg keeps none beyond the hundredth column of a table."""
    ends = [(bounds or {}).get(field.field_id) for bounds in (file.lower_bounds, file.upper_bounds)]
    given = {_time(field, end) for end in ends if end is not None}
    nulls = (file.null_value_counts or {}).get(field.field_id)
    return None if not given and nulls != file.record_count else given


def _time(field: NestedField, bound: bytes) -> datetime:
    assert isinstance(field.field_type, PrimitiveType), "only timestamps and dates are followed"
    value: Any = from_bytes(field.field_type, bound)
    return since_1970(
        timedelta(days=value) if isinstance(field.field_type, DateType) else timedelta(microseconds=value)
    )
