"""An embedded Spark and its machine: the locale of file names, addresses to listen at, no key on a command line.

Here: one process for all of it, because a process starts one Spark. Not here: a Spark Connect server
(`test_connect.py`), Java and free ports (`test_preflight.py`), what is hidden in messages (`config/test_secrets.py`).
"""

import json
from pathlib import Path
from typing import Any

import pytest

from lake_assets.spark.properties import properties_file
from lake_assets_tests.helpers.processes.child import PATIENCE, environment, output_of, run_python
from lake_assets_tests.helpers.processes.embedded_spark import KEYS, SECRET


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process tells that is started as cron, systemd and containers start one: their locale is that of C."""
    folder = tmp_path_factory.mktemp("machine") / "Räder 日本"
    (folder / "tmp").mkdir(parents=True)
    own = environment(LC_ALL="C", TMPDIR=str(folder / "tmp"))
    program = "lake_assets_tests.helpers.processes.embedded_spark"
    found: dict[str, Any] = json.loads(
        output_of(run_python("-m", program, folder, env=own, timeout=PATIENCE)).splitlines()[-1]
    )
    return found


@pytest.mark.spark
def test_neither_locale_nor_network_of_the_machine_matters(told: dict[str, Any]) -> None:
    assert told["names"] == ["größer", "kleiner"]
    assert told["listens_at"] == ["127.0.0.1"]
    assert told["locale"] == "C"


@pytest.mark.spark
def test_a_spark_in_the_process_has_no_key_on_its_command_line(told: dict[str, Any]) -> None:
    commands = "\n".join(told["commands"])
    assert "org.apache.spark.deploy.SparkSubmit" in commands
    assert "not for everybody" not in commands
    assert "spark.sql.catalog" not in commands
    assert told["modes"] == ["0o100600"]
    assert told["left"] == []
    # It is started with all of it nevertheless.
    assert told["known"] == dict.fromkeys(KEYS, SECRET) | {
        "spark.lake.own": "kept",
        "spark.lake.given": "by hand",
    }
    assert told["environment"].startswith("--conf")


def test_a_file_of_settings_goes_with_its_block() -> None:
    with properties_file({"a:b": "x\ny\\z", "c": "d e"}) as name:
        assert Path(name).read_text() == "a\\:b=x\\ny\\\\z\nc=d e\n"
        assert Path(name).stat().st_mode & 0o077 == 0
    assert not Path(name).exists()
