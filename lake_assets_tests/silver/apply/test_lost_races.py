"""Another run publishes before a batch reads the rows that it replaces: a lost race, and not rows that do not add up.

Not here: races for the publish itself (`test_exactly_once.py`), and with maintenance (`test_races.py`).
"""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.silver.apply.engine import apply_table
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench

pytestmark = pytest.mark.spark
TABLE = "public.items"
COLUMNS = {"id": "long not null", "v": "string"}


@pytest.mark.parametrize(
    "mode", ["history", *(pytest.param(mode, marks=pytest.mark.long) for mode in ("soft_delete", "full_row"))]
)
def test_the_batch_is_planned_again(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    key: dict[str, Any] = {} if mode == "full_row" else {"primary_key": ["id"]}
    bench, clock = Bench(tmp_path, {TABLE: {"columns": COLUMNS, "mode": mode} | key}), Clock()
    bench.put(load_file(TABLE, [{"id": number, "v": "old"} for number in range(3)]))
    bench.apply()
    changes = [clock.change("U", {"id": n, "v": "new"}, {"id": n, "v": "old"}) for n in range(3)]
    bench.put(cdc_file(TABLE, clock.now, changes))
    bench.look()
    others: list[Any] = []

    def interfere(target: Target, stage: str) -> None:
        if stage == "read" and not others:
            others.extend(apply_table(bench.reopened().runtime, target, lambda target, stage: None).batches)

    result = apply_table(bench.lake.runtime, bench.lake.targets[0], interfere)
    assert len(others) == 1
    assert (result.error, result.batches) == (None, [])
