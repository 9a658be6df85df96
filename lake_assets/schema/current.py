"""The contract versions of one silver table for a batch: the recorded ones, changes of lake.yaml, and columns of the
batch's files.

Here: when a new version begins. Not here: the effect of a difference (`evolve.py`), rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import Mode, SchemaChanges
from lake_assets.schema.at_source import AtSource
from lake_assets.schema.contract import Contract, Contracts, ContractVersion, left_to_source
from lake_assets.schema.contract_log import new_version
from lake_assets.schema.dropped import first_seen, newly_dropped
from lake_assets.schema.evolve import announced_types, observed, transition, types_of
from lake_assets.schema.names import Naming, naming, refuse_contract, without_unusable_columns

Add = Callable[[Contracts, ContractVersion], Contracts]
"""Records a version, unless another run has recorded one meanwhile; returns the present versions."""
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
    at_source: AtSource | None = None,
    origin: str = BY_CONFIG,
) -> Contracts:
    """Every version that the batch needs, newest last.

    `position` is the table's log offset, `logged` all its files, `pending` those of the batch above the position,
    `shapes` its mode and what `also` names, `at_source` states the types of columns that text files add,
    `origin` says where `configured` comes from.
    Raises TableStopped for a change that the policies or Iceberg refuse; then no version is recorded for it.
    """
    versions = _Versions(name, configured, policies, shapes, add, recorded, at_source, origin)
    versions.start(position)
    due = {file.offset for file in pending}
    seen, announced = first_seen(logged), announced_types(logged)
    before: LoggedFile | None = None
    unchanged = None
    for file in sorted(logged, key=lambda file: file.offset):
        if file.retry:
            continue  # its columns were already handled when the file was new
        if file.offset in due:
            newest = versions.recorded.at(file.offset)
            # Thousands of files in sequence have the same layout: if the first did not change the contract, none does.
            dropped = newly_dropped(newest.contract, file, seen, policies)
            layout = (newest.number, file.format, file.columns, before and before.columns)
            if layout != unchanged or dropped:
                news = versions.take(file, newest, before, dropped, announced)
                unchanged = None if news else layout
        if file.format == "parquet" and file.columns:
            before = file
    return versions.recorded


@dataclass(slots=True)
class _Versions:
    """The versions of one table's contract, while a batch adds to them."""

    name: str
    configured: Contract
    policies: SchemaChanges
    shapes: Sequence[Mode]
    add: Add
    recorded: Contracts
    at_source: AtSource | None
    origin: str

    def start(self, position: int) -> None:
        """Adds a version if lake.yaml has changed."""
        self.recorded = self._usable(self.recorded)
        newest = self.recorded.newest
        if newest is not None and self.is_left_to_source:
            self._take_columns(newest.contract)
        if newest is None:
            self._record(new_version(self.configured, 1, self.origin, self.configured))
        elif newest.configured != self.configured:
            contract = _with_what_files_brought(self.configured, newest)
            transition(self.name, newest.contract, contract, self.policies)
            version = new_version(contract, position + 1, self.origin, self.configured)
            refuse_contract(self.name, self.origin, contract, self._rules(self.recorded.and_then(version)))
            self._record(version)
        else:
            refuse_contract(self.name, newest.origin, newest.contract, self._rules(self.recorded))

    def take(
        self,
        file: LoggedFile,
        newest: ContractVersion,
        before: LoggedFile | None,
        dropped: dict[str, datetime],
        announced: Mapping[str, str],
    ) -> bool:
        """Adds a version if the file's columns change the contract, and returns whether they do. `before`: the newest
        earlier Parquet file; `dropped`: see `newly_dropped`; `announced`: see `observed`."""
        contract, sentences = observed(
            self.name,
            newest.contract,
            file,
            self.policies,
            types_of(before),
            self._rules(self.recorded),
            announced,
            self.at_source,
        )
        if dropped:
            contract = contract.model_copy(update={"dropped_at": contract.dropped_at | dropped})
            sentences += [f"{file.key} no longer has column {column}" for column in dropped]
        if sentences:
            transition(self.name, newest.contract, contract, self.policies)
            if self.is_left_to_source:
                self._take_columns(contract)
            self._record(new_version(contract, file.offset, "; ".join(sentences), self.configured))
        return bool(sentences)

    @property
    def is_left_to_source(self) -> bool:
        return self.origin != BY_CONFIG

    def _take_columns(self, contract: Contract) -> None:
        """Another process may have opened the lake when the source had other columns: the contract decides."""
        own = self.configured
        columns, key = left_to_source(self.name, contract, own.ignore, own.renamed_from)
        self.configured = own.model_copy(update={"columns": columns, "primary_key": key or own.primary_key})

    def _record(self, version: ContractVersion) -> None:
        self.recorded = self._usable(self.add(self.recorded, version))

    def _usable(self, contracts: Contracts) -> Contracts:
        return without_unusable_columns(contracts, self.shapes, drops=self.policies.dropped == "drop")

    def _rules(self, known: Contracts) -> Naming:
        return naming(known, self.configured, self.shapes, drops=self.policies.dropped == "drop")


def _with_what_files_brought(configured: Contract, newest: ContractVersion) -> Contract:
    """The configured contract with the columns, types, NULLs and earlier layouts that files have added: lake.yaml may
    have been edited for another reason."""
    contract = configured
    for column in newest.contract.columns:
        before, now = newest.configured.column(column.name), configured.column(column.name)
        renamed_or_ignored = {*configured.renamed_from.values(), *configured.ignore}
        gone = now is None and before is None and column.name not in renamed_or_ignored
        if gone or (now is not None and now == before != column):
            contract = contract.with_column(column)
    if configured.earlier == newest.configured.earlier:
        contract = contract.model_copy(update={"earlier": newest.contract.earlier})
    today = {old: new for new, old in configured.renamed_from.items() if configured.column(old) is None}
    dropped = {today.get(name, name): at for name, at in newest.contract.dropped_at.items()}
    kept = {name: at for name, at in dropped.items() if contract.column(name) is not None}
    return contract.model_copy(update={"dropped_at": kept})
