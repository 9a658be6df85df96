"""The sensor of the batch log, and the run that a row names.

Not here: what else a row has (`silver/batch_log/test_recorded_once.py`).
"""

from datetime import UTC, datetime

import dagster as dg
import pytest

from lake_assets.silver.batch_log.batches_table import BatchLog
from lake_assets_tests.helpers.orchestration.dagster_shop import Shop

pytestmark = pytest.mark.slow
SALES = "silver_shop.sales"


def test_a_row_names_the_run(shop: Shop) -> None:
    sensor = shop.definitions.get_repository_def().get_sensor_def("batches")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    assert shop.refusal("batches") == "nothing is new"
    shop.load("sales", [1, 2])
    runs = []
    for number in (3, 4):
        shop.change("sales", [number])
        runs.append(shop.apply().run_id)
        assert "recorded" in shop.refusal("batches")
        assert shop.refusal("batches") == "nothing is new"
    found = BatchLog(shop.lake.runtime.catalog).since(datetime(2020, 1, 1, tzinfo=UTC), [SALES])
    found.sort(key=lambda row: row.number)
    assert [row.run_id for row in found] == [*[runs[0]] * (len(found) - 1), runs[1]]
    assert {row.kind for row in found} >= {"full_load", "cdc"}
