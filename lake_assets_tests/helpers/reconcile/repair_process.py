"""A repair of all slices of `items` in a separate process, which may be killed on the way.

`test_repair.py` starts `python -m lake_assets_tests.helpers.reconcile.repair_process '<JSON>'` with the result of
`same_lake`, and with `kill_before`, a method of `Attempt` before which the process dies.
"""

import json
import os
import signal
import sys
from datetime import UTC, datetime
from typing import Any

from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.reconcile.compare_slices import begun_cycle
from lake_assets.silver.reconcile.repair import repair
from lake_assets_tests.helpers.processes.same_lake import open_same_lake


def main(arguments: dict[str, Any]) -> None:
    if name := arguments.get("kill_before"):
        setattr(Attempt, name, lambda *anything: os.kill(os.getpid(), signal.SIGKILL))
    lake = open_same_lake(arguments)
    target = lake.targets[0]
    cycle = begun_cycle(lake.runtime, target, 1, None, datetime.now(UTC))
    done = repair(lake.runtime, target, cycle, [0])
    print(json.dumps({"rows": done.rows, "left": done.left}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
