"""The main job on each catalog and each kind of Spark: two at once, one of which is killed, and one that follows.

Files and tables are in moto's S3 with its Glue, in SeaweedFS with its REST catalog, or in folders with a catalog in
PostgreSQL. Spark is in the command's process, a Spark Connect server on a cluster of two workers, or what
`spark-submit` starts on that cluster. Not here: what the rows amount to in every case (`silver/`), kills at each step
(`silver/apply/`).
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from lake_assets.config import LakeConfig
from lake_assets.config.config_file import load_lake
from lake_assets.demo.history import generate_history
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.spark.connect.connect_server import ConnectServer
from lake_assets.spark.jars import S3_EXCLUDES, every_jar
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.oracles.demo_history import unequal_tables
from lake_assets_tests.helpers.processes.child import PATIENCE, ROOT, environment
from lake_assets_tests.helpers.servers.glue import demonstration_in_glue, glue_server
from lake_assets_tests.helpers.servers.postgresql import Login, postgresql_server
from lake_assets_tests.helpers.servers.s3 import client, credentials
from lake_assets_tests.helpers.servers.seaweedfs import demonstration_in_seaweedfs, seaweedfs
from lake_assets_tests.helpers.servers.spark_cluster import SPARK_HOME, spark_cluster

pytestmark = pytest.mark.long

END = datetime(2026, 11, 8, tzinfo=UTC)
PUBLISHED = 2
"""One of the two is killed as soon as so many tables of silver have rows."""
Command = list[str | Path]
Text = dict[str, Any]


@contextmanager
def in_glue(folder: Path) -> Iterator[tuple[Text, dict[str, str]]]:
    """lake.yaml, and the environment of who uses it."""
    with glue_server() as endpoint:
        # All of moto's servers in a process have the same buckets.
        bucket = f"shop-{uuid4().hex[:8]}"
        client("s3", endpoint).create_bucket(Bucket=bucket)
        yield demonstration_in_glue(endpoint, bucket), credentials(endpoint)


@contextmanager
def in_rest(folder: Path) -> Iterator[tuple[Text, dict[str, str]]]:
    (folder / "weed").mkdir()
    with seaweedfs(folder / "weed") as server:
        yield demonstration_in_seaweedfs(server), credentials(server.s3)


@contextmanager
def in_postgresql(folder: Path) -> Iterator[tuple[Text, dict[str, str]]]:
    with postgresql_server() as address:
        text: Text = yaml.safe_load((ROOT / "lake.yaml").read_text(encoding="utf-8"))
        uri = f"jdbc:{Login(address, 'p@ss').port_address('p%40ss')}"
        text["catalog"] = {"name": "lake", "type": "jdbc", "uri": uri, "warehouse": str(folder / "warehouse")}
        text["sources"]["bikeshare"]["location"] = str(folder / "bronze")
        yield text, {}


@contextmanager
def embedded(folder: Path, text: Text) -> Iterator[Command]:
    """The command, after its Spark has been set in lake.yaml."""
    text["spark"] = {"conf": {"spark.driver.memory": "1g"}}
    yield [sys.executable, "-m", "lake_assets.cli"]


@contextmanager
def on_cluster(folder: Path, text: Text) -> Iterator[Command]:
    with spark_cluster(folder) as cluster:
        text["spark"] = {
            "mode": "connect",
            "remote": f"sc://localhost:{free_port()}",
            "master": cluster.master,
            "conf": {"spark.executor.memory": "800m", "spark.executor.cores": 1},
        }
        server = ConnectServer(load_lake(write(folder, text)), folder)
        server.start()
        try:
            yield [sys.executable, "-m", "lake_assets.cli"]
        finally:
            server.stop()


@contextmanager
def submitted(folder: Path, text: Text) -> Iterator[Command]:
    (folder / "main.py").write_text("from lake_assets.cli import main\n\nmain()\n")
    text["spark"] = {"mode": "embedded"}
    # Two at once have an executor each.
    conf = {"spark.cores.max": 1, "spark.executor.memory": "800m", "spark.driver.memory": "1g"}
    with spark_cluster(folder) as cluster:
        given = [f"--master={cluster.master}", *(f"--conf={name}={value}" for name, value in conf.items())]
        given += [f"--packages={every_jar()}", f"--exclude-packages={S3_EXCLUDES}"]
        yield [SPARK_HOME / "bin" / "spark-submit", *given, folder / "main.py"]


def write(folder: Path, text: Text) -> Path:
    path = folder / "lake.yaml"
    path.write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")
    return path


CATALOGS: dict[str, Callable[[Path], Any]] = {"Glue": in_glue, "REST": in_rest, "PostgreSQL": in_postgresql}
SPARKS: dict[str, Callable[[Path, Text], Any]] = {
    "embedded": embedded,
    "on two workers": on_cluster,
    "submitted": submitted,
}


@pytest.mark.parametrize("spark", SPARKS)
@pytest.mark.parametrize("catalog", CATALOGS)
def test_silver_equals_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalog: str, spark: str
) -> None:
    with ExitStack() as stack:
        text, variables = stack.enter_context(CATALOGS[catalog](tmp_path))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        command = stack.enter_context(SPARKS[spark](tmp_path, text))
        path, database = write(tmp_path, text), tmp_path / "source.db"
        config = load_lake(path)
        location = f"{config.sources['bikeshare'].location}/"
        generate_history(location, database, seed=15, changes=1_500, days=2, past_trips=300, end=END)
        env = environment(**variables, PYSPARK_PYTHON=sys.executable)
        sync = [*command, "--config", path, "sync", "--no-gold"]

        begun = [Running(sync, env, tmp_path / f"{number}.log") for number in range(2)]
        wait_for_tables(config, begun)
        begun[0].kill()
        code, said = begun[1].end()
        # It may have lost a race to the one that died, and says so.
        assert code in (0, 1), said
        assert "Traceback" not in said, said
        code, said = Running(sync, env, tmp_path / "last.log").end()
        assert code == 0, said
        assert unequal_tables(config, database) == []
        code, said = Running(sync, env, tmp_path / "again.log").end()
        assert (code, "Nothing was pending" in said) == (0, True), said


class Running:
    """A command with its children, and what it says."""

    def __init__(self, command: Command, env: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command, env=env, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    def kill(self) -> None:
        """With its children: its JVM is one of them."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def end(self) -> tuple[int, str]:
        """The exit code and the last of what was said."""
        code = self.process.wait(PATIENCE)
        return code, self._log.read_text(encoding="utf-8", errors="replace")[-9000:]


def wait_for_tables(config: LakeConfig, begun: list[Running]) -> None:
    """Until some tables have rows, and others, probably, have none."""
    end, tables = time.monotonic() + PATIENCE, open_catalog(config.catalog)
    while time.monotonic() < end:
        assert any(one.process.poll() is None for one in begun), "both have ended"
        if tables.namespace_exists("silver_bikeshare"):
            found = [tables.load_table(name) for name in tables.list_tables("silver_bikeshare")]
            if sum(table.current_snapshot() is not None for table in found) >= PUBLISHED:
                return
        time.sleep(0.1)
    raise TimeoutError("no table has rows")
