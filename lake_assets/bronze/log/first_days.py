"""The first day on which a file of each table was written, from the file log.

Here: reading few columns of the log, because a process that only shows the lake's assets needs no more of it. Not here:
the files of a day (`day_totals.py`).
"""

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import TABLE
from lake_assets.bronze.log.log_record import Owner, of_nobody
from lake_assets.config import TableName
from lake_assets.iceberg.file_io.table_rows import rows
from lake_assets.iceberg.table_io import load_table

COLUMNS = ["source", "schema", "table", "kind", "capture_date"]


def first_days(catalog: Catalog, owner: Owner = of_nobody) -> dict[tuple[str, str], date]:
    """By source and `schema.table`; empty without a log."""
    log = load_table(catalog, TABLE)
    logged = rows(log.scan(), COLUMNS) if log is not None else pa.table({})
    if not logged.num_rows:
        return {}
    landed = logged.filter(pc.not_equal(logged["kind"], FileKind.VANISHED.value))
    first = landed.group_by(["source", "schema", "table"]).aggregate([("capture_date", "min")])
    found: dict[tuple[str, str], date] = {}
    for row in first.to_pylist():
        stored = TableName(row["schema"], row["table"])
        place = row["source"], str(owner(row["source"], stored) or stored)
        found[place] = min(row["capture_date_min"], found.get(place, date.max))
    return found
