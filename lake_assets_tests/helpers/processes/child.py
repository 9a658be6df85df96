"""Runs Python in a separate process, with the environment of a user who has set none of the lake's variables.

Here: its environment and its end. Not here: the programs, which are the other modules of this folder.
"""

import os
import subprocess
import sys
from pathlib import Path

from lake_assets.spark.settings import CHEAP_PROCESSES, FIRST_COMPILER, class_archive_options

ROOT = Path(__file__).resolve().parents[3]
"""The checkout."""
PATIENCE = 300
"""Seconds for a process that starts a Spark of its own."""
_OURS = ("DAGSTER_", "LAKE_", "PYSPARK_", "SPARK_")
_OF_CHECKOUT = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHONPATH")
"""What `make test` hands down; a make of its own starts afresh, with its own checkout."""


def java_options() -> str:
    """For the variable SPARK_SUBMIT_OPTS, which every Spark that this machine starts reads. Most Sparks of the tests
    end before code of the second compiler has repaid its time. Without that compiler Java reserves 48 MB for compiled
    code, which are full after a minute of tests; then it compiles nothing more. By default, Java also looks through its
    whole heap when the classes that it has loaded reach 21 MB, and some times more."""
    compiler = f"{FIRST_COMPILER} -XX:ReservedCodeCacheSize=480m"
    return f"{CHEAP_PROCESSES} {compiler} -XX:MetaspaceSize=400m {class_archive_options()}"


def plain_environment() -> dict[str, str]:
    """This process's environment without settings of Spark, Dagster or a lake, which a process that uses Spark Connect
    hands down, and without those of make and of this checkout."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_OURS) and name not in _OF_CHECKOUT
    }


def environment(**variables: str) -> dict[str, str]:
    """The plain environment with the checkout on the path, a Java that starts fast, and these variables."""
    return plain_environment() | {"PYTHONPATH": str(ROOT), "SPARK_SUBMIT_OPTS": java_options()} | variables


def run_python(
    *arguments: str | Path, timeout: float, cwd: Path = ROOT, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs this Python with the arguments and waits for its end, at most `timeout` seconds."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment() if env is None else env,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def output_of(done: subprocess.CompletedProcess[str]) -> str:
    """The output of a process, which must have succeeded."""
    print(done.stdout[-5000:])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
