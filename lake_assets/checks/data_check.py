"""One check of a table, and its outcome.

Here: what all checks have in common. Not here: the rules (the other modules of this package).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lake_assets.config import TableCheck
from lake_assets.config.secrets import hidden_in
from lake_assets.errors import LakeError
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.causes import root_cause

VALUE = "value"
"""In the figures of a check with a total: the total."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one evaluation."""

    passed: bool
    state: str
    """A sentence for users."""
    figures: dict[str, Any] = field(default_factory=dict)
    """Numbers and texts by name. No value of a row is among them, except for its key."""
    warns: bool = False
    """Whether a failure is a warning, whatever the severity of the check, because the rows themselves are right."""


Rule = Callable[[LakeRuntime, Sequence[float]], Outcome]
"""Evaluates a check on the tables as they are. The numbers are the check's earlier values, the newest first."""


@dataclass(frozen=True, slots=True)
class DataCheck:
    """A check of one table of the lake."""

    asset_key: tuple[str, ...]
    name: str
    description: str
    rule: Rule
    settings: TableCheck
    schedule: str | None
    """Cron in UTC; None: it is evaluated only when a user executes it."""
    needs_rows: bool
    """Whether it reads rows or lists files. If not, and if it has no schedule, the freshness sensor evaluates it once a
    minute."""

    lenient: bool = False
    """Whether its failure is a warning unless lake.yaml says otherwise, because the rows are right all the same."""

    @property
    def warns(self) -> bool:
        """Whether its failure is a warning. A warning holds no mart, so the failure of a blocking check is an error by
        default."""
        usual = "warn" if self.lenient and not self.settings.blocking else "error"
        return (self.settings.severity or usual) == "warn"

    def evaluate(self, runtime: LakeRuntime, earlier: Sequence[float] = ()) -> Outcome:
        """The outcome. A check that cannot be evaluated fails, with the reason: its table is unproven."""
        try:
            return self.rule(runtime, earlier)
        except Exception as error:  # noqa: BLE001  (the other checks of the run go on)
            reason = str(error) if isinstance(error, LakeError) else root_cause(error)
            return Outcome(False, f"The check could not be evaluated: {hidden_in(runtime.lake, reason)}")
