"""A process that uses a Spark Connect server, sees a statement fail, and ends.

Here: `python -m lake_assets_tests.helpers.processes.ending_process <lake.yaml>`. A separate process, because the test
is about PySpark's last call, at its end.
"""

import logging.config
import sys
from pathlib import Path

import pyspark.sql.connect.session  # noqa: F401  (its logger is there when logging is set up, as in a run of Dagster)
from pyspark.errors import AnalysisException

from lake_assets.config.config_file import load_lake
from lake_assets.spark.session import SparkSessions


def main(path: Path) -> None:
    """Ends with an error of Python's unless it went as described."""
    # As Dagster sets it up.
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})
    sessions = SparkSessions(load_lake(path))
    with sessions.isolated() as session:
        assert session.range(3).localCheckpoint().count() == 3
    try:
        sessions.root().sql("SELECT no_such_column").collect()
    except AnalysisException:
        print("failed as it should")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
