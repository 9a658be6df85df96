"""`lake-assets sync` in a separate process, which may be killed at a named point.

Here: `python -m lake_assets_tests.helpers.processes.sync_process <lake.yaml> [point of faults.py]`, and the same in
a child of a process that has imported everything already. Not here: where it may be killed (`faults.py`).
"""

import os
import sys
from contextlib import nullcontext
from multiprocessing import get_context
from pathlib import Path

from lake_assets import cli
from lake_assets_tests.helpers.processes.faults import POINTS, armed

FORKS = get_context("forkserver")
FORKS.set_forkserver_preload([__name__, "lake_assets.orchestration.sync", "pyspark.sql.connect.session"])


def run(lake_yaml: str, point: str | None = None) -> None:
    """The command, by its own entry point; ends the process."""
    os.environ.pop("DAGSTER_HOME", None)
    sys.argv = ["lake-assets", "--config", lake_yaml, "sync"]
    with armed(POINTS[point]) if point else nullcontext():
        cli.main()


def forked(lake_yaml: Path, point: str | None, patience: float) -> tuple[int | None, str]:
    """Exit code and output of a child that runs it, and has nothing to import. The lake's Spark is a server."""
    output = lake_yaml.with_name("sync.log")
    child = FORKS.Process(target=_logged, args=(str(lake_yaml), point, str(output)))
    child.start()
    child.join(patience)
    if child.exitcode is None:
        child.kill()
        child.join()
    return child.exitcode, output.read_text(encoding="utf-8") if output.exists() else ""


def _logged(lake_yaml: str, point: str | None, output: str) -> None:
    log = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    run(lake_yaml, point)


if __name__ == "__main__":
    run(*sys.argv[1:])
