"""What an asset returns, as a Spark DataFrame whose columns a table can have.

Here: the kinds of results and the types of their columns. Not here: storing them (`iceberg_io_manager.py`).
"""

import re
from collections.abc import Sequence
from typing import Any

import dagster as dg
import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

_SIGNED = {
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
"""By Arrow type that neither Spark nor Iceberg has, a type that holds all of its values."""
_UNSTORABLE = re.compile(r"\b(time\(|interval )")
"""In Spark's name of a column's type: a type that Spark has, but cannot write to an Iceberg table."""


def result_frame(spark: SparkSession, asset: str, result: Any) -> DataFrame:
    """The rows of a result. Unsigned integers become signed ones, or decimals, that hold them. Raises
    DagsterInvariantViolationError for what is no table, has no columns, or has one whose type a table cannot have."""
    frame = (
        result if isinstance(result, DataFrame) else _of_arrow(spark, asset, _signed(_arrow(asset, result)))
    )
    if not frame.columns:
        raise dg.DagsterInvariantViolationError(f"{asset} returned rows without columns: return at least one")
    _require_different(asset, frame.columns)
    for column in frame.schema:
        if _UNSTORABLE.search(kind := column.dataType.simpleString()):
            raise _unstorable(asset, column.name, kind)
    return frame


def _require_different(asset: str, columns: Sequence[str]) -> None:
    """Raises DagsterInvariantViolationError for a column without a name, and for columns whose names differ at most in
    case: a table takes them for one."""
    seen: dict[str, str] = {}
    for column in columns:
        if not column:
            raise dg.DagsterInvariantViolationError(f"{asset} returned a column without a name: give it one")
        if (lower := column.lower()) in seen:
            raise dg.DagsterInvariantViolationError(
                f"{asset} returned the columns {seen[lower]} and {column}, which a table cannot tell apart: rename one"
            )
        seen[lower] = column


def _arrow(asset: str, result: Any) -> pa.Table:
    if isinstance(result, pa.RecordBatchReader):
        return result.read_all()
    if isinstance(result, pa.Table):
        return result
    if type(result).__module__.startswith("polars."):
        import polars

        # By default its texts are string views, which Spark does not take.
        return result.lazy().collect().to_arrow(compat_level=polars.CompatLevel.oldest())
    if hasattr(result, "__arrow_c_stream__"):
        try:
            return pa.table(result)
        except pa.ArrowInvalid:
            pass  # a single column, such as a Series of pandas
    raise dg.DagsterInvariantViolationError(
        f"{asset}: the Iceberg IO manager stores Spark DataFrames and what PyArrow takes as a table, not "
        f"{type(result).__name__}"
    )


def _signed(table: pa.Table) -> pa.Table:
    return table.cast(
        pa.schema(field.with_type(_SIGNED.get(field.type, field.type)) for field in table.schema)
    )


def _of_arrow(spark: SparkSession, asset: str, table: pa.Table) -> DataFrame:
    try:
        if table.num_rows:
            return spark.createDataFrame(table)
        # Spark Connect takes no Arrow table without rows.
        return spark.createDataFrame([], from_arrow_schema(table.schema))
    except (PySparkTypeError, ValueError):
        # Spark's error names only the type.
        for field in table.schema:
            try:
                spark.createDataFrame(pa.table([pa.nulls(1, field.type)], [field.name]))
            except (PySparkTypeError, ValueError) as error:
                raise _unstorable(asset, field.name, str(field.type)) from error
        raise


def _unstorable(asset: str, column: str, kind: str) -> dg.DagsterInvariantViolationError:
    return dg.DagsterInvariantViolationError(
        f"{asset} returned the column {column} of type {kind}, which a table cannot have: cast it to another type in "
        "the asset, such as text or a number"
    )
