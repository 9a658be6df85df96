"""A database that makes a commit of maintenance, and whose answer is lost.

Here: each of the commits to a silver table. Not here: processes that are killed
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

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("keep_little")]
COMMITS = ("data files", "manifests", "branch", "position", "publish", "no branch", "expiry")
"""What each commit of the maintenance changes, in order."""
METADATA, TABLE = b".metadata.json", b"silver_shop/items"


@pytest.mark.parametrize(
    "commit",
    [
        # Without the maintenance's own remedy, this one makes the table unreadable.
        "manifests",
        *(pytest.param(name, marks=pytest.mark.long) for name in COMMITS if name != "manifests"),
    ],
)
def test_maintenance_whose_commit_is_not_answered(
    spark: SparkSession, postgresql: str, tmp_path: Path, commit: str
) -> None:
    login = Login(postgresql, "password")
    seen: list[bytes] = []
    is_maintained = False

    def loses(data: bytes) -> bool:
        # Only a commit names the new file of metadata and the one before it.
        if not is_maintained or data.count(METADATA) < 2 or TABLE not in data:
            return False
        seen.append(data)
        return len(seen) == 1 + COMMITS.index(commit)

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
        for _ in range(3):
            shop.change()
            shop.bench.apply()
        is_maintained = True
        list(maintain(shop.bench.lake))
        is_maintained = False
        assert len(seen) > COMMITS.index(commit), "that commit was made"
        shop.check()
        shop.maintain()
        shop.check()
