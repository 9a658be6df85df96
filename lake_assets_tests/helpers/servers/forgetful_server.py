"""A process that applies batches, and rests in between for longer than its Spark Connect server keeps a session.

Here: `python -m lake_assets_tests.helpers.servers.forgetful_server <folder>`; exits with 1 unless each batch succeeds
at once, and silver equals the oracle. A separate process, since a process has an embedded Spark or Spark Connect and
never both.
"""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import functions as F

from lake_assets.spark import session
from lake_assets.spark.connect.connect_server import SESSION_TIMEOUT, ConnectServer
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.small_lakes import SPARK, TINY, lake_config

TABLE = "public.items"
FORGETS = {SESSION_TIMEOUT: "4s", "spark.connect.session.manager.maintenanceInterval": "1s"}
REST_SECONDS = 6.0


def main(folder: Path) -> int:
    """The exit code."""
    clock = Clock()
    session.LONGEST_REST = 2.0
    SPARK.update(mode="connect", remote=f"sc://127.0.0.1:{free_port()}")
    server = ConnectServer(lake_config(folder / "server", spark={"conf": TINY | FORGETS}), folder)
    server.start()
    try:
        bench = Bench(folder, {TABLE: {"columns": {"id": "long not null"}, "primary_key": ["id"]}})
        bench.put(load_file(TABLE, [{"id": 1}]))
        bench.apply()
        bench.lake.runtime.sessions.root().range(1).count()
        time.sleep(REST_SECONDS)
        root = bench.lake.runtime.sessions.root()
        # PySpark asks a session of this thread for the type of each such literal.
        noon = F.lit(datetime(2026, 3, 1, 12, tzinfo=UTC))
        assert root.range(1).filter(noon.isNotNull()).count() == 1
        bench.put(cdc_file(TABLE, clock.now, [clock.change("I", {"id": 2})]))
        bench.apply()
        if bench.rows() != bench.truth():
            print(bench.rows())
            return 1
    finally:
        server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
