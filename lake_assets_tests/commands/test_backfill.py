"""`lake-assets backfill` as a user types it. Not here: chunks and kills (`orchestration/test_chunked_backfill.py`)."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, write_items
from lake_assets_tests.helpers.processes.child import run_python

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


def by_month(tmp_path: Path) -> Path:
    """A lake with this mart."""
    (tmp_path / "by_month.sql").write_text(BY_MONTH)
    gold = {"start_date": "2026-03-15", "marts": ["by_month.sql"]}
    return command_lake(tmp_path, tables=("public.items",), gold=gold)


def test_a_month_is_computed_again(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = by_month(tmp_path)
    write_items(folder)
    assert call(folder, "backfill", "by_month", "2026-03-01", "2026-03-01") == 1
    assert "Run `lake-assets sync`" in capsys.readouterr().err
    assert call(folder, "sync") == 0
    assert call(folder, "backfill", "by_month", "2026-03-01", "2026-03-01", "--chunk", "10") == 0
    assert "1 partition from 2026-03-01 to 2026-03-01 computed" in capsys.readouterr().out
    assert call(folder, "backfill", "by_month", "2026-02-01", "2026-03-01") == 1
    assert "the first one is 2026-03-01 (gold.start_date)" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nope", "2026-03-01", "2026-03-01"), "There is no mart nope with partitions; there are by_month."),
        (("by_month", "2026-04-01", "2026-03-01"), "has no partitions from 2026-04-01 to 2026-03-01"),
        (("by_month", "2026-03-01", "9999-01-01"), "has no partitions from 2026-03-01 to 9999-01-01"),
    ],
)
def test_a_mistake_is_told_before_spark_starts(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    folder = by_month(tmp_path)
    done = run_python(
        "-m", "lake_assets.cli", "--config", folder / "lake.yaml", "backfill", *arguments, timeout=120
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert told in done.stderr
    log = folder / "spark.log"
    assert not log.exists() or not log.read_text()
