"""A catalog of type `jdbc` on PostgreSQL: Spark and PyIceberg see one another's tables and commits.

Here: batches, a mart's kind of read, and a password that is rotated between two batches. Not here: PyIceberg alone
(`test_catalog_secrets.py`), messages of a database that does not answer (`test_catalog_faults.py`).
"""

from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lake_assets.config import S3Config
from lake_assets_tests.helpers.files.dms_files import Clock
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, changed, loaded, values
from lake_assets_tests.helpers.servers.postgresql import Login
from lake_assets_tests.helpers.servers.secrets import Secret, secrets_config

PASSWORD = "first p@ss:w/rd"


@pytest.mark.spark
def test_a_password_that_is_rotated_between_two_batches(
    spark: SparkSession, postgresql: str, s3: S3Config, tmp_path: Path
) -> None:
    login, secret = Login(postgresql, PASSWORD), Secret(s3, {"password": PASSWORD})
    catalog = {
        "name": f"lake_{uuid4().hex[:8]}",
        "type": "jdbc",
        "uri": f"jdbc:{login.port_address(f'${{secret:{secret.name}:password}}')}",
        "warehouse": str(tmp_path / "warehouse"),
    }
    sections = {"catalog": catalog, "secrets": secrets_config(s3, ttl="1s")}
    bench, clock = Bench(tmp_path, {"public.items": ITEMS}, sections=sections), Clock()
    bench.put(loaded({1: "a", 2: "b", 3: "c"}))
    bench.apply()
    bench.put(changed(clock, ("U", 1, "changed"), ("D", 2, "b"), ("I", 4, "new")))
    bench.apply()
    assert values(bench) == {1: "changed", 3: "c", 4: "new"}
    rotated = "second"
    login.rotate(rotated)
    secret.rotate({"password": rotated})
    bench.put(changed(clock, ("U", 3, "later")))
    bench.apply()
    assert values(bench) == {1: "changed", 3: "later", 4: "new"}
    name = bench.lake.config.catalog.name
    seen = bench.lake.runtime.sessions.root().sql(f"SELECT id, v FROM {name}.silver_shop.items")
    assert {row.id: row.v for row in seen.collect()} == values(bench)
