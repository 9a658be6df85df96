"""The sensor that sends alarms, whatever run has written the mart.

Its ticks are no part of a run: a webhook that is dead or slow fails no run and delays none. Not here: what is sent
(`alarms/`).
"""

from functools import cache

import dagster as dg

from lake_assets.alarms.alarm_log import AlarmLog
from lake_assets.alarms.send_alarms import send_alarms
from lake_assets.orchestration.shared.asset_keys import prefixed
from lake_assets.runtime import LakeRuntime
from lake_assets.words import many

SECONDS = 5
"""Seconds between two rounds, as in the loop of Dagster's daemon."""


def alarm_sensor(runtime: LakeRuntime) -> dg.SensorDefinition:
    """The sensor of all alarms; running by default. Its tick fails while alarms cannot be sent."""

    @cache
    def log() -> AlarmLog:
        # Not earlier: Dagster's definitions load also while the catalog cannot be reached.
        return AlarmLog(runtime.catalog)

    keys = [[*runtime.lake.key_prefix, "gold", mart] for mart in runtime.lake.alarms.marts]

    @dg.sensor(
        name=prefixed(runtime.lake, "alarms"),
        # Not `target`, whose job takes no marts with partitions of different lengths.
        asset_selection=dg.AssetSelection.assets(*keys),
        minimum_interval_seconds=SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends alarms about rows of marts to the webhook, each once.",
    )
    def alarms() -> dg.SkipReason:
        done = send_alarms(runtime, log())
        if done.problems:
            raise dg.Failure("; ".join(done.problems))
        found = f"{many(len(done.sent), 'alarm', 'were')} sent"
        if done.left_to_others:
            found += f"; another process is sending {len(done.left_to_others)}"
        return dg.SkipReason(found)

    return alarms
