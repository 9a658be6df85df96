"""A batch whose branch maintenance drops as a dead attempt's, between two of its commits.

Not here: a default (`schema/test_killed_evolution.py`), a re-stamp (`silver/test_maintenance.py`), marts
(`orchestration/io_managers/test_partitioned_writes.py`).
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.files.dms_files import Clock
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, changed, values
from lake_assets_tests.helpers.lakes.small_table import NEVER
from lake_assets_tests.helpers.processes.faults import drop_branch_once

pytestmark = pytest.mark.spark


@pytest.mark.usefixtures("all_large")
def test_rows_stay_although_the_branch_is_dropped_while_unknown_rows_are_noted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, clock = Bench(tmp_path, {"public.items": ITEMS}, sections=NEVER), Clock()
    bench.put(changed(clock, ("I", 1, "a")))
    bench.apply()
    dropped = drop_branch_once(monkeypatch, bench)
    bench.put(changed(clock, ("U", 9, "i")))
    bench.apply()
    assert len(dropped) == 1
    assert values(bench) == {1: "a", 9: "i"}
