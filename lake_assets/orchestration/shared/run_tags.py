"""The tags by which runs that a sensor has requested are found again."""

SCOPE = "lake_assets/scope"
RUN_TAGS = {"dagster/max_retries": "0"}
"""The sensor is the retry, with its back-off. Where an instance has `run_retries` on, a retry would run beside it."""


def mart_tag(name: str) -> str:
    """The run tag by which a mart's own runs are found."""
    return f"lake_assets/mart.{name}"
