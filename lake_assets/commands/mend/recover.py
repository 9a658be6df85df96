"""`lake-assets recover`: recovers the lake's own tables after they were dropped, rolled back or restored.

It first uses what still exists: metadata files of tables that the catalog has lost, and a former state of the file log
that matches all silver tables. If no such state is left, it makes a new log from the bucket and moves the silver
tables' positions to it (`relog.py`). Here: the order of those steps. Not here: printing (`cli.py`).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from lake_assets.bronze.log import file_log
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.log.log_recovery import former_state, go_back
from lake_assets.commands.mend.relog import Positions, log_again
from lake_assets.config import Column
from lake_assets.errors import LakeError
from lake_assets.iceberg.metadata_files import repaired
from lake_assets.iceberg.table_io import load_table
from lake_assets.lake import Lake
from lake_assets.rounds.ops_upkeep import OPS
from lake_assets.runtime import LakeRuntime, owner_of
from lake_assets.schema.contract import Contracts, contract_of
from lake_assets.schema.contract_log import new_version
from lake_assets.silver.table.guard import source_table
from lake_assets.silver.table.log_mark import why_other_log
from lake_assets.silver.table.position import Position, PositionLost, read_position
from lake_assets.silver.table.targets import Target


def recover(lake: Lake) -> Iterator[str]:
    """Recovers the tables, and yields a sentence for each step. No other process may apply files meanwhile. Raises
    LakeError for a table that cannot be recovered."""
    catalog = lake.runtime.catalog
    for identifier in OPS:
        if address := repaired(catalog, identifier, missing_too=True):
            yield f"{identifier}: the catalog names its newest metadata again, {address}"
    own = {target.identifier: source_table(target) for target in lake.targets}
    for identifier in [*own, *(mart.identifier for mart in lake.marts)]:
        if address := repaired(catalog, identifier, missing_too=False, source_table=own.get(identifier)):
            yield f"{identifier}: the catalog names its newest metadata again, {address}"
    # The former runtime has cached state from before the repair.
    runtime = LakeRuntime(lake.config)
    positions = _positions(runtime, lake.targets)
    yield from _log(lake, runtime, positions)
    for target, position in positions:
        if line := _contracts(runtime, target, position):
            yield line


def _positions(runtime: LakeRuntime, targets: Sequence[Target]) -> Positions:
    found = []
    for target in targets:
        try:
            position = read_position(load_table(runtime.catalog, target.identifier))
        except PositionLost:
            continue  # `rebuild` repairs it
        found.append((target, position))
    return found


def _log(lake: Lake, runtime: LakeRuntime, positions: Positions) -> Iterator[str]:
    def of_other_logs(log_id: str, records: Sequence[LoggedFile]) -> list[str]:
        by_table: dict[tuple[str, str], list[LoggedFile]] = defaultdict(list)
        for record in records:
            by_table[record.source, record.qualified_table].append(record)
        return [
            target.identifier
            for target, p in positions
            if why_other_log(p.log_offset, p.mark, log_id, by_table[target.source, target.table])
        ]

    def agrees(log_id: str, records: Sequence[LoggedFile]) -> bool:
        return not of_other_logs(log_id, records)

    log = runtime.file_log
    records = log.files()
    tables = of_other_logs(log.identity(), records)
    if not tables:
        return
    if (state := former_state(runtime.catalog, agrees, owner_of(lake.config))) is not None:
        go_back(runtime.catalog, state)
        yield (
            f"{file_log.TABLE}: restored to the state from which the tables were last applied; the next scan logs the "
            "files that have arrived since"
        )
        return
    landed = {record.source for record in records}
    streams = [name for name, source in lake.config.sources.items() if source.stream and name in landed]
    if streams:
        raise LakeError(
            f"{', '.join(tables)}: their positions are of another file log, and a new one would not have those up to "
            f"which the stream of {', '.join(streams)} was read. Drop these tables: the next run loads them again."
        )
    yield from log_again(lake, runtime, positions)


def _contracts(runtime: LakeRuntime, target: Target, position: Position) -> str | None:
    """Records again the contracts that are lost for good, with the columns of today's lake.yaml and of the silver
    table."""
    missing = position.contract_version - len(runtime.contracts.of(target.identifier).versions)
    if missing <= 0:
        return None
    table = load_table(runtime.catalog, target.identifier)
    if table is None:
        raise LakeError(f"{target.identifier} was dropped while it was recovered: run again.")
    configured = contract_of(target.config, target.dms)
    own = {column.name for column in target.columns}
    contract = configured
    for field in table.schema().fields:
        if field.name not in own:
            # A file has added the column.
            contract = contract.with_column(Column(name=field.name, type=str(field.field_type)))
    for _ in range(missing):
        known: Contracts = runtime.contracts.of(target.identifier)
        version = new_version(contract, 0, "recovered from lake.yaml and the silver table", configured)
        runtime.contracts.add(target.identifier, known, version)
    how = "files that are read again are read with today's lake.yaml"
    return f"{target.identifier}: lake_ops.contracts is lost; {how}"
