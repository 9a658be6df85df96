"""No key on a command line of the machine. Not here: what is hidden in messages (`config/test_secrets.py`)."""

import json
from pathlib import Path

import pytest

from lake_assets.spark.properties import properties_file
from lake_assets_tests.helpers.processes.child import environment, output_of, run_python
from lake_assets_tests.helpers.processes.embedded_secrets import KEYS, SECRET


@pytest.mark.spark
def test_a_spark_in_the_process_has_no_key_on_its_command_line(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    own = environment(TMPDIR=str(tmp_path / "tmp"))
    program = "lake_assets_tests.helpers.processes.embedded_secrets"
    done = run_python("-m", program, tmp_path, env=own, timeout=400)
    found = json.loads(output_of(done).splitlines()[-1])
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
