"""Refuses a lake whose assets have the same keys as those of another code location.

Dagster keeps one history for each asset key, whichever code locations define it: the events, checks and partitions of
two lakes with equal keys could not be told apart. Definitions that are loaded do not know other code locations, but the
sensors of all of them have states in the instance. Here: the decision by these states. Not here: the keys
(`orchestration/shared/asset_keys.py`).
"""

import time
from collections.abc import Sequence

import dagster as dg

from lake_assets.config import LakeConfig
from lake_assets.orchestration.dagster_private import SensorState, sensor_states
from lake_assets.orchestration.shared.asset_keys import prefixed

ALIVE_SECONDS = 120.0
"""A sensor that the daemon has not evaluated for so long is of a code location that is no longer there."""


def refuse_equal_keys(context: dg.SensorEvaluationContext, lake: LakeConfig) -> None:
    """Raises Failure if another code location has a lake with the same keys, and had it first. The first one goes on: a
    second lake does not stop it."""
    origin = context.code_location_origin
    if origin is None:
        return  # a test of the sensor
    states = sensor_states(context.instance) or []
    for source in lake.sources:
        if (other := first_location(states, lake, source, origin.location_name, time.time())) is not None:
            raise dg.Failure(
                f"The code location {other!r} of this Dagster instance has a lake with the same asset keys, such as "
                f"those of the source {source}, and had them first. Nothing of the code location "
                f"{origin.location_name!r} is run: Dagster would mix the histories of the two. Set asset_key_prefix "
                f"in its lake.yaml, for example to {_suggested(origin.location_name)!r}, and reload it."
            )


def first_location(
    states: Sequence[SensorState], lake: LakeConfig, source: str, own: str, now: float
) -> str | None:
    """The code location that had the source's sensors before the location `own`; None if that is `own`. `now`: seconds
    since the epoch."""
    files, all_of_lake = prefixed(lake, f"{source}_files"), prefixed(lake, "freshness")
    lakes = {state.location for state in states if state.name == all_of_lake}
    found = {state.location: state for state in states if state.name == files}
    mine = found.get(own)
    if mine is None:
        return None
    # After the daemon was down, the other's sensor may not have been evaluated yet, as this one had not.
    since = (mine.previous_tick or now) - ALIVE_SECONDS
    others = [state for name, state in found.items() if name != own and name in lakes]
    alive = [state for state in others if state.last_sign >= since]
    first = min([mine, *alive], key=lambda state: (state.started, state.location))
    return first.location if first is not mine else None


def _suggested(location: str) -> str:
    """A prefix from a location's name."""
    letters = "".join(c if c.isascii() and c.isalnum() else "_" for c in location.lower()).strip("_")
    return letters if letters and not letters[0].isdigit() else "staging"
