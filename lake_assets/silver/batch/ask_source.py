"""A batch whose files do not fit the contract, of a source whose database can be asked: if the source's columns explain
the files, a new version of the contract is recorded, and the batch is planned again.

Here: more fields in a CSV file without a header, and values that outgrew their type. Not here: new columns of files
that name theirs (`schema/evolve.py`), what the source's columns may mean (`schema/at_source.py`).
"""

from itertools import pairwise

from lake_assets.bronze.layouts.headerless import UnknownWidth, dated, has_no_header
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import FURTHER_SHAPES, Policy, TableName
from lake_assets.errors import ContractChanged, TableStopped
from lake_assets.schema.at_source import width_of
from lake_assets.schema.contract import Contract, Contracts, ContractVersion
from lake_assets.schema.contract_log import new_version
from lake_assets.schema.evolve import transition
from lake_assets.schema.names import naming, refuse_contract
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.changes.reading import Reading
from lake_assets.words import many

_MOST_ASKED = 20
"""Bad rows that are looked at for the first file that has one."""


def explain_width(context: BatchContext, unknown: UnknownWidth) -> None:
    """Raises ContractChanged if columns that were added at the source explain the file's number of fields, and
    TableStopped with the reason if they do not. Returns if the source cannot be asked, or the policies forbid it."""
    file, config = unknown.file, context.target.config
    at_source = context.runtime.at_source(context.target.source, context.target.table)
    recorded = context.runtime.contracts.of(context.target.identifier)
    contract = _newest(recorded).contract
    table = contract.table(config)
    # A file from before a layout that lake.yaml declares is the user's to explain.
    is_present = not table.era(file.written_at) and file.offset > context.position.log_offset
    if not at_source.is_known or not is_present or context.target.schema_changes.added is not Policy.EVOLVE:
        return
    why = f"{file.key} has {many(file.width or 0, 'field')} and no header, unlike the files before it"
    unnamed = dated(filter(has_no_header, context.logged), context.logged)
    known = [each for each in unnamed if not table.era(each.written_at)]
    changed = _of_other_shape(context, file, contract) or at_source.with_more(
        contract, config, file, known, why
    )
    added = [column.name for column in changed.columns if contract.column(column.name) is None]
    sentence = f"{file.key} adds {', '.join(added)}, by its number of fields and the source database"
    _record(context, recorded, changed, sentence)


def _of_other_shape(context: BatchContext, file: LoggedFile, contract: Contract) -> Contract | None:
    """What such a file has made of the same columns for another shape of the table: the source may have changed again
    since then. None if no other shape has come so far."""
    config, target = context.target.config, context.target
    own = config.name or TableName.parse(target.table).silver
    for name in (own, *(own + suffix for suffix in FURTHER_SHAPES.values())):
        versions = context.runtime.contracts.of(f"{target.namespace}.{name}").versions
        for before, after in pairwise(version.contract for version in versions):
            is_same = before.columns == contract.columns and before.earlier == contract.earlier
            if (
                is_same
                and after.columns != before.columns
                and width_of(after, config, file.kind) == file.width
            ):
                return contract.model_copy(update={"columns": after.columns, "earlier": after.earlier})
    return None


def explain_misfits(context: BatchContext, reading: Reading) -> None:
    """Raises ContractChanged if a row of the batch's new files is bad and the source has a wider type for a column.
    Raises TableStopped if the database cannot be read, or the policy is to stop. Returns otherwise."""
    policies = context.target.schema_changes
    at_source = context.runtime.at_source(context.target.source, context.target.table)
    if not at_source.is_known or policies.widened is Policy.IGNORE:
        return
    bad = (file for file, _ in reading.bad_rows(_MOST_ASKED) if file.offset > context.position.log_offset)
    if (file := next(bad, None)) is None:
        return
    why = f"{file.key} has a row that the table's columns cannot hold"
    recorded = context.runtime.contracts.of(context.target.identifier)
    contract = _newest(recorded).contract
    wider = at_source.widened(contract, why)
    if not wider:
        return
    sentence = f"{why}, and at the source {', '.join(f'{column.name} is {column.type}' for column in wider)}"
    if policies.widened is Policy.STOP:
        raise TableStopped(
            context.target.table,
            f"{sentence}.",
            "Declare the type in lake.yaml, or set schema_changes.widened to evolve.",
        )
    _record(context, recorded, contract.widened(wider), sentence)


def _newest(recorded: Contracts) -> ContractVersion:
    assert recorded.newest is not None, "the batch has a contract"
    return recorded.newest


def _record(context: BatchContext, recorded: Contracts, contract: Contract, sentence: str) -> None:
    """Adds the version for the table's pending files, unless another process has added one since `recorded` was read;
    then its contract counts."""
    target, newest = context.target, _newest(recorded)
    drops = target.schema_changes.dropped == "drop"
    kept = {column.name for column in recorded.kept(drops=drops)}
    transition(target.table, newest.contract, contract, target.schema_changes, kept)
    version = new_version(contract, context.position.log_offset + 1, sentence, newest.configured)
    shapes = (target.config.mode, *target.config.also)
    rules = naming(recorded.and_then(version), newest.configured, shapes, drops=drops)
    refuse_contract(target.table, sentence, contract, rules)
    context.runtime.contracts.add(target.identifier, recorded, version)
    raise ContractChanged(f"{target.identifier}: {sentence}.")
