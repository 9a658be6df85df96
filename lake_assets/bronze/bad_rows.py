"""A row that cannot be used stops its table, by name.

Here: finding the line of the first bad row and saying what is wrong with it. Not here: deciding that a row is bad
(`reader.py`).
"""

from typing import Any, NoReturn
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.errors import TableStopped


def stop_for_bad_row(table: str, bad_rows: int, first: dict[str, Any] | None, changes: DataFrame) -> NoReturn:
    """Raises TableStopped. `first` is the first bad row (`_file`, `_row`, `_bad`); `changes` are read once more."""
    assert first is not None, "a bad row was counted"
    line = changes.filter((F.col("_file") == first["_file"]) & (F.col("_row") <= first["_row"])).count()
    more = f" ({bad_rows} rows in all)" if bad_rows > 1 else ""
    raise TableStopped(
        table,
        f"row {line} of {unquote(first['_file'])}: {first['_bad']}{more}.",
        "Nothing of this batch was published. Correct the table's columns in lake.yaml, or have DMS write the file again.",
    )
