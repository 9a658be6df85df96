"""One round over silver tables: scan the bucket, plan the tables, apply those that are ready, report.

`sync`, the file sensor with the run that it requests, and the continuous run take the same four steps: `log_arrivals`,
`plan_round`, `apply_tables`, and the events of `orchestration/assets/silver_report.py`. Here: the plan of a round. Not
here: scanning (`arrivals.py`), applying (`silver/apply/engine.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lake_assets.runtime import LakeRuntime
from lake_assets.silver.plan.plan import State, are_large
from lake_assets.silver.plan.table_state import TableState, table_states
from lake_assets.silver.table.targets import Target


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """The tables of a round."""

    states: tuple[TableState, ...]
    ready: tuple[Target, ...]
    """Tables that get a turn."""
    long: frozenset[str]
    """Silver tables among them that have much to apply. The other tables do not wait for their turns."""
    backing_off: Mapping[str, float]
    """By silver table that has failed and would otherwise get a turn, the seconds until its next attempt."""

    @property
    def reasons(self) -> list[str]:
        """Why tables with pending files get no turn."""
        waiting = [
            f"{state.target.identifier}: {state.waits_for}"
            for state in self.states
            if state.state is State.WAITING
        ]
        failed = [
            f"{table} failed and is tried again in {seconds:.0f} s"
            for table, seconds in self.backing_off.items()
        ]
        return waiting + failed


def plan_round(
    runtime: LakeRuntime,
    targets: Sequence[Target],
    seconds_left: Callable[[Target], float] = lambda target: 0.0,
) -> RoundPlan:
    """Plans the round. `seconds_left`: until the next attempt at a table that has failed."""
    states = table_states(runtime, targets, datetime.now(UTC))
    left = {state.target.identifier: seconds_left(state.target) for state in states if state.due}
    ready = [state for state in states if left.get(state.target.identifier) == 0]
    return RoundPlan(
        tuple(states),
        tuple(state.target for state in ready),
        frozenset(state.target.identifier for state in ready if _has_much_to_do(state)),
        {table: seconds for table, seconds in left.items() if seconds > 0},
    )


def _has_much_to_do(state: TableState) -> bool:
    # A batch that computes the table again has files that were applied before.
    return are_large({*state.pending, *(state.batch.files if state.batch is not None else ())})
