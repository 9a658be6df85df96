"""Which outputs a lake has.

Not here: what they do (a module or folder each).
"""

import math

from lake_assets.lake import Lake
from lake_assets.outputs.alarms_output import AlarmsOutput
from lake_assets.outputs.output import Output
from lake_assets.outputs.snowflake.snowflake_output import SnowflakeOutput


def lake_outputs(lake: Lake, longest: float = math.inf) -> list[Output]:
    """The outputs that lake.yaml configures. Opens nothing.

    `longest`: seconds after which a look leaves the rest of its work to the next one.
    """
    found: list[Output] = []
    if lake.config.alarms.webhook is not None and lake.config.alarms.marts:
        found.append(AlarmsOutput(lake))
    snowflake = lake.config.warehouses.snowflake
    if snowflake is not None and snowflake.connect:
        found.append(SnowflakeOutput(lake, longest=longest))
    return found
