"""What the tests of the marts' definitions share."""

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.lakes.small_lakes import small_lake
from lake_assets_tests.helpers.marts.mart_frames import Row
from lake_assets_tests.helpers.marts.rack_spells import written_by_hand


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A session with a lake's settings."""
    return small_lake(tmp_path_factory.mktemp("marts")).runtime.sessions.root()


@pytest.fixture(scope="module")
def by_hand() -> dict[str, list[Row]]:
    """The rows of each table that the marts read."""
    return written_by_hand()
