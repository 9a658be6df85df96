"""A process that has used a Spark Connect server, and ends while it still has frames.

Here: `python -m lake_assets_tests.helpers.processes.quiet_exit <lake.yaml> [stop]`; with `stop`, the server is stopped
before.
"""

import builtins
import logging.config
import sys
from pathlib import Path

from lake_assets.config.config_file import load_lake
from lake_assets.spark.checkpoint import checkpointed
from lake_assets.spark.connect.connect_server import ConnectServer
from lake_assets.spark.session import SparkSessions

path = Path(sys.argv[1])
lake = load_lake(path)
frame = checkpointed(SparkSessions(lake).root().range(5))
# As Dagster does in the processes that it starts: a logger that PySpark had switched off is on again.
logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})
logging.basicConfig(level=logging.WARNING)
print(frame.count())
builtins.kept = frame  # type: ignore[attr-defined]
if "stop" in sys.argv:
    ConnectServer(lake, path.parent).stop()
