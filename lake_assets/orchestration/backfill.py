"""A backfill from the command line: partitions of a mart are computed again, in chunks, in this process.

It runs the assets that the UI shows, and reports to the same Dagster instance. Here: the chunks. Not here: what makes
the partitions pending (`rounds/requested_periods.py`).
"""

from collections.abc import Iterator

import dagster as dg

from lake_assets.errors import LakeError
from lake_assets.gold.mart import Mart
from lake_assets.lake import Lake
from lake_assets.orchestration.assets.mart_runs import MartRun
from lake_assets.orchestration.sync import blocked, execute_assets, failure_of
from lake_assets.rounds.requested_periods import asked_periods, request_periods


def backfill(
    lake: Lake, instance: dg.DagsterInstance, name: str, first: str, last: str, chunk: int | None = None
) -> Iterator[tuple[str, str, int]]:
    """Computes the partitions from first to last again, at most `chunk` of them in a run. Yields each chunk once it is
    stored: its first and last key, and the number of its partitions. What is left when the process ends stays pending:
    the next `sync` or the sensor computes it. Raises LakeError for partitions that do not exist, and when a chunk
    fails."""
    mart, periods = asked_periods(lake.config, lake.marts, name, first, last)
    _refuse_blocked(lake, instance, mart)
    request_periods(lake.runtime, mart, periods[0], periods[-1])
    for start in range(0, len(periods), chunk or len(periods)):
        part = periods[start : start + (chunk or len(periods))]
        _refuse_blocked(lake, instance, mart)
        run = MartRun((mart.name,), (part[0], part[-1]), mart.partitions, mart.key_prefix)
        executed = execute_assets(lake, instance, run.keys, run.tags)
        if not executed.success:
            raise LakeError(
                f"{mart.identifier}: the partitions from {mart.partitions.key(part[0])} on are not computed: "
                f"{failure_of(executed) or 'the run ended without them'}. They are pending; `lake-assets sync` "
                "computes them."
            )
        yield mart.partitions.key(part[0]), mart.partitions.key(part[-1]), len(part)


def _refuse_blocked(lake: Lake, instance: dg.DagsterInstance, mart: Mart) -> None:
    if (reason := blocked(lake, instance, mart)) is not None:
        raise LakeError(f"{reason}: it is not computed while that check fails.")
