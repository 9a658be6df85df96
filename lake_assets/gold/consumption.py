"""What a mart has consumed and what it still has to compute, as its own commits record it.

A mart's commit names the silver snapshots up to which the mart knows its changed days, and which of these days are
still pending. Both change in one commit with the rows, so a kill between two runs loses nothing. Here: that record. Not
here: reading tables (`view.py`).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lake_assets.gold.periods.grain import Grain, Periods, format_periods, parse_periods

PREFIX = "lake.mart."
CONSUMED = f"{PREFIX}consumed."
PENDING = f"{PREFIX}pending-days"
NOW = f"{PREFIX}now"
SETTINGS = f"{PREFIX}settings"
SPAN = f"{PREFIX}span"
COLUMNS = f"{PREFIX}columns"


@dataclass(frozen=True, slots=True)
class Consumption:
    """State of a mart as of one of its commits."""

    snapshots: Mapping[str, int] = field(default_factory=dict)
    """By silver table, the snapshot up to which the changes are in the mart or in `pending`."""
    pending: Periods = frozenset()
    now: datetime | None = None
    """The source's last commit at that time, UTC."""
    settings: str = ""
    """`MartView.settings` with which its periods were computed, except for the pending ones."""
    span: Periods = frozenset()
    """First and last period of all work lists so far, without periods that a user requested."""
    grain: Grain = Grain.DAY
    """The grain of `pending` and `span`."""
    columns: frozenset[str] = frozenset()
    """The columns with which its periods were computed, except for the pending ones; empty in commits of an earlier
    version."""

    def properties(self) -> dict[str, str]:
        """The summary properties of a mart's commit."""
        found = {f"{CONSUMED}{table}": str(snapshot) for table, snapshot in sorted(self.snapshots.items())}
        found[PENDING] = format_periods(self.grain, self.pending)
        if self.now is not None:
            found[NOW] = self.now.isoformat()
        if self.settings:
            found[SETTINGS] = self.settings
        if self.span:
            found[SPAN] = format_periods(self.grain, self.span)
        if self.columns:
            found[COLUMNS] = json.dumps(sorted(self.columns))
        return found


def read_consumption(summary: Mapping[str, str]) -> Consumption:
    """The consumption in the summary of a mart's commit; empty if the summary has none of these properties."""
    now = summary.get(NOW)
    grain, span = parse_periods(summary.get(SPAN, ""))
    of_pending, pending = parse_periods(summary.get(PENDING, ""))
    return Consumption(
        snapshots={
            key.removeprefix(CONSUMED): int(v) for key, v in summary.items() if key.startswith(CONSUMED)
        },
        pending=pending,
        now=datetime.fromisoformat(now) if now else None,
        settings=summary.get(SETTINGS, ""),
        span=span,
        grain=of_pending if pending else grain,
        columns=frozenset(json.loads(summary.get(COLUMNS, "[]"))),
    )


def fingerprint(settings: Mapping[str, Any]) -> str:
    """A hash of the settings: days that were computed with other settings are stale."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:16]
