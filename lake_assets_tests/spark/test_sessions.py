"""Which sessions are used again."""

import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets.config import LakeConfig, S3Config
from lake_assets.spark.preflight import PreflightError
from lake_assets.spark.session import SparkSessions
from lake_assets.storage.aws_client import Aws
from lake_assets_tests.helpers.lakes.command_lake import command_lake
from lake_assets_tests.helpers.lakes.small_lakes import SPARK, TINY, lake_config
from lake_assets_tests.helpers.processes.child import PATIENCE, output_of, run_python
from lake_assets_tests.helpers.servers.secrets import Secret, secrets_config


@pytest.mark.usefixtures("spark")
def test_a_session_is_lent_to_one_at_a_time_and_not_after_a_failure(tmp_path: Path) -> None:
    sessions = SparkSessions(lake_config(tmp_path))
    with sessions.isolated() as first, sessions.isolated() as second:
        assert first is not second
        assert first is not sessions.root()
    lent = [_failing(sessions), _failing(sessions)]
    assert {id(session) for session in lent} == {id(first), id(second)}
    with sessions.isolated() as third:
        assert third not in lent


def test_a_session_of_others_keeps_its_settings(spark: SparkSession, tmp_path: Path) -> None:
    """A notebook may have a Spark of its own when it opens a lake."""
    lake = lake_config(
        tmp_path,
        spark={"conf": TINY | {"spark.sql.maxPlanStringLength": 100, "spark.sql.shuffle.partitions": 7}},
    )
    catalog = f"spark.sql.catalog.{lake.catalog.name}.uri"
    names = ("spark.sql.maxPlanStringLength", "spark.sql.shuffle.partitions", catalog)
    before = {name: spark.conf.get(name, None) for name in names}
    root = SparkSessions(lake).root()
    assert [root.conf.get(name) for name in names[:2]] == ["100", "7"]
    assert root.conf.get(catalog)
    assert {name: spark.conf.get(name, None) for name in names} == before


@pytest.mark.usefixtures("spark")
def test_a_start_in_the_background_is_waited_for_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions, starts = SparkSessions(lake_config(tmp_path)), []
    name = "_connected" if SPARK else "_embedded"
    start = getattr(sessions, name)

    def fails_once(lake: LakeConfig, more: Mapping[str, str]) -> SparkSession:
        starts.append(threading.current_thread().name)
        if len(starts) == 1:
            raise PreflightError("no Java")
        session: SparkSession = start(lake, more)
        return session

    monkeypatch.setattr(sessions, name, fails_once)
    for _ in range(2):
        sessions.begin()
        _wait_for_the_start()
    assert sessions.root() is sessions.root()
    assert starts == ["spark-start", "spark-start"]


def test_pyspark_is_imported_before_the_thread_that_starts_spark(tmp_path: Path) -> None:
    """Its modules import each other: another thread that imports them at the same time finds them half imported."""
    command_lake(tmp_path)
    (tmp_path / "start.py").write_text(
        "import sys, threading\n"
        "from pathlib import Path\n"
        "from lake_assets.config.config_file import load_lake\n"
        "from lake_assets.spark.session import SparkSessions\n"
        "sessions = SparkSessions(load_lake(Path(sys.argv[1])))\n"
        "print('pyspark.sql' in sys.modules)\n"
        "threading.Thread.start = lambda thread: print('pyspark.sql' in sys.modules)\n"
        "sessions.begin()\n"
    )
    done = run_python(tmp_path / "start.py", tmp_path / "lake.yaml", timeout=PATIENCE)
    assert output_of(done).split() == ["False", "True"]


def _wait_for_the_start() -> None:
    for thread in threading.enumerate():
        if thread.name == "spark-start":
            thread.join()


def _failing(sessions: SparkSessions) -> SparkSession:
    """The session of a failed unit of work."""
    with contextlib.suppress(ZeroDivisionError), sessions.isolated() as session:
        raise ZeroDivisionError
    return session


@pytest.mark.skipif(bool(SPARK), reason="on Spark Connect, the catalog's settings are those of the server")
@pytest.mark.usefixtures("spark")
def test_a_secret_that_is_rotated_is_in_the_sessions_of_then(
    tmp_path: Path, s3: S3Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.storage.secret_values.KEPT", 0.0)
    secret = Secret(s3, {"token": "first-token"})
    lake = lake_config(
        tmp_path,
        secrets=secrets_config(s3),
        spark={"conf": {"spark.sql.catalog.lake.lake-token": f"${{secret:{secret.name}:token}}"}},
    )
    sessions = SparkSessions(lake, aws=Aws(lake.secrets))
    root = sessions.root()
    with sessions.isolated() as first:
        assert token(first) == token(root) == "first-token"
        secret.rotate({"token": "second-token"})
        with sessions.isolated() as second:
            assert token(second) == "second-token"
        assert token(first) == "first-token", "work that is under way goes on"
    with sessions.isolated() as third:
        assert third is second
    with sessions.isolated() as third, sessions.isolated() as fourth:
        assert first not in (third, fourth)
    assert token(sessions.root()) == "second-token"
    assert "second-token" not in repr(lake)


def token(session: SparkSession) -> str | None:
    return session.conf.get("spark.sql.catalog.lake.lake-token")
