"""The run in Dagster that lands the messages of a source's stream: its job, and the sensor that starts it again.

Here: how long the run lasts. Not here: its landings (`rounds/landings.py`). It needs no Spark, and is no part of the
runs that apply: messages land while silver is stopped.
"""

import threading

import dagster as dg

from lake_assets.orchestration.runs.kept_alive import HAND_OVER_SECONDS, kept_alive
from lake_assets.orchestration.shared.asset_keys import prefixed
from lake_assets.orchestration.shared.heartbeat import Heartbeat
from lake_assets.rounds.landings import land_until
from lake_assets.runtime import LakeRuntime
from lake_assets.words import many


def landing_job(runtime: LakeRuntime, source: str, hand_over: float = HAND_OVER_SECONDS) -> dg.JobDefinition:
    """The job that lands the messages of a source. `hand_over`: seconds after which a run ends."""

    @dg.op(
        name=f"land_{source}",
        description=f"Lands the messages of {source}'s stream as files, as they arrive.",
    )
    def land(context: dg.OpExecutionContext) -> None:
        ended = threading.Event()
        timer = threading.Timer(hand_over, ended.set)
        timer.daemon = True
        timer.start()
        try:
            with Heartbeat(context.instance, context.run_id):
                landed = land_until(ended, runtime, source, context.log.warning)
        finally:
            timer.cancel()
        context.log.info(f"{many(landed, 'message')}; a fresh run takes over")

    @dg.job(
        name=prefixed(runtime.lake, f"{source}_landing"),
        executor_def=dg.in_process_executor,
        tags={"source": source},
    )
    def landing() -> None:
        land()

    return landing


def landing_sensor(runtime: LakeRuntime, source: str, job: dg.JobDefinition) -> dg.SensorDefinition:
    """Keeps a run of the landing job alive. Stop it in the UI where `lake-assets stream` runs as a service."""
    return kept_alive(runtime, source, job, f"{source}_keeps_landing", f"lands the messages of {source}")
