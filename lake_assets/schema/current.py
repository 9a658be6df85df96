"""The contracts of one silver table as of a batch: what was recorded, what lake.yaml says by now, and what the batch's
own files bring.

Here: when a new version begins. Not here: what a difference means (`evolve.py`), rows.
"""

from collections.abc import Callable, Sequence

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import Mode, SchemaChanges
from lake_assets.schema.contract import Contract, Contracts, ContractVersion
from lake_assets.schema.contract_log import new_version
from lake_assets.schema.dropped import first_seen, newly_dropped
from lake_assets.schema.evolve import observed, transition, types_of
from lake_assets.schema.names import Naming, naming, proven, refuse_contract

Add = Callable[[Contracts, ContractVersion], Contracts]
"""Records a version, or finds that another run has recorded others: what there is then."""
BY_CONFIG = "lake.yaml"


def contracts_of_batch(
    name: str,
    configured: Contract,
    recorded: Contracts,
    policies: SchemaChanges,
    position: int,
    logged: Sequence[LoggedFile],
    pending: Sequence[LoggedFile],
    add: Add,
    shapes: Sequence[Mode] = (),
) -> Contracts:
    """Every version that the batch needs, newest last.

    `position` is the table's log offset, `logged` all its files, `pending` those of the batch above the position,
    `shapes` its mode and what `also` names.
    Raises TableStopped for a change that the policies or Iceberg refuse; then no version is recorded for it.
    """
    drops = policies.dropped == "drop"

    def added(version: ContractVersion) -> Contracts:
        return proven(add(recorded, version), shapes, drops=drops)

    def rules(known: Contracts) -> Naming:
        return naming(known, configured, shapes, drops=drops)

    recorded = proven(recorded, shapes, drops=drops)
    newest = recorded.newest
    if newest is None:
        recorded = added(new_version(configured, 1, BY_CONFIG, configured))
    elif newest.configured != configured:
        contract = _with_what_files_brought(configured, newest)
        transition(name, newest.contract, contract, policies)
        version = new_version(contract, position + 1, BY_CONFIG, configured)
        refuse_contract(name, BY_CONFIG, contract, rules(recorded.and_then(version)))
        recorded = added(version)
    else:
        refuse_contract(name, newest.origin, newest.contract, rules(recorded))
    due = {file.offset for file in pending}
    seen = first_seen(logged)
    before: LoggedFile | None = None
    quiet = None
    for file in sorted(logged, key=lambda file: file.offset):
        if file.retry:
            continue  # what its columns bring they brought when the file was new
        if file.offset in due:
            newest = recorded.at(file.offset)
            # Files of one kind follow each other by the thousand, and what the first has not changed none does.
            dropped = newly_dropped(newest.contract, file, seen, policies)
            look = (newest.number, file.format, file.columns, before and before.columns)
            if look != quiet or dropped:
                contract, told = observed(
                    name, newest.contract, file, policies, types_of(before), rules(recorded)
                )
                if dropped:
                    contract = contract.model_copy(update={"dropped_at": contract.dropped_at | dropped})
                    told += [f"{file.key} no longer has column {column}" for column in dropped]
                quiet = None if told else look
                if told:
                    transition(name, newest.contract, contract, policies)
                    recorded = added(new_version(contract, file.offset, "; ".join(told), configured))
        if file.format == "parquet" and file.columns:
            before = file
    return recorded


def _with_what_files_brought(configured: Contract, newest: ContractVersion) -> Contract:
    """lake.yaml may be edited for another reason: columns, widths and NULLs that files have brought stay."""
    contract = configured
    for column in newest.contract.columns:
        before, now = newest.configured.column(column.name), configured.column(column.name)
        renamed_or_ignored = {*configured.renamed_from.values(), *configured.ignore}
        gone = now is None and before is None and column.name not in renamed_or_ignored
        if gone or (now is not None and now == before != column):
            contract = contract.with_column(column)
    today = {old: new for new, old in configured.renamed_from.items() if configured.column(old) is None}
    dropped = {today.get(name, name): at for name, at in newest.contract.dropped_at.items()}
    kept = {name: at for name, at in dropped.items() if contract.column(name) is not None}
    return contract.model_copy(update={"dropped_at": kept})
