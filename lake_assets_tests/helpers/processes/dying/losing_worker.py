"""`lake-assets sync` on a Spark Connect server, with a worker of its cluster that dies when Spark holds a checkpoint:
`python -m lake_assets_tests.helpers.processes.dying.losing_worker <process id> <the command's arguments>`.

No batch is held, however small.
"""

import sys
from typing import Any

import psutil
from pyspark.sql.connect.dataframe import DataFrame

from lake_assets.bronze.decode import files as decoding
from lake_assets.cli import main

AFTER = 3
"""Checkpoints until then."""


def kill_at_checkpoint(worker: int) -> None:
    """Kills the worker and its executors right after a checkpoint."""
    real, calls = DataFrame.localCheckpoint, list[None]()

    def then_kill(self: DataFrame, *given: Any, **named: Any) -> Any:
        done = real(self, *given, **named)
        calls.append(None)
        if len(calls) == AFTER:
            process = psutil.Process(worker)
            for each in (*process.children(recursive=True), process):
                each.kill()
            print("the worker is dead", flush=True)
        return done

    DataFrame.localCheckpoint = then_kill  # type: ignore[method-assign]


if __name__ == "__main__":
    decoding.MOST_BYTES = -1
    kill_at_checkpoint(int(sys.argv[1]))
    del sys.argv[1]
    main()
