"""A row that cannot be used, or that is not there, stops its table, by name.

Here: finding the file and the line, and saying what is wrong with it. Not here: deciding that a row is bad
(`typed_rows.py`), or counting a file's rows (`inspect.py`).
"""

from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.places import plain
from lake_assets.errors import RowCountMismatch, TableStopped
from lake_assets.words import does, many


def stop_for_bad_row(table: str, bad_rows: int, first: dict[str, Any] | None, changes: DataFrame) -> NoReturn:
    """Raises TableStopped. `first` is the first bad row (`_file`, `_row`, `_bad`); `changes` are read once more."""
    assert first is not None, "a bad row was counted"
    line = changes.filter((F.col("_file") == first["_file"]) & (F.col("_row") <= first["_row"])).count()
    more = f" ({many(bad_rows, 'row')} in all)" if bad_rows > 1 else ""
    # Of a transaction file, `changes` are the rows of this table.
    of = f"those of {table} in " if "/CDC_TXN-" in first["_file"] else ""
    raise TableStopped(
        table,
        f"row {line} of {of}{unquote(first['_file'])}: {first['_bad']}{more}.",
        "Nothing of this batch was published. Correct the table's columns in lake.yaml, or have DMS write the file "
        "again.",
    )


def stop_for_missing_rows(table: str, counted: Mapping[str, int], changes: DataFrame) -> NoReturn:
    """Raises RowCountMismatch with the first file that the reader saw more or fewer rows of than were `counted`, by
    address, without it; `changes` are read once more."""
    seen = {plain(unquote(row["_file"])): row["count"] for row in changes.groupBy("_file").count().collect()}
    for address, rows in counted.items():
        if (read := seen.get(plain(address), 0)) != rows:
            differs = f"{address} holds {many(rows, 'row')} by its own count, the reader saw {read}"
            break
    else:
        first = next(iter(counted))
        differs = (
            f"{many(len(counted), 'file')} from {first} on {does(len(counted), 'were')} read with a row too many or "
            "too few, once"
        )
    raise RowCountMismatch(
        table,
        f"{differs}. Nothing of this batch was published.",
        "A file that was still being written is read whole by the next run; if this repeats, look for an empty line "
        "or an unpaired quote in it.",
    )
