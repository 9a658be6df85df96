"""Maintenance of a lake in a separate process, which may be killed on the way.

`test_killed_maintenance.py` starts `python -m lake_assets_tests.helpers.processes.maintain_process '<JSON>'` with the
result of `same_lake`, and `kill`: `before` or `after` and the name of a step.
"""

import json
import os
import signal
import sys
from typing import Any

from lake_assets.commands.run.maintain import maintain
from lake_assets.iceberg.publish import Attempt
from lake_assets.iceberg.upkeep.table_maintenance import TableMaintenance
from lake_assets_tests.helpers.constants.little_kept import little_kept
from lake_assets_tests.helpers.lakes.keyed_shop import KEEP_NOTHING
from lake_assets_tests.helpers.processes.same_lake import open_same_lake

STEPS: dict[str, Any] = {
    "compact": TableMaintenance,
    "restamp": TableMaintenance,
    "publish": Attempt,
    "expire": TableMaintenance,
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
    with little_kept():
        for done in maintain(open_same_lake(arguments, maintenance=KEEP_NOTHING)):
            if done.error is not None:
                raise done.error


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
