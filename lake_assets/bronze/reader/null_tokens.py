"""NULL, the empty text and values that were not supplied, in the fields of CSV files.

Here: the endpoint's null token and its marker for values that were not supplied. Not here: reading the fields
(`text_rows.py`, `strict_rows.py`, `transaction_rows.py`), their types (`typed_rows.py`). DataFrame API only.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.files.formats import MAY_BE_EMPTY, Layout
from lake_assets.bronze.reader.text_rows import PLACE, field_names
from lake_assets.bronze.reader.wide_rows import array_of, is_wide, texts_of, unpacked
from lake_assets.config import Column as ColumnConfig
from lake_assets.config import DmsSettings, Mode, TableConfig
from lake_assets.spark.sql import Sql, quoted, sql


def csv_values(rows: DataFrame, layout: Layout, table: TableConfig, dms: DmsSettings) -> DataFrame:
    """The same rows with NULL for the null token and the empty text for an empty field; and, where the endpoint marks
    values that were not supplied, `_unsupplied`, an array of the names of the source columns without a value."""
    fields, known_names = field_names(layout), {column.name for column in table.columns}
    empty = F.lit(None) if dms.csv_null_value == "" else F.lit("")

    def is_marked(text: Column) -> Column:
        return F.coalesce(text, F.lit("")) == F.lit(dms.csv_no_sup_value)

    def known_of(text: Column) -> Column:
        known = F.when(text.isNull(), empty).when(text != dms.csv_null_value, text)
        return known if dms.csv_no_sup_value is None else F.when(~is_marked(text), known)

    names = [name if name in known_names else None for name in layout.columns]
    beside = [*map(F.col, PLACE)]
    marks = dms.csv_no_sup_value is not None
    if is_wide(fields):
        texts = F.expr(array_of(map(quoted, fields)))
        if marks:
            missing = F.zip_with(
                texts, F.expr(texts_of(names)), lambda text, name: F.when(is_marked(text), name)
            )
            beside.append(F.array_compact(missing).alias("_unsupplied"))
        rows = rows.select(F.transform(texts, known_of).alias("_known"), *beside)
        return unpacked(rows, "_known", fields, *PLACE, *(["_unsupplied"] if marks else []))
    columns = [*map(F.col, fields)]
    if marks:
        marked = (F.when(is_marked(text), F.lit(name)) for text, name in zip(columns, names, strict=True))
        beside.append(F.array_compact(F.array(*marked)).alias("_unsupplied"))
    known = (known_of(text).alias(field) for text, field in zip(columns, fields, strict=True))
    return rows.select(*known, *beside)


def unsupplied(nulls: Mapping[str, Column], *, is_marked: bool) -> Column:
    """`_unsupplied`: the columns with the marker (`is_marked`: the rows have them), and in an update the columns of
    kept_when_null without a value. `nulls`: by column, whether the file has none."""
    nothing = F.array().cast("array<string>")
    lacking = F.array_compact(F.array(*(F.when(null, F.lit(name)) for name, null in nulls.items())))
    marked = F.col("_unsupplied") if is_marked else nothing
    kept = F.coalesce(F.when(F.col("_op") == "U", lacking), nothing)
    return (F.array_union(marked, kept) if nulls else marked).alias("_unsupplied")


def with_empty_value(text: Sql, column: ColumnConfig, table: TableConfig, dms: DmsSettings) -> Sql:
    """Where NULL is written as an empty field, the empty field of a required column of text or bytes is an empty
    value."""
    if dms.csv_null_value != "" or not column.required or column.type not in MAY_BE_EMPTY:
        return text
    is_matched = table.mode is Mode.FULL_ROW or column.name in table.primary_key
    binds = sql("true") if is_matched else sql("_op != 'D'")
    if column.name in table.kept_when_null:
        binds = sql("_op NOT IN ('D', 'U')")
    return sql("CASE WHEN {text} IS NULL AND {binds} THEN '' ELSE {text} END", text=text, binds=binds)
