"""Rows of a thousand columns."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.files.read_folder import Folder

pytestmark = pytest.mark.spark
DMS = {
    "add_column_name": True,
    "timestamp_column_name": "commit_ts",
    "change_sequence_column": "change_seq",
    "before_image_prefix": "BI_",
}


def test_a_thousand_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Also of a row with several faults."""
    columns = {"id": "long not null"} | {f"c{number}": "int" for number in range(1000)}
    folder = Folder(tmp_path, columns, ["id"], **DMS)
    header = ",".join(["Op", "commit_ts", *columns, "change_seq", "BI_id"])
    good = ["I", "2026-03-01 12:00:00", "1", *map(str, range(1000)), "1" * 35, ""]
    bad = ["I", "2026-03-01 12:00:00", "2", *map(str, range(997)), "x", "", "y", "2" * 35, ""]
    assert folder.put(
        "public/items/20260301-120000000.csv",
        "\n".join([header, ",".join(good), ",".join(bad), ""]).encode(),
    )
    first, second = sorted(folder.changes(spark).collect(), key=lambda row: row["_row"])
    assert first["_bad"] is None
    assert first["_image"]["c999"] == 999
    assert second["_bad"] == "c997 is not a valid int"
    _, told = sorted(folder.changes(spark, explain=True).collect(), key=lambda row: row["_row"])
    assert told["_bad"].startswith("c997 is not a valid int: 'x'; c998 is empty, which is not a valid int (")
    assert told["_bad"].endswith("; c999 is not a valid int: 'y'")
