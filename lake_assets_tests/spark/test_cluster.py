"""The main job on a Spark Connect server whose master has two workers, each a process of its own."""

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets.config.config_file import load_lake
from lake_assets.demo.history import generate_history
from lake_assets.spark.connect.connect_server import ConnectServer
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.oracles.demo_history import unequal_tables
from lake_assets_tests.helpers.processes.child import PATIENCE, ROOT, environment, output_of, run_python
from lake_assets_tests.helpers.servers.spark_cluster import Cluster, event_log, executors_used, spark_cluster

pytestmark = pytest.mark.long

END = datetime(2026, 11, 8, tzinfo=UTC)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with spark_cluster(tmp_path) as found:
        yield found


@pytest.fixture
def lake(tmp_path: Path, cluster: Cluster) -> Iterator[Path]:
    """The demonstration's lake.yaml, with a history, and a server on the cluster."""
    text: dict[str, Any] = yaml.safe_load((ROOT / "lake.yaml").read_text(encoding="utf-8"))
    text["catalog"] |= {"uri": str(tmp_path / "catalog.db"), "warehouse": str(tmp_path / "warehouse")}
    text["sources"]["bikeshare"]["location"] = str(tmp_path / "bronze")
    text["spark"] = {
        "mode": "connect",
        "remote": f"sc://localhost:{free_port()}",
        "master": cluster.master,
        "conf": {
            "spark.executor.memory": "800m",
            "spark.executor.cores": 1,
            **event_log(tmp_path / "events"),
        },
    }
    path = tmp_path / "lake.yaml"
    path.write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")
    database = tmp_path / "source.db"
    generate_history(tmp_path / "bronze", database, seed=14, changes=2_000, days=2, past_trips=500, end=END)
    server = ConnectServer(load_lake(path), tmp_path)
    server.start()
    try:
        yield path
    finally:
        server.stop()


def sync(lake: Path, program: str = "lake_assets.cli", *given: str) -> subprocess.CompletedProcess[str]:
    """The end of the command, in a process of its own."""
    command: tuple[str | Path, ...] = ("-m", program, *given, "--config", lake, "sync")
    return run_python(*command, timeout=PATIENCE, env=environment())


def test_the_executors_do_the_work(lake: Path, tmp_path: Path) -> None:
    output_of(sync(lake))
    assert unequal_tables(load_lake(lake), lake.parent / "source.db") == []
    assert executors_used(tmp_path / "events") == {"0", "1"}, "none on the driver"


def test_a_worker_dies_when_it_holds_a_checkpoint(lake: Path, cluster: Cluster) -> None:
    """Spark cannot compute it again. The batch is repeated as a whole, by this command or by the next one."""
    losing = sync(lake, "lake_assets_tests.helpers.processes.dying.losing_worker", str(cluster.workers[0]))
    said = losing.stdout + losing.stderr
    print(losing.returncode, said[-3000:])
    assert "the worker is dead" in said
    assert "Traceback" not in said
    output_of(sync(lake))
    assert unequal_tables(load_lake(lake), lake.parent / "source.db") == []
