"""Maintenance of a lake in a process of its own, which may be killed on the way.

Here: what `test_killed_maintenance.py` starts: `python -m lake_assets_tests.helpers.processes.maintain_process
'<JSON>'` with `folder`, `catalog`, `tables`, `dms`, `maintenance`, and `kill`: `before` or `after` and the name of a
step.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from lake_assets.commands.run.maintain import maintain
from lake_assets.iceberg.publish import Attempt
from lake_assets.iceberg.table_maintenance import TableUpkeep
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets_tests.helpers.lakes.small_lakes import lake_config

STEPS: dict[str, Any] = {
    "compact": TableUpkeep,
    "restamp": TableUpkeep,
    "publish": Attempt,
    "expire": TableUpkeep,
}


def main(arguments: dict[str, Any]) -> None:
    when, name = arguments["kill"]
    owner = STEPS[name]
    whole = getattr(owner, name)

    def dies(self: Any) -> None:
        if when == "after":
            whole(self)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, dies)
    config = lake_config(
        Path(arguments["folder"]),
        arguments["tables"],
        source={"dms": arguments["dms"]},
        catalog=arguments["catalog"],
        maintenance=arguments["maintenance"],
        spark={"master": "local[1]", "conf": {"spark.driver.memory": "700m"}},
    )
    for done in maintain(open_lake(config, marts=())):
        if done.error is not None:
            raise done.error


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
