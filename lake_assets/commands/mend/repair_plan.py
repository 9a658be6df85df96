"""`lake-assets repair`: what ends the stops of a lake, as a plan.

An error that needs no decision has its remedy (`errors.py`): a command that can be run by hand, too. Here: collecting
the remedies of all tables. Not here: running them (`repair_cli.py`).
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import Mode
from lake_assets.config.secrets import hidden_in
from lake_assets.errors import LakeError, Remedy
from lake_assets.iceberg.table_io import load_table
from lake_assets.lake import Lake
from lake_assets.rounds.ops_upkeep import OPS
from lake_assets.silver.plan.members import made_of
from lake_assets.silver.plan.table_state import TableState, table_states
from lake_assets.silver.reconcile.compare_slices import known_cycle
from lake_assets.silver.table.guard import described, foreign_commits
from lake_assets.silver.table.targets import Target
from lake_assets.spark.causes import root_cause
from lake_assets.words import many


@dataclass(frozen=True, slots=True)
class Repair:
    """One step of a plan."""

    remedy: Remedy
    reason: str
    """A sentence."""
    target: Target | None = None
    """None for the lake's own tables."""
    files: int = 0
    """Files that are read again."""
    bytes: int = 0

    @property
    def name(self) -> str:
        """The step, as the command that can be run by hand, without options."""
        return self.remedy if self.target is None else f"{self.remedy} {self.target.identifier}"


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What `lake-assets repair` does, and what it leaves."""

    steps: tuple[Repair, ...]
    left: tuple[str, ...]
    """The sentences of stops that need a decision, or something outside of the lake."""


def repair_plan(lake: Lake) -> RepairPlan:
    """The steps that end the stops of the lake's tables, in order. Reads no file of a source."""
    try:
        states = table_states(lake.runtime, lake.targets, datetime.now(UTC))
        for identifier in [*OPS, *(mart.identifier for mart in lake.marts)]:
            load_table(lake.runtime.catalog, identifier)
        differing = [step for state in states if state.stop is None for step in _differing(lake, state)]
    except LakeError as error:
        # Without the lake's own tables, nothing is known of the others.
        if error.remedy is not Remedy.RECOVER:
            raise
        return RepairPlan((Repair(Remedy.RECOVER, str(error)),), ())
    found, left = list[Repair](), list[str]()
    for state in states:
        if (stop := state.stop) is None:
            continue
        reason = hidden_in(lake.config, str(stop) if isinstance(stop, LakeError) else root_cause(stop))
        remedy = stop.remedy if isinstance(stop, LakeError) else None
        others = _rows_of_others(lake, state) if remedy is Remedy.REBUILD else ""
        if remedy is None or others:
            left.append(reason + others)
        elif remedy is not Remedy.RECOVER:
            found.append(_step(remedy, reason, state))
        elif not any(step.remedy is Remedy.RECOVER for step in found):
            found.append(Repair(Remedy.RECOVER, reason))
    order = list(Remedy)
    steps = sorted([*found, *differing], key=lambda step: order.index(step.remedy))
    return RepairPlan(tuple(steps), tuple(left))


def _rows_of_others(lake: Lake, state: TableState) -> str:
    """A sentence about rows that other writers have committed, and that a rebuild would drop: only the user can want
    that. Empty without such rows."""
    found = foreign_commits(load_table(lake.runtime.catalog, state.target.identifier))
    return f" {described(found)} by others: a rebuild would drop its rows." if found else ""


def _step(remedy: Remedy, reason: str, state: TableState) -> Repair:
    files = _members_of(state) if remedy is Remedy.REBUILD else []
    return Repair(remedy, reason, state.target, len(files), sum(file.size for file in files))


def _members_of(state: TableState) -> list[LoggedFile]:
    """The files that a rebuild of the table reads: those of its position, or all if that is lost."""
    upto = state.position.log_offset or max((file.offset for file in state.logged), default=0)
    return list(made_of([f for f in state.logged if f.offset <= upto], state.target.mode, upto))


def _differing(lake: Lake, state: TableState) -> list[Repair]:
    """Rows that differed when the table was compared with its files last; not of a table to which others may write."""
    target = state.target
    if target.mode is not Mode.CURRENT or target.config.foreign_commits == "tolerate":
        return []
    cycle = known_cycle(lake.runtime, target)
    if cycle is None or not cycle.different:
        return []
    reason = f"{many(len(cycle.different), 'slice')} of its keys differed from its files when they were compared last."
    return [_step(Remedy.REPLAY, reason, state)]
