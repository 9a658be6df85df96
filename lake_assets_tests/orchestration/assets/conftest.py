"""What the tests of assets share."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.orchestration.dagster_shop import (
    DAILY,
    Shop,
    open_shop,
)


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return open_shop(tmp_path, marts=[DAILY])
