"""One turn of a lake's silver tables in a separate process, which may be killed on the way.

`test_exactly_once.py` starts `python -m lake_assets_tests.helpers.processes.apply_process '<JSON>'` with the result of
`same_lake`. Optional are `kill_before`, the name of a function of `silver/apply/apply_batch.py`, and `start`, a file:
once ready, the process writes `<start>.ready` and waits for it. Prints the number of batches it published.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from lake_assets.silver.apply import apply_batch as apply
from lake_assets.silver.apply.engine import apply_tables
from lake_assets_tests.helpers.processes.same_lake import open_same_lake


def main(arguments: dict[str, Any]) -> None:
    if name := arguments.get("kill_before"):
        setattr(apply, name, lambda *anything: os.kill(os.getpid(), signal.SIGKILL))
    lake = open_same_lake(arguments)
    if start := arguments.get("start"):
        lake.runtime.sessions.root()
        Path(f"{start}.ready").touch()
        while not Path(start).exists():
            time.sleep(0.01)
    results = list(apply_tables(lake.runtime, lake.targets))
    for result in results:
        if result.error is not None:
            raise result.error
    print(json.dumps({result.target.name: len(result.batches) for result in results}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
