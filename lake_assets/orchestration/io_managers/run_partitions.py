"""The partitions of a run, as rows of an asset's table.

Here: partition definitions of time, of a list of values, dynamic ones, and two of them together. Not here: the
conditions in Spark and PyIceberg (`gold/partition_rows.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import product
from typing import Any

import dagster as dg

from lake_assets.gold.partition_rows import ColumnRows, PartitionRows, is_midnight

PARTITION_COLUMN = "lake/partition_column"
"""Definition metadata of a partitioned asset: the column that says which partition a row is in; for two dimensions a
dictionary with the column of each. A date or a timestamp for partitions of time, else the partition's key."""
PARTITION_BY = "lake/partition_by"
"""Definition metadata: Iceberg's partition transforms of a new table, such as `["day(at)", "city"]`."""


def run_partitions(
    context: dg.OutputContext | dg.InputContext, metadata: Mapping[str, Any]
) -> PartitionRows | None:
    """The rows of the run's partitions of the asset; None if the asset has none. `metadata`: of its definition."""
    if not context.has_asset_partitions:
        return None
    definition, keys = context.asset_partitions_def, list(context.asset_partition_keys)
    columns = _columns(context.asset_key, definition, metadata)
    if isinstance(definition, dg.MultiPartitionsDefinition):
        parts = _parts_of_two(definition, columns, keys)
    else:
        parts = [[rows] for rows in _rows(definition, columns[""], keys)]
    ordered = sorted(keys)
    name = f"{ordered[0]} to {ordered[-1]}" if ordered else "none"
    return PartitionRows(tuple(map(tuple, parts)), name)


def partition_by(
    context: dg.OutputContext, partitions: PartitionRows | None, kinds: Mapping[str, str]
) -> Sequence[str]:
    """Iceberg's partition transforms of a new table: as the asset says, else by the columns of its partitions."""
    given = context.definition_metadata.get(PARTITION_BY)
    if given is not None:
        return [given] if isinstance(given, str) else list(given)
    return own_transforms(partitions, kinds)


def own_transforms(partitions: PartitionRows | None, kinds: Mapping[str, str]) -> list[str]:
    """The transforms with which Iceberg's partitions are the same as Dagster's."""
    return [] if partitions is None else [_transform(rows, kinds) for rows in partitions.parts[0]]


def _transform(rows: ColumnRows, kinds: Mapping[str, str]) -> str:
    kind = rows.kind(kinds)
    if rows.window is None or not kind.startswith("timestamp"):
        return rows.column
    # The days of Iceberg's transform are those of UTC.
    whole_days = all(is_midnight(time.astimezone(UTC)) for time in rows.window)
    return f"{'day' if whole_days else 'hour'}({rows.column})"


def _columns(
    key: dg.AssetKey, definition: dg.PartitionsDefinition[Any], metadata: Mapping[str, Any]
) -> dict[str, str]:
    """The column of each dimension; under the empty name if there is only one."""
    given = metadata.get(PARTITION_COLUMN)
    if not isinstance(definition, dg.MultiPartitionsDefinition):
        if isinstance(given, str):
            return {"": given}
        raise dg.DagsterInvariantViolationError(
            f"{key.to_user_string()} is partitioned: name the column of its partitions in metadata {PARTITION_COLUMN!r}"
        )
    names = sorted(dimension.name for dimension in definition.partitions_defs)
    if isinstance(given, Mapping) and sorted(given) == names:
        return dict(given)
    raise dg.DagsterInvariantViolationError(
        f"{key.to_user_string()} has partitions of two dimensions: name the column of each in metadata "
        f"{PARTITION_COLUMN!r}, as a dictionary with {' and '.join(names)}"
    )


def _rows(definition: dg.PartitionsDefinition[Any], column: str, keys: Iterable[str]) -> list[ColumnRows]:
    """The rows of the keys in one dimension: one for each stretch of time, or one for all other keys."""
    if not isinstance(definition, dg.TimeWindowPartitionsDefinition):
        return [ColumnRows(column, tuple(keys))]
    windows = {key: definition.time_window_for_partition_key(key) for key in keys}
    spans = {key: (window.start, window.end) for key, window in windows.items()}
    found: list[ColumnRows] = []
    # In UTC, because Python compares times of one zone by the clock on the wall, which shows an hour of autumn twice.
    for key, (start, end) in sorted(spans.items(), key=lambda item: item[1][0].astimezone(UTC)):
        last = found[-1] if found else None
        if last is not None and last.window is not None and _is_same(last.window[1], start):
            found[-1] = ColumnRows(column, (*last.keys, key), (last.window[0], end))
        else:
            found.append(ColumnRows(column, (key,), (start, end)))
    return found


def _is_same(one: datetime, other: datetime) -> bool:
    return one.astimezone(UTC) == other.astimezone(UTC)


def _parts_of_two(
    definition: dg.MultiPartitionsDefinition, columns: Mapping[str, str], keys: Iterable[str]
) -> list[list[ColumnRows]]:
    """The rows of keys of two dimensions. Keys of the first dimension that come with the same keys of the second are
    taken together."""
    first, second = definition.partitions_defs
    together: dict[str, set[str]] = {}
    for key in keys:
        found = definition.get_partition_key_from_str(key).keys_by_dimension
        together.setdefault(found[first.name], set()).add(found[second.name])
    alike: dict[frozenset[str], list[str]] = {}
    for one, others in together.items():
        alike.setdefault(frozenset(others), []).append(one)
    parts: list[list[ColumnRows]] = []
    for alike_ones, ones in alike.items():
        sides = (
            _rows(first.partitions_def, columns[first.name], ones),
            _rows(second.partitions_def, columns[second.name], sorted(alike_ones)),
        )
        parts += [list(pair) for pair in product(*sides)]
    return parts
