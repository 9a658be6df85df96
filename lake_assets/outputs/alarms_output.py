"""Alarms as an output: rows of marts that are due, sent to the webhook.

Not here: which alarms there are, and sending them (`alarms/`).
"""

from collections.abc import Sequence
from functools import cached_property

from lake_assets.alarms.alarm_log import AlarmLog
from lake_assets.alarms.send_alarms import send_alarms
from lake_assets.lake import Lake
from lake_assets.outputs.output import Followed
from lake_assets.words import many


class AlarmsOutput:
    """The alarms of one lake."""

    name = "alarms"
    description = "Sends alarms about rows of marts to the webhook, each once."
    every = 5.0
    shows_tables = False

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    @cached_property
    def _log(self) -> AlarmLog:
        # Not earlier: Dagster's definitions load also while the catalog cannot be reached.
        return AlarmLog(self._lake.runtime.catalog)

    def tables(self) -> Sequence[str]:
        """The marts that have alarms."""
        alarming = self._lake.config.alarms.marts
        return [mart.identifier for mart in self._lake.marts if mart.name in alarming]

    def follow(self) -> Followed:
        """Sends what is due. Never raises."""
        round_ = send_alarms(self._lake.runtime, self._log)
        done = []
        if round_.sent:
            done.append(f"{many(len(round_.sent), 'alarm', 'were')} sent")
        if round_.left_to_others:
            done.append(f"another process is sending {many(len(round_.left_to_others), 'alarm')}")
        return Followed(done, round_.problems)

    def look(self) -> Followed:
        """Nothing: alarms that are due are on the board."""
        return Followed()
