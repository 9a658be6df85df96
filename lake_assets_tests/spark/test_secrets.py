"""No key on a command line of the machine. Not here: what is hidden in messages (`config/test_secrets.py`)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lake_assets.spark.properties import properties_file
from lake_assets_tests.commands.test_cli import ROOT
from lake_assets_tests.spark.embedded_secrets import KEYS, SECRET


@pytest.mark.spark
def test_a_spark_in_the_process_has_no_key_on_its_command_line(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "lake_assets_tests.spark.embedded_secrets", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    commands = "\n".join(found["commands"])
    assert "org.apache.spark.deploy.SparkSubmit" in commands
    assert "not for everybody" not in commands
    assert "spark.sql.catalog" not in commands
    assert found["modes"] == ["0o100600"]
    assert found["left"] == []
    # It is started with all of it nevertheless.
    assert found["known"] == dict.fromkeys(KEYS, SECRET) | {
        "spark.lake.own": "kept",
        "spark.lake.given": "by hand",
    }
    assert found["environment"].startswith("--conf")


def test_a_file_of_settings_goes_with_its_block() -> None:
    with properties_file({"a:b": "x\ny\\z", "c": "d e"}) as name:
        assert Path(name).read_text() == "a\\:b=x\\ny\\\\z\nc=d e\n"
        assert Path(name).stat().st_mode & 0o077 == 0
    assert not Path(name).exists()
