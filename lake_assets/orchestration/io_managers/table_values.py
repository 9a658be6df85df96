"""An Iceberg table as the value of an asset's parameter, of the type that the parameter has.

Here: which rows and columns, and the conversion, without Spark where the type is not Spark's. Not here: which
partitions a run reads (`run_partitions.py`).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table

from lake_assets.gold.partition_rows import PartitionRows, table_frame
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.cut_tags import cut_tags

COLUMNS = "columns"
"""Metadata of an input: the names of the columns to read; by default all."""
SNAPSHOT = "lake/snapshot"
"""Metadata of an input: the id of the Iceberg snapshot to read; by default the current one."""
CUT = "lake/cut"
"""Metadata of an input: `newest`, or an ISO time: read the table at the consistent cut of its source."""
NEWEST = "newest"
SPARK = "pyspark"


def table_value(
    runtime: LakeRuntime,
    identifier: str,
    table: Table,
    wanted: type | Any,
    rows: PartitionRows | None,
    metadata: Mapping[str, Any],
) -> Any:
    """The table's rows as `wanted`: a Spark DataFrame (also for a parameter without a type), `pyarrow.Table` or
    `RecordBatchReader`, `pandas.DataFrame`, `polars.DataFrame` or `LazyFrame`, `duckdb.DuckDBPyRelation`; or
    PyIceberg's `Table` itself, which has all rows and columns. Raises DagsterInvariantViolationError for another type,
    and for a column, a snapshot or a cut that the table does not have."""
    name = _type_name(wanted)
    if name == "pyiceberg.Table":
        return table
    columns, snapshot_id = _columns(identifier, table, metadata), _snapshot(identifier, table, metadata)
    kinds = {field.name: str(field.field_type) for field in table.schema().fields}
    if name == SPARK:
        return table_frame(runtime, identifier, snapshot_id, columns=columns, rows=rows, kinds=kinds)
    if name not in _CONVERSIONS:
        known = ", ".join(["pyspark.sql.DataFrame", *_CONVERSIONS, "pyiceberg.table.Table"])
        raise dg.DagsterInvariantViolationError(
            f"{identifier} cannot be loaded as {wanted!r}. Annotate the parameter with one of: {known}"
        )
    scan = table.scan(
        row_filter=AlwaysTrue() if rows is None else rows.in_pyiceberg(kinds),
        selected_fields=tuple(columns) if columns else ("*",),
        snapshot_id=snapshot_id,
    )
    return _CONVERSIONS[name](scan)


def _type_name(wanted: Any) -> str:
    """Package and class of a type; a parameter without a type is Spark's."""
    if wanted in (Any, None, type(None)):
        return SPARK
    package = wanted.__module__.split(".")[0].lstrip("_")
    return SPARK if package == SPARK else f"{package}.{wanted.__name__}"


def _columns(identifier: str, table: Table, metadata: Mapping[str, Any]) -> Sequence[str]:
    given = metadata.get(COLUMNS) or ()
    columns = [given] if isinstance(given, str) else list(given)
    known = table.schema().column_names
    if unknown := [column for column in columns if column not in known]:
        raise dg.DagsterInvariantViolationError(
            f"{identifier} has no column {' and no '.join(unknown)}, which the input's metadata {COLUMNS!r} names; "
            f"it has {', '.join(known)}"
        )
    return columns


def _snapshot(identifier: str, table: Table, metadata: Mapping[str, Any]) -> int | None:
    """The snapshot to read; None for the current one."""
    if (given := metadata.get(SNAPSHOT)) is not None:
        if table.snapshot_by_id(int(given)) is None:
            raise dg.DagsterInvariantViolationError(
                f"{identifier} has no snapshot {given}, which the input's metadata {SNAPSHOT!r} names: it may have "
                "been expired by maintenance"
            )
        return int(given)
    if (wanted := metadata.get(CUT)) is None:
        return None
    cuts = cut_tags(table)
    cut = max(cuts, default=None) if wanted == NEWEST else _time(wanted)
    if cut is None or cut not in cuts:
        shown = ", ".join(each.isoformat() for each in sorted(cuts)) or "none"
        raise dg.DagsterInvariantViolationError(
            f"{identifier} has no consistent cut {wanted}, which the input's metadata {CUT!r} names; it has {shown}"
        )
    return cuts[cut]


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _polars(scan: Any) -> Any:
    import polars

    return polars.from_arrow(scan.to_arrow())


def _duckdb(scan: Any) -> Any:
    import duckdb

    # The relation keeps the connection, and the connection the rows.
    return duckdb.connect().from_arrow(scan.to_arrow())


_CONVERSIONS = {
    "pyarrow.Table": lambda scan: scan.to_arrow(),
    "pyarrow.RecordBatchReader": lambda scan: scan.to_arrow_batch_reader(),
    "pandas.DataFrame": lambda scan: scan.to_pandas(),
    "polars.DataFrame": _polars,
    "polars.LazyFrame": lambda scan: _polars(scan).lazy(),
    "duckdb.DuckDBPyRelation": _duckdb,
}
