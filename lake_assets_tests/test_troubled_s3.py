"""The main job with files and tables in SeaweedFS, whose S3 is slow, busy or killed, and with its REST catalog.

Not here: what S3 refuses for good (`storage/test_refusals.py`), deaths of the lake's own processes (`silver/apply/`).
"""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from lake_assets.config.config_file import load_lake
from lake_assets.demo.history import generate_history
from lake_assets_tests.helpers.oracles.demo_history import unequal_tables
from lake_assets_tests.helpers.processes.child import PATIENCE, environment, run_python
from lake_assets_tests.helpers.servers.s3 import ACCESS
from lake_assets_tests.helpers.servers.seaweedfs import (
    BUCKET,
    SeaweedFS,
    demonstration_in_seaweedfs,
    seaweedfs,
)
from lake_assets_tests.helpers.servers.troubled_proxy import troubled_proxy

pytestmark = pytest.mark.long

END = datetime(2026, 11, 8, tzinfo=UTC)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SeaweedFS]:
    (tmp_path / "weed").mkdir()
    with seaweedfs(tmp_path / "weed") as found:
        yield found


class Job:
    """The demonstration in SeaweedFS, whose S3 is at an address."""

    def __init__(self, folder: Path, server: SeaweedFS, s3: str) -> None:
        text = demonstration_in_seaweedfs(server, s3)
        self._path, self._database = folder / "lake.yaml", folder / "source.db"
        self._path.write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")
        self._config = load_lake(self._path)

    def generate(self) -> None:
        location = f"s3://{BUCKET}/bronze/"
        generate_history(location, self._database, seed=13, days=2, end=END, changes=1_500, past_trips=300)

    def sync(self) -> tuple[int, str]:
        """The exit code and what was said."""
        sync = ("-m", "lake_assets.cli", "--config", self._path, "sync")
        done = run_python(*sync, timeout=PATIENCE, env=environment())
        return done.returncode, done.stdout + done.stderr

    def differences(self) -> list[str]:
        """Tables that do not equal the source."""
        return unequal_tables(self._config, self._database)


@pytest.fixture(autouse=True)
def access(server: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the simulator, which writes as DMS does."""
    for key in ("access_key_id", "secret_access_key", "region"):
        monkeypatch.setenv(f"AWS_{key.upper()}", ACCESS[key])
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.s3)


def test_a_slow_and_busy_s3(tmp_path: Path, server: SeaweedFS) -> None:
    """Each request takes 20 ms longer, and one of twenty is answered with 503."""
    with troubled_proxy(server.s3, seconds=0.02, refused=0.05) as (address, counted):
        job = Job(tmp_path, server, address)
        job.generate()
        code, said = job.sync()
        assert code == 0, said[-9000:]
        assert counted["refused"] > 20
    assert Job(tmp_path, server, server.s3).differences() == []


def test_s3_and_the_catalog_are_killed(tmp_path: Path, server: SeaweedFS) -> None:
    """Twice, in the middle of the work. What a command then says is one sentence for each table; the next goes on."""
    job = Job(tmp_path, server, server.s3)
    job.generate()
    for seconds in (14, 22):
        found: list[tuple[int, str]] = []
        running = threading.Thread(target=lambda found=found: found.append(job.sync()))
        running.start()
        time.sleep(seconds)
        server.kill()
        time.sleep(2)
        server.start()
        running.join()
        ((code, said),) = found
        print(seconds, code, said[-1500:])
        assert "Traceback" not in said, said[-4000:]
    code, said = job.sync()
    assert code == 0, said[-9000:]
    assert job.differences() == []
