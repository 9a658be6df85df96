"""The tags by which the lake finds runs: those that a sensor has requested, and those of backfills."""

HIDDEN = ".dagster/lake_assets_"
"""Dagster's UI shows no tag that begins with `.dagster/`: a run's own bookkeeping would fill the list of runs."""
SCOPE = "lake_assets/scope"
"""Visible, because `dagster.yaml` limits the runs of a scope by it."""
BACKFILL = "dagster/backfill"
"""Dagster's tag on the runs of a backfill: the backfill's id."""
OWN = f"{HIDDEN}own"
"""On the runs that the lake itself has started: old ones are deleted (`orchestration/runs/run_retention.py`)."""
RUN_TAGS = {"dagster/max_retries": "0", OWN: "1"}
"""The sensor retries, with its back-off. With `run_retries` on, Dagster would start a second retry."""


def mart_tag(name: str) -> str:
    """The run tag by which a mart's own runs are found."""
    return f"{HIDDEN}mart.{name}"
