"""An erasure that is killed at any step, and run again.

Here: the steps, and what a scan and a turn do in between. Not here: what an erasure removes (`test_erase.py`).
"""

from pathlib import Path
from typing import Literal
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.erase.erase import Followers, erase
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets.silver.table.pause import pause_of
from lake_assets_tests.commands.erase.people import (
    TABLE,
    apply_all,
    erased,
    forget,
    history_of,
    left_of_her,
    people_bench,
    plan_of,
)
from lake_assets_tests.helpers.processes.faults import Killed, Point, Step, armed, killed

pytestmark = [pytest.mark.spark, pytest.mark.slow]
_ERASE = "lake_assets.commands.erase.erase"
STEPS = [
    (_ERASE, "pause", "after"),
    ("lake_assets.iceberg.erasure_log", "ErasureLog.note", "after"),
    ("lake_assets.silver.erase.erased_files", "content_without", "after"),
    ("lake_assets.bronze.log.file_log", "FileLog.log_copies", "before"),
    ("lake_assets.bronze.log.file_log", "FileLog.log_copies", "after"),
    ("lake_assets.storage.local_store", "LocalStore.write", "after"),
    (_ERASE, "settle", "before"),
    (_ERASE, "erase_rows", "before"),
    ("lake_assets.iceberg.publish", "Attempt.publish", "before"),
    ("lake_assets.iceberg.publish", "Attempt.publish", "after"),
    ("lake_assets.iceberg.upkeep.table_maintenance", "TableMaintenance.compact", "after"),
    ("lake_assets.iceberg.upkeep.table_maintenance", "TableMaintenance.restamp", "after"),
    (_ERASE, "_move_cuts", "before"),
    (_ERASE, "_forget_former", "before"),
    (_ERASE, "_prove", "before"),
    (_ERASE, "resume", "before"),
    (_ERASE, "_resume", "after"),
]


SHORT = ("LocalStore.write", "Attempt.publish", "_resume")
"""Of these steps, the tests after them run in `make test`."""


@pytest.mark.parametrize(
    ("module", "attribute", "when"),
    [
        pytest.param(*step, marks=() if step[1] in SHORT and step[2] == "after" else pytest.mark.long)
        for step in STEPS
    ],
    ids=lambda value: value.rsplit(".", 1)[-1],
)
def test_killed_and_run_again(
    spark: SparkSession, tmp_path: Path, module: str, attribute: str, when: Literal["before", "after"]
) -> None:
    bench = people_bench(tmp_path, table={"also": ["change_log"]})
    apply_all(bench, history_of())
    point = Point("", Step.WRITING, module, attribute, when)
    plan = plan_of(bench)
    with armed(point, killed), pytest.raises(Killed):
        erase(bench.lake, plan, Followers())
    # Another process scans, and applies what it finds.
    again = bench.again()
    again.turn()
    erased(again)
    assert left_of_her(tmp_path) == []
    forget(again, 1)
    assert again.rows("people") == again.truth(TABLE)
    assert {name: len(batches) for name, batches in again.apply().items()} == {
        "people": 0,
        "people_changes": 0,
    }
    for target in again.lake.targets:
        assert pause_of(again.table(target.name)) == ""
        assert rebuild(again.lake.runtime, target, publish=False).equal, target.name


def test_a_store_whose_version_is_another(spark: SparkSession, tmp_path: Path) -> None:
    """As in a bucket that encrypts by KMS: the version of an object is known once it is written."""
    bench = people_bench(tmp_path, table={"also": ["change_log"]})
    apply_all(bench, history_of())
    with patch("lake_assets.storage.local_store.LocalStore.version_of", lambda self, content: "unknown"):
        erased(bench)
    assert left_of_her(tmp_path) == []
    forget(bench, 1)
    assert bench.rows("people") == bench.truth(TABLE)
    head = bench.lake.runtime.file_log.head()
    assert {name: len(batches) for name, batches in bench.apply().items()} == {
        "people": 0,
        "people_changes": 0,
    }
    assert bench.lake.runtime.file_log.head() == head
