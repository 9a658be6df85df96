"""`lake-assets schema plan`: the changes that the next batch of each table would make to silver's columns.

Here: deciding as a run would, without recording anything. Not here: printing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.errors import LakeError, TableStopped
from lake_assets.iceberg.table_io import load_table
from lake_assets.lake import Lake
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.alter_columns import Step, steps, version_of
from lake_assets.schema.contract import Contracts, ContractVersion
from lake_assets.silver.apply.evolve_table import batch_contracts
from lake_assets.silver.plan.members import living_files, made_of
from lake_assets.silver.plan.table_state import TableState, table_states
from lake_assets.silver.table.position import Position


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


def why_stopped(
    lake: Lake, arriving: Mapping[tuple[str, str], Sequence[LoggedFile]], *, has_log: bool
) -> dict[str, str]:
    """By silver table, why its next runs would stop: by its state, lake.yaml, or the columns of its pending and
    arriving files. `arriving`: by source and `schema.table`, files that are not logged yet, with offsets above those of
    the table's logged ones. `has_log`: whether the lake has a log; without one, it has no tables either."""
    if not has_log:
        states = [TableState(target, Position(), ()) for target in lake.targets]
    else:
        states = table_states(lake.runtime, lake.targets, datetime.now(UTC))
    found = {}
    for state in states:
        recorded = lake.runtime.contracts.of(state.target.identifier) if has_log else Contracts()
        new = arriving.get((state.target.source, state.target.table), ())
        files = [file for file in _used(state, new) if file.offset > state.position.log_offset]
        try:
            if state.stop is not None:
                raise state.stop
            _contracts(lake.runtime, state, recorded, files)
        except LakeError as error:
            found[state.target.identifier] = str(error)
    return found


def _used(state: TableState, arriving: Sequence[LoggedFile]) -> Sequence[LoggedFile]:
    """The files that the table is made of once all pending and arriving ones are applied."""
    target, every = state.target, [*state.logged, *arriving]
    living = living_files(every, target.mode, target.config.on_vanished)
    return made_of(living, target.mode, living[-1].offset) if living else ()


def _contracts(
    runtime: LakeRuntime, state: TableState, recorded: Contracts, files: Sequence[LoggedFile]
) -> Contracts:
    every = [*state.logged, *(file for file in files if file not in state.logged)]
    position = state.position.log_offset
    return batch_contracts(runtime, state.target, recorded, position, every, files, _added_in_memory)


def _plan(lake: Lake, state: TableState) -> PlannedSchema:
    target = state.target
    files = state.batch.files if state.batch is not None else ()
    try:
        contracts = _contracts(lake.runtime, state, lake.runtime.contracts.of(target.identifier), files)
        table = load_table(lake.runtime.catalog, target.identifier)
        todo = steps(target.table, version_of(table), contracts, target.schema_changes) if table else []
    except TableStopped as error:
        return PlannedSchema(target.identifier, (), str(error))
    return PlannedSchema(target.identifier, tuple(_sentences(todo)), None)


def _sentences(todo: Sequence[Step]) -> list[str]:
    return [f"{change} ({step.origin})" for step in todo for change in step.changes]


def _added_in_memory(known: Contracts, version: ContractVersion) -> Contracts:
    return known.and_then(replace(version, number=len(known.versions) + 1))
