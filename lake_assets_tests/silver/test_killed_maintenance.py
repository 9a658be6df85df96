"""Maintenance that is killed at any of its steps, for good: a real process, SIGKILL.

Not here: killed batches (`test_exactly_once.py`).
"""

import json
import signal

import pytest
from pyspark.sql import SparkSession

from lake_assets.iceberg.upkeep import table_maintenance as maintenance
from lake_assets.silver.table.position import LOG_OFFSET, read_position
from lake_assets_tests.helpers.lakes.keyed_shop import MaintainedShop, maintained_shop
from lake_assets_tests.helpers.processes.child import PATIENCE, run_python
from lake_assets_tests.helpers.processes.same_lake import same_lake

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("keep_little")]
LONG = pytest.mark.long


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> MaintainedShop:
    return maintained_shop(tmp_path_factory.mktemp("killed"))


def killed_maintenance(shop: MaintainedShop, when: str, step: str) -> None:
    arguments = same_lake(shop.bench) | {"kill": (when, step)}
    program = "lake_assets_tests.helpers.processes.maintain_process"
    process = run_python("-m", program, json.dumps(arguments), timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL, process.stderr[-4000:]


@pytest.mark.parametrize(
    ("when", "step"),
    [
        pytest.param("before", "restamp", id="between rewrite and re-stamp", marks=LONG),
        pytest.param("before", "publish", id="between the re-stamp's commit and its publish", marks=LONG),
        pytest.param("after", "publish", id="between publish and the end of the branch", marks=LONG),
        pytest.param("before", "expire", id="between re-stamp and expiry", marks=LONG),
        pytest.param("after", "expire", id="after the expiry", marks=LONG),
    ],
)
def test_batches_go_on(shop: MaintainedShop, monkeypatch: pytest.MonkeyPatch, when: str, step: str) -> None:
    """The position is where it was; the next batch is applied once, and the next maintenance does what was left."""
    monkeypatch.setattr(maintenance, "PATIENCE_SECONDS", 0.0)
    for _ in range(3):
        shop.change()
        shop.bench.apply()
    before = read_position(shop.bench.table())
    head = shop.bench.table().metadata.current_snapshot_id
    killed_maintenance(shop, when, step)
    table = shop.bench.table()
    assert table.metadata.current_snapshot_id != head, "it had rewritten the files"
    assert (LOG_OFFSET in shop.bench.summary()) is (
        (when, step) not in [("before", "restamp"), ("before", "publish")]
    )
    assert (len(table.snapshots()) == 1) is ((when, step) == ("after", "expire"))
    assert any(name.startswith("apply_") for name in table.refs()) is (step == "publish")
    assert read_position(table).properties() == before.properties()
    assert shop.turn_of_items().batches == []
    shop.check()

    shop.change()
    assert len(shop.turn_of_items().batches) == 1
    shop.check()
    for name in [name for name in shop.bench.table().refs() if name.startswith("apply_")]:
        shop.sql(f"ALTER TABLE {{table}} DROP BRANCH {name}")  # a day later
    shop.maintain()
    assert len(shop.bench.table().snapshots()) == 1
    shop.check()
