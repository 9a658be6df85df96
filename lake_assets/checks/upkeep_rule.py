"""The rule that full scans of a table take about as long as those of a fresh copy: its maintenance keeps up.

Here: the outcome, by the table's metadata alone. Not here: the figures and the limits
(`iceberg/upkeep/table_health.py`).
"""

from collections.abc import Sequence

from lake_assets.checks.data_check import Outcome, Rule
from lake_assets.iceberg.table_io import load_table
from lake_assets.iceberg.upkeep.table_health import read_health
from lake_assets.runtime import LakeRuntime


def maintenance_keeps_up(identifier: str, partition_by: Sequence[str] | None = None) -> Rule:
    """The table has not reached twice the limits at which maintenance merges and rewrites its files. `partition_by`:
    the partitions that it should have; None to keep those that it has."""

    def rule(runtime: LakeRuntime, earlier: Sequence[float]) -> Outcome:
        table = load_table(runtime.catalog, identifier)
        if table is None:
            return Outcome(True, "The table does not exist yet.")
        found = read_health(table, partition_by)
        if not found.behind:
            return Outcome(True, found.scans, found.figures())
        # The option takes tables of silver, which have `partition_by`.
        only = f" --table {identifier}" if partition_by is not None else ""
        step = {"next_step": f"lake-assets maintain{only}"}
        return Outcome(False, f"It has {found.behind}. {found.scans}", found.figures() | step)

    return rule
