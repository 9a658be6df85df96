"""The rule that the quarantine of a silver table does not grow.

Here: what was quarantined lately. Not here: the batch's check `quarantine`, which warns of all held rows and files
(`orchestration/checks/silver_checks.py`).
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from lake_assets.bronze.quarantine.quarantine_log import State
from lake_assets.checks.data_check import Outcome, Rule
from lake_assets.config import QuarantineGrowth
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.masks import shown
from lake_assets.silver.table.targets import Target
from lake_assets.words import does, many

MOST_SHOWN = 10


def quarantine_grows_less(
    target: Target, limit: QuarantineGrowth, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Rule:
    """At most `limit.most` rows and files of the table were quarantined within `limit.within` and are still held."""

    def rule(runtime: LakeRuntime, earlier: Sequence[float]) -> Outcome:
        held = [entry for entry in runtime.quarantine.all(target.identifier) if entry.state is State.HELD]
        new = [entry for entry in held if entry.at > clock() - limit.within]
        figures: dict[str, Any] = {
            "new_rows": sum(entry.row is not None for entry in new),
            "new_files": sum(entry.row is None for entry in new),
            "held": len(held),
        }
        sentence = (
            f"{len(new)} of the {many(len(held), 'row')} and files in quarantine {does(len(new), 'were')} quarantined "
            f"within {limit.within}; the limit is {limit.most}."
        )
        if len(new) <= limit.most:
            return Outcome(True, sentence, figures)
        figures["newest"] = "\n".join(f"{one.id}: {one.reason}" for one in shown(new[-MOST_SHOWN:], [target]))
        figures["next_step"] = f"lake-assets quarantine list --table {target.argument}"
        return Outcome(False, sentence, figures)

    return rule
