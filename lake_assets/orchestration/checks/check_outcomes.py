"""The newest outcome of every check of a lake, for those who look at it without Dagster's UI.

Not here: evaluating checks (`data_checks.py`, `silver_checks.py`), showing the outcomes (`commands/board/`).
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from lake_assets.lake import Lake
from lake_assets.orchestration.checks.check_history import latest_evaluations
from lake_assets.orchestration.checks.silver_checks import check_specs


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The newest evaluation of a check."""

    table: str
    """The asset, such as `silver/bikeshare/trips`."""
    name: str
    passed: bool
    is_warning: bool
    at: datetime
    """UTC."""
    problem: str | None


def check_outcomes(lake: Lake, instance: dg.DagsterInstance) -> list[CheckOutcome]:
    """The outcomes, failures first; without the checks that Dagster has no evaluation of."""
    keys = [spec.key for target in lake.targets for spec in check_specs(target)]
    keys += [dg.AssetCheckKey(dg.AssetKey(check.asset_key), check.name) for check in lake.checks]
    found = [
        CheckOutcome(
            key.asset_key.to_user_string(),
            key.name,
            bool(newest.passed),
            newest.is_warning,
            datetime.fromtimestamp(newest.at, UTC),
            newest.problem or newest.description,
        )
        for key, newest in latest_evaluations(instance, keys).items()
    ]
    return sorted(
        found, key=lambda outcome: (outcome.passed, outcome.is_warning, outcome.table, outcome.name)
    )
