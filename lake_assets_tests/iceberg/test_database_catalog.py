"""A catalog of type `jdbc` on PostgreSQL: Spark and PyIceberg see one another's tables and commits.

Here: a new catalog, batches, a mart's kind of read, and a password that is rotated between two batches. Not here:
PyIceberg alone (`test_catalog_secrets.py`), messages of a database that does not answer (`test_catalog_faults.py`).
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from uuid import uuid4

import pytest
from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from lake_assets.config import CatalogConfig, S3Config
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.silver.apply import apply_batch
from lake_assets_tests.helpers.files.dms_files import Clock
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, changed, loaded, values
from lake_assets_tests.helpers.lakes.small_lakes import SPARK
from lake_assets_tests.helpers.servers.postgresql import Login, psycopg_engine
from lake_assets_tests.helpers.servers.secrets import Secret, secrets_config

AT_ONCE = 4
PASSWORD = "first p@ss:w/rd"


def catalog_at(address: str, folder: Path) -> dict[str, str]:
    """The section of lake.yaml. Spark keeps a catalog by its name, so each has a name of its own."""
    return {
        "name": f"lake_{uuid4().hex[:8]}",
        "type": "jdbc",
        "uri": f"jdbc:{address}",
        "warehouse": str(folder / "warehouse"),
    }


@pytest.mark.spark
def test_a_password_that_is_rotated_between_two_batches(
    spark: SparkSession, postgresql: str, s3: S3Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.storage.secret_values.KEPT", 1.0)
    login, secret = Login(postgresql, PASSWORD), Secret(s3, {"password": PASSWORD})
    catalog = catalog_at(login.port_address(f"${{secret:{secret.name}:password}}"), tmp_path)
    sections = {"catalog": catalog, "secrets": secrets_config(s3)}
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


def test_several_processes_open_a_new_catalog_at_once(postgresql: str, tmp_path: Path) -> None:
    """Each finds that its tables are missing, and one of them creates them. Several times, because chance decides."""
    server = psycopg_engine(postgresql, isolation_level="AUTOCOMMIT")
    login = Login(postgresql, "password")
    for _ in range(5):
        database = f"db_{uuid4().hex[:8]}"
        with server.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {database}")
        address = login.port_address("password").removesuffix("postgres") + database
        config = CatalogConfig.model_validate(catalog_at(address, tmp_path))
        together = Barrier(AT_ONCE)

        def opened(_: int, config: CatalogConfig = config, together: Barrier = together) -> Catalog:
            together.wait()
            return open_catalog(config)

        with ThreadPoolExecutor(AT_ONCE) as threads:
            catalogs = list(threads.map(opened, range(AT_ONCE)))
        assert [catalog.list_namespaces() for catalog in catalogs] == [[]] * AT_ONCE


@pytest.mark.spark
def test_a_table_that_is_stopped_takes_no_connections(
    spark: SparkSession, postgresql: str, tmp_path: Path
) -> None:
    login = Login(postgresql, "password")
    catalog = catalog_at(login.port_address("password"), tmp_path)
    strict = ITEMS | {"quarantine": {"max_rows": 0}}
    bench, clock = Bench(tmp_path, {"public.items": strict}, sections={"catalog": catalog}), Clock()
    bench.put(loaded({1: "a"}))
    bench.apply()
    bench.put(changed(clock, ("X", 1, "b")))
    seen = connections_after_failures(bench, login)
    assert seen[-1] == seen[0], seen


@pytest.mark.spark
def test_batches_that_fail_take_no_connections(
    spark: SparkSession, postgresql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an embedded Spark. A server closes those of a session that failed later, when Java collects it."""
    if SPARK:
        pytest.skip("only the catalog of a Spark in this process can be closed from here")
    login = Login(postgresql, "password")
    catalog = catalog_at(login.port_address("password"), tmp_path)
    bench, clock = Bench(tmp_path, {"public.items": ITEMS}, sections={"catalog": catalog}), Clock()
    bench.put(loaded({1: "a"}))
    bench.apply()
    bench.put(changed(clock, ("U", 1, "b")))

    def fails(*anything: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(apply_batch, "write_final_commit", fails)
        seen = connections_after_failures(bench, login)
    assert seen[-1] == seen[0], seen
    bench.apply()
    assert values(bench) == {1: "b"}


def connections_after_failures(bench: Bench, login: Login) -> list[int]:
    """The login's connections after each of several turns that fail."""
    seen = []
    for _ in range(8):
        assert bench.turn()["items"].error is not None
        seen.append(login.connections())
    return seen
