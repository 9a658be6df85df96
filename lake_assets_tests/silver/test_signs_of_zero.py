"""-0.0 in logs whose repetitions are left out: Spark groups it with 0.0.

Not here: other values (`test_stored_types.py`).
"""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench

pytestmark = pytest.mark.spark
TABLE = "public.items"
COLUMNS = {"id": "long not null", "x": "double", "y": "float"}


@pytest.mark.parametrize("mode", ["change_log", "append_log"])
def test_a_log_keeps_them(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    bench, clock = Bench(tmp_path, {TABLE: {"columns": COLUMNS, "mode": mode}}), Clock()
    bench.put(load_file(TABLE, [{"id": 1, "x": -0.0, "y": 1.5}]))
    bench.apply()
    first = clock.change("I", {"id": 3, "x": -0.0, "y": -0.0})
    second = clock.change("I", {"id": 4, "x": -0.0, "y": 2.0})
    bench.put(cdc_file(TABLE, clock.now + timedelta(minutes=1), [first]))
    bench.put(cdc_file(TABLE, clock.now + timedelta(minutes=2), [second, first]))
    bench.apply()
    assert bench.rows() == bench.truth(shape=mode)
