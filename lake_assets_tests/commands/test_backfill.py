"""`lake-assets backfill` as a user types it. Not here: chunks and kills (`orchestration/test_chunked_backfill.py`)."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, write_items

pytestmark = pytest.mark.spark

BY_MONTH = """\
/*
description: What was sold in a month.
follow:
  silver_shop.items: {partition: at}
partition_column: month
partitions: month
columns:
  month: date not null
  items: long not null
*/
SELECT to_date(date_trunc('month', at)) AS month, count(*) AS items FROM silver_shop.items
WHERE at >= :start AND at < :end GROUP BY to_date(date_trunc('month', at))
"""


def test_a_month_is_computed_again(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = {"start_date": "2026-03-15", "marts": ["by_month.sql"]}
    (tmp_path / "by_month.sql").write_text(BY_MONTH)
    folder = command_lake(tmp_path, tables=("public.items",), gold=gold)
    write_items(folder)
    assert call(folder, "backfill", "by_month", "2026-03-01", "2026-03-01") == 1
    assert "Run `lake-assets sync`" in capsys.readouterr().err
    assert call(folder, "sync") == 0
    assert call(folder, "backfill", "by_month", "2026-03-01", "2026-03-01", "--chunk", "10") == 0
    assert "1 partition from 2026-03-01 to 2026-03-01 computed" in capsys.readouterr().out
    assert call(folder, "backfill", "by_month", "2026-02-01", "2026-03-01") == 1
    assert "the first one is 2026-03-01 (gold.start_date)" in capsys.readouterr().err.replace("\n", " ")
