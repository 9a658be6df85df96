"""The tags by which a sensor finds the runs that it has requested."""

SCOPE = "lake_assets/scope"
RUN_TAGS = {"dagster/max_retries": "0"}
"""The sensor retries, with its back-off. With `run_retries` on, Dagster would start a second retry."""


def mart_tag(name: str) -> str:
    """The run tag by which a mart's own runs are found."""
    return f"lake_assets/mart.{name}"
