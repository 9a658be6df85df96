"""`lake-assets schema plan`: the changes that the next batch of each table would make to silver's columns.

Here: deciding as a run would, without recording anything. Not here: printing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from lake_assets.errors import TableStopped
from lake_assets.iceberg.table_io import load_table
from lake_assets.lake import Lake
from lake_assets.schema.alter_columns import Step, steps, version_of
from lake_assets.schema.contract import Contracts, ContractVersion
from lake_assets.silver.apply.evolve_table import batch_contracts
from lake_assets.silver.plan.table_state import TableState, table_states


@dataclass(frozen=True, slots=True)
class PlannedSchema:
    """One silver table."""

    table: str
    changes: tuple[str, ...]
    """A sentence each, with the reason."""
    stops: str | None
    """Why the table would stop, if it would."""


def plan(lake: Lake, tables: Sequence[str] = ()) -> list[PlannedSchema]:
    """Every silver table whose columns would change, or which a change would stop; with `tables` (`schema.table`), only
    the silver tables of these source tables. Reads the lake only; does not list the bucket."""
    targets = [target for target in lake.targets if not tables or any(map(target.is_called, tables))]
    found = [_plan(lake, state) for state in table_states(lake.runtime, targets, datetime.now(UTC))]
    return [planned for planned in found if planned.changes or planned.stops]


def _plan(lake: Lake, state: TableState) -> PlannedSchema:
    target = state.target
    files = state.batch.files if state.batch is not None else ()
    try:
        contracts = batch_contracts(
            lake.runtime, target, state.position, state.logged, files, _added_in_memory
        )
        table = load_table(lake.runtime.catalog, target.identifier)
        todo = steps(target.table, version_of(table), contracts, target.schema_changes) if table else []
    except TableStopped as error:
        return PlannedSchema(target.identifier, (), str(error))
    return PlannedSchema(target.identifier, tuple(_sentences(todo)), None)


def _sentences(todo: Sequence[Step]) -> list[str]:
    return [f"{change} ({step.origin})" for step in todo for change in step.changes]


def _added_in_memory(known: Contracts, version: ContractVersion) -> Contracts:
    return known.and_then(replace(version, number=len(known.versions) + 1))
