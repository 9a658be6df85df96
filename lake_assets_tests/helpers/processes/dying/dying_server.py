"""A process that applies batch after batch while its Spark Connect server is killed and restarted.

Here: `python -m lake_assets_tests.helpers.processes.dying.dying_server <folder> <seed>`; exits with 1 unless silver
equals the oracle. A separate process, since a process has an embedded Spark or Spark Connect and never both.
"""

import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from random import Random

from lake_assets.spark.connect.connect_server import ConnectServer
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.small_lakes import SPARK, lake_config

TABLE = "public.items"
ROUNDS = 14
PATIENCE = 120
"""Seconds for one turn, the server's start included: a call that hangs for longer has no end."""


def main(folder: Path, seed: int) -> int:
    """The exit code."""
    random, clock = Random(seed), Clock()
    SPARK.update(mode="connect", remote=f"sc://127.0.0.1:{free_port()}")
    server = ConnectServer(lake_config(folder / "server"), folder)
    server.start()
    table = {"columns": {"id": "long not null", "v": "string"}, "primary_key": ["id"], "also": ["change_log"]}
    bench = Bench(folder, {TABLE: table})
    bench.put(load_file(TABLE, [{"id": n, "v": "loaded"} for n in range(30)]))
    bench.apply()
    deaths = turns = 0
    slowest = 0.0
    for number in range(ROUNDS):
        rows = [clock.change("U", {"id": random.randrange(30), "v": f"round {number}"}) for _ in range(20)]
        rows.append(clock.change("I", {"id": 100 + number, "v": "new"}))
        bench.put(cdc_file(TABLE, clock.now + timedelta(seconds=1), rows))
        killer = threading.Thread(target=_kill, args=(server, random.uniform(0, 1.5)))
        if number % 2:
            killer.start()
            deaths += 1
        while True:
            began = time.monotonic()
            results = bench.turn()
            slowest, turns = max(slowest, time.monotonic() - began), turns + 1
            errors = [result.error for result in results.values() if result.error is not None]
            for error in errors:
                print(f"round {number}: {error}", flush=True)
            if killer.ident is not None:
                killer.join()
            if not errors:
                break
        if bench.rows() != bench.truth() or bench.rows("items_changes") != bench.truth(shape="change_log"):
            print(f"round {number}: silver is not what the files say")
            return 1
    server.stop()
    print(f"{deaths} deaths of the server, {turns} turns, the slowest {slowest:.1f} s")
    return 0 if slowest < PATIENCE else 1


def _kill(server: ConnectServer, after: float) -> None:
    time.sleep(after)
    if (running := server.running()) is not None:
        os.kill(running.pid, signal.SIGKILL)
    # Its supervisor restarts it.
    while server.running() is not None:
        time.sleep(0.1)
    server.start()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
