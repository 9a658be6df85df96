"""The interface of what follows the commits of the lake: the batch log, alarms, warehouses.

An output is level-triggered: each time it compares what the lake has with what it has shown, so a kill loses nothing,
and commits that it has missed are one step. It runs beside the pipeline: its failure fails no run and delays none.
Here: the interface. Not here: which outputs a lake has (`lake_outputs.py`), what calls them
(`orchestration/sensors/output_sensor.py`, `commands/run/sync_cli.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Shown:
    """What an output has of one table."""

    behind_since: datetime | None
    """When the first commit that it lacks was made, UTC; None if it lacks none."""
    is_late: bool
    reason: str | None = None
    """Why it lacks the commit, if that is known; without secrets."""

    @property
    def lag_seconds(self) -> float:
        """For how long it has lacked a commit; 0 if it lacks none."""
        return 0.0 if self.behind_since is None else (datetime.now(UTC) - self.behind_since).total_seconds()


@dataclass(frozen=True, slots=True)
class Followed:
    """What one look of an output did."""

    done: list[str] = field(default_factory=list)
    """A sentence for each thing that it did."""
    problems: list[str] = field(default_factory=list)
    """A sentence for each thing that it could not do; without secrets."""
    tables: Mapping[str, Shown] = field(default_factory=dict)
    """By Iceberg table, what it has of it; empty for an output that shows no tables."""


class Output(Protocol):
    """What follows the commits of the lake."""

    name: str
    """The name of its sensor in Dagster."""
    description: str
    """What it does, in one sentence."""
    every: float
    """Seconds between two looks."""
    shows_tables: bool
    """Whether users read the tables there, so that a commit that it lacks is worth a check."""

    def tables(self) -> Sequence[str]:
        """The identifiers of the Iceberg tables whose commits it follows."""

    def follow(self) -> Followed:
        """Does what the newest commits ask for. Never raises."""

    def look(self) -> Followed:
        """What `follow` would find, without doing anything. Never raises."""
