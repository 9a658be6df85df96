"""The rule that a silver table is what its DMS files give, in the slices of keys that are due.

Here: which slices an evaluation compares, and its outcome. Not here: comparing (`silver/reconcile/`).
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from lake_assets.checks.data_check import Outcome, Rule
from lake_assets.config import Reconcile
from lake_assets.iceberg.table_io import current_snapshot, load_table
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.reconcile.apply_cost import Budget, applied_seconds
from lake_assets.silver.reconcile.cycle import Cycle
from lake_assets.silver.table.targets import Target
from lake_assets.words import many


def equals_files(
    target: Target, settings: Reconcile, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Rule:
    """The table's rows are those that its files give. A slice that differed is compared again until it is equal;
    meanwhile the check fails. The check warns if comparing takes more than its allowed share of the time of
    applying."""

    def rule(runtime: LakeRuntime, earlier: Sequence[float]) -> Outcome:
        # Imported here, so that a run without this check does not wait for PySpark.
        from lake_assets.silver.reconcile.compare_slices import compare, current_cycle, known_cycle, note

        table = load_table(runtime.catalog, target.identifier)
        if table is None or current_snapshot(table) is None:
            return Outcome(True, "The table has no rows yet.")
        now = clock()
        budget = Budget(settings, applied_seconds(table, settings.every, now))
        slices = budget.slices(known_cycle(runtime, target))
        cycle = current_cycle(runtime, target, slices, settings.every, now)
        chosen = sorted({*budget.chosen(cycle, cycle.due(now, settings.every)), *cycle.different})
        if not chosen:
            return _sound("No slice is due.", budget, cycle, {})
        compared = compare(runtime, target, cycle, chosen)
        cycle = note(runtime, target, cycle, compared)
        different = sum(compared.different.values())
        figures = {
            "slices": ", ".join(str(one + 1) for one in compared.slices),
            "rows": compared.rows,
            "rows_different": different,
            "seconds": compared.seconds,
            "snapshot": str(compared.snapshot_id),
        }
        if not compared.different:
            state = f"{many(compared.rows, 'row')} of {many(len(chosen), 'slice')} equal the table's files."
            return _sound(state, budget, cycle, figures)
        figures |= _figures(budget, cycle)
        figures["differences"] = "\n".join(cycle.different.values())
        state = (
            f"{many(different, 'row', 'are')} not what the table's files give. "
            f"`lake-assets replay {target.argument} --slice different` repairs them."
        )
        return Outcome(False, state, figures)

    return rule


def _sound(state: str, budget: Budget, cycle: Cycle, figures: dict[str, object]) -> Outcome:
    """The outcome if no row differs; a warning if the cost is too high."""
    warning = budget.warning(cycle)
    sentences = [state, _progress(cycle, budget.settings), *([] if warning is None else [warning])]
    figures |= _figures(budget, cycle)
    return Outcome(warning is None, " ".join(sentences), figures, warns=warning is not None)


def _figures(budget: Budget, cycle: Cycle) -> dict[str, object]:
    every, cost = budget.settings.every, budget.percent(cycle)
    return {
        **({"percent_of_apply": cost} if cost is not None else {}),
        "cycle": f"{cycle.next} of {many(cycle.number, 'slice')}, {many(cycle.rows, 'row')}, {cycle.seconds:g} s",
        "cycle_begun": cycle.begun.isoformat(timespec="seconds"),
        "next_slice_due": cycle.next_due(every).isoformat(timespec="seconds"),
    }


def _progress(cycle: Cycle, settings: Reconcile) -> str:
    done = f"{cycle.next} of {cycle.number} are done in this cycle"
    return f"{done}; the next is due on {cycle.next_due(settings.every):%Y-%m-%d %H:%M} UTC."
