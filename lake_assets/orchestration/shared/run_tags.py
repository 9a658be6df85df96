"""The tags by which the lake finds runs: those that a sensor has requested, and those of backfills."""

from collections.abc import Sequence

from lake_assets.config import LakeConfig

HIDDEN = ".dagster/lake_assets_"
"""Dagster's UI shows no tag that begins with `.dagster/`: a run's own bookkeeping would fill the list of runs."""
SCOPE = "lake_assets/scope"
"""Visible, because `dagster.yaml` limits the runs of a scope by it."""
BACKFILL = "dagster/backfill"
"""Dagster's tag on the runs of a backfill: the backfill's id."""
OWN = f"{HIDDEN}own"
"""On the runs that the lake itself has started: old ones are deleted (`orchestration/runs/run_retention.py`)."""


def own_tag(lake: LakeConfig) -> dict[str, str]:
    """The tag OWN of this lake."""
    return {OWN: lake.asset_key_prefix or "1"}


def run_tags(lake: LakeConfig) -> dict[str, str]:
    """The tags of runs that a sensor requests. The sensor retries, with its back-off. With `run_retries` on, Dagster
    would start a second retry."""
    return {"dagster/max_retries": "0", **own_tag(lake)}


def scope_tag(lake: LakeConfig, *path: str) -> dict[str, str]:
    """The tag SCOPE of runs of `silver` and a source, or of `gold`."""
    return {SCOPE: "/".join((*lake.key_prefix, *path))}


def mart_tag(name: str, prefix: Sequence[str] = ()) -> str:
    """The run tag by which a mart's own runs are found. `prefix`: `Mart.key_prefix`."""
    return f"{HIDDEN}mart.{'.'.join((*prefix, name))}"
