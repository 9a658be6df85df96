"""The continuous run, whose Spark is killed.

Here: `python -m lake_assets_tests.helpers.processes.dying.dying_spark <folder>`.

Exits with 1 unless a round soon raises SparkLost, and the failure is reported. A separate process, because a process
that has lost its Spark cannot start another one.
"""

import sys
from pathlib import Path

import dagster as dg
import psutil

from lake_assets.errors import SparkLost
from lake_assets_tests.helpers.orchestration.kept_lake import ITEMS, Kept


def main(folder: Path) -> int:
    """The exit code."""
    kept = Kept(folder)
    kept.put(ITEMS, 1)
    assert kept.rounds.round().batches == 1
    for process in psutil.Process().children(recursive=True):
        if process.name() == "java":
            process.kill()
    kept.put(ITEMS, 2)
    for _ in range(3):
        try:
            kept.rounds.round()
        except SparkLost as error:
            print(f"SparkLost: {error}")
            checks = [event for event in kept.rounds.events() if isinstance(event, dg.AssetCheckEvaluation)]
            return 0 if [c.passed for c in checks if c.check_name == "applied"] == [False] else 1
        kept.now += 3600
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
