"""A code location for tests of launching: a job that reports its process, and waits to be interrupted."""

import os
import sys
import time
from pathlib import Path

import dagster as dg

PATIENCE = 60.0


@dg.op
def told_and_waited(context: dg.OpExecutionContext) -> None:
    Path(f"{context.run_id}.told").write_text(f"{os.getppid()} {' '.join(sys.argv[1:3])}")
    context.log.info("an info")
    context.log.warning("a warning")
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and not Path("go").exists():
        time.sleep(0.05)


@dg.job(executor_def=dg.in_process_executor)
def sleeping() -> None:
    told_and_waited()


defs = dg.Definitions(jobs=[sleeping])
