"""A statement to a Spark Connect server that is stopped during it, and one that begins afterwards: both are given up.

Here: `python -m lake_assets_tests.helpers.processes.hung_server <folder>`, which exits with 1 unless both soon raise
the error of a lost server, and the server is used again once it continues. A separate process, since a process has an
embedded Spark or Spark Connect and never both.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from lake_assets.spark import session
from lake_assets.spark.connect import connect_address
from lake_assets.spark.connect.connect_server import ConnectServer
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.lakes.small_lakes import SPARK, lake_config

SLEEP = "SELECT java_method('java.lang.Thread', 'sleep', 40000L + id) FROM range(1)"
PATIENCE = 150.0
"""Seconds: the keepalive's, and five times twenty for attempts to connect again."""


def main(folder: Path) -> int:
    """The exit code."""
    SPARK.update(mode="connect", remote=f"sc://127.0.0.1:{free_port()}")
    # As it is, but that it asks sooner.
    connect_address.KEEPALIVE.update({"grpc.keepalive_time_ms": 5_000, "grpc.keepalive_timeout_ms": 2_000})
    server = ConnectServer(lake_config(folder), folder)
    pid = server.start().pid
    sessions = session.SparkSessions(lake_config(folder))
    right = True
    for statement, pause in ((SLEEP, 3.0), ("SELECT 1", 0.0)):
        found = sessions.root()
        stop = threading.Timer(pause, os.kill, (pid, signal.SIGSTOP))
        stop.start()
        time.sleep(0.0 if pause else 1.0)
        began = time.monotonic()
        try:
            found.sql(statement).collect()
            right = False
        except Exception as error:  # noqa: BLE001  (of whatever kind: it is classified)
            right &= connect_address.server_lost(error)
            print(f"{type(error).__name__} after {time.monotonic() - began:.0f} s", flush=True)
        right &= time.monotonic() - began < PATIENCE
        os.kill(pid, signal.SIGCONT)
        sessions.forget()
        right &= sessions.root().range(3).count() == 3
    server.stop()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
