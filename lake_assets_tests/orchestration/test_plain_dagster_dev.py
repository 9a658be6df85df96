"""Plain `dagster dev` in the repository: no server, no environment, a Spark in every run."""

from pathlib import Path

import pytest

from lake_assets_tests.helpers.orchestration.dagster_dev import history_lands, running

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.slow]


def test_files_that_land_become_silver_and_marts(tmp_path: Path) -> None:
    for dev in running(tmp_path, plain=True):
        history_lands(dev)
        assert not (tmp_path / ".lake/spark-connect.pid").exists()
        dev.end()
