"""Which outputs a lake has.

Not here: what they do (a module or folder each).
"""

import math
import os

from lake_assets.lake import Lake
from lake_assets.outputs.alarms_output import AlarmsOutput
from lake_assets.outputs.batch_log_output import BatchLogOutput
from lake_assets.outputs.output import Output
from lake_assets.outputs.snowflake.snowflake_output import SnowflakeOutput
from lake_assets.outputs.traces_output import TracesOutput, is_traced


def lake_outputs(lake: Lake, longest: float = math.inf) -> list[Output]:
    """The batch log, and the outputs that lake.yaml and the environment configure. Opens nothing.

    `longest`: seconds after which a look leaves the rest of its work to the next one.
    """
    found: list[Output] = [BatchLogOutput(lake)]
    if is_traced(os.environ):
        found.append(TracesOutput(lake))
    if lake.config.alarms.webhook is not None and lake.config.alarms.marts:
        found.append(AlarmsOutput(lake))
    snowflake = lake.config.warehouses.snowflake
    if snowflake is not None and snowflake.connect:
        found.append(SnowflakeOutput(lake, longest=longest))
    return found
