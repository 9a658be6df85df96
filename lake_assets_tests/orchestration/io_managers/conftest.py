"""A lake."""

import pytest
from pyspark.sql import SparkSession

from lake_assets.orchestration.lake_definitions import Lake
from lake_assets_tests.helpers.lakes.small_lakes import small_lake


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return small_lake(tmp_path_factory.mktemp("io_manager"))
