"""A database that makes a commit of maintenance, and whose answer is lost.

Here: each of the commits to a silver table, one after the other. Not here: processes that are killed
(`silver/test_killed_maintenance.py`).
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.run.maintain import maintain
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.keyed_shop import KEEP_NOTHING, KEYED, MaintainedShop
from lake_assets_tests.helpers.servers.losing_proxy import losing_proxy
from lake_assets_tests.helpers.servers.postgresql import Login
from lake_assets_tests.iceberg.test_database_catalog import catalog_at

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COMMITS = 3
METADATA, TABLE = b".metadata.json", b"silver_shop/items"


def test_maintenance_whose_commits_are_not_answered(
    spark: SparkSession, postgresql: str, tmp_path: Path
) -> None:
    login = Login(postgresql, "password")
    seen: list[bytes] = []
    lost_one = -1

    def loses(data: bytes) -> bool:
        # Only a commit names the new file of metadata and the one before it.
        if lost_one < 0 or data.count(METADATA) < 2 or TABLE not in data:
            return False
        seen.append(data)
        return len(seen) == lost_one + 1

    with losing_proxy(login.port, loses) as port:
        catalog = catalog_at(login.port_address("password", port), tmp_path)
        sections = {
            "catalog": catalog,
            "maintenance": KEEP_NOTHING,
            "automation": {"rewrite_below_mb": 0},
        }
        shop = MaintainedShop(Bench(tmp_path, {"public.items": KEYED}, sections=sections))
        shop.load()
        shop.bench.apply()
        for number in range(COMMITS):
            for _ in range(3):
                shop.change()
                shop.bench.apply()
            seen.clear()
            lost_one = number
            list(maintain(shop.bench.lake))
            lost_one = -1
            assert len(seen) > number, "that commit was made"
            shop.check()
            shop.maintain()
            shop.check()
