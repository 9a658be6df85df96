"""What a command imports: its first words appear as fast as its imports allow, and times differ between machines."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lake_assets_tests.helpers.lakes.command_lake import call, command_lake
from lake_assets_tests.helpers.processes.child import environment

CONFIG = {"pydantic", "yaml"}
"""What reads lake.yaml."""
DATA = {"dagster", "numpy", "pandas", "psutil", "pyarrow", "pyiceberg", "pyspark", "sqlalchemy"}
IDLE = (
    "boto3",
    "dagster",
    "jinja2",
    "pandas",
    "polars",
    "pyarrow.dataset",
    "pyspark",
    "sqlalchemy.dialects.mysql",
    "sqlalchemy.dialects.postgresql",
)


def imported(folder: Path, *arguments: str) -> list[str]:
    """The modules that `lake-assets` has imported when it ends."""
    script = (
        "import sys, json\nfrom lake_assets.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('\\n' + json.dumps(sorted(sys.modules)))"
    )
    command = [sys.executable, "-c", script, "--config", str(folder / "lake.yaml"), *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, list)
    return found


def test_help_imports_no_library_of_data(tmp_path: Path) -> None:
    assert not {*imported(tmp_path, "--help")} & (DATA | CONFIG)
    assert not {*imported(tmp_path, "quarantine", "list", "--help")} & DATA


@pytest.mark.parametrize("command", ["sync", "status"])
def test_a_command_without_work_imports_neither_spark_nor_dagster(tmp_path: Path, command: str) -> None:
    folder = command_lake(tmp_path)
    assert call(folder, "sync") == 0
    found = imported(folder, command)
    assert "pyiceberg" in found
    assert not {module for module in IDLE if module in found}
