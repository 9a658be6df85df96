"""A batch whose files do not fit the contract, of a source whose database can be asked: if the source's columns explain
the files, a new version of the contract is recorded, and the batch is planned again.

Here: the fields of a CSV file without a header, and values that outgrew their type. Not here: new columns of files that
name theirs (`schema/evolve.py`), what the source's columns may mean (`schema/at_source.py`).
"""

from lake_assets.bronze.layouts.headerless import UnknownWidth
from lake_assets.config import Policy
from lake_assets.errors import ContractChanged, TableStopped
from lake_assets.schema.contract import Contract, ContractVersion
from lake_assets.schema.contract_log import new_version
from lake_assets.schema.evolve import transition
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.write.batch_context import BatchContext
from lake_assets.words import many

_MOST_ASKED = 20
"""Bad rows that are looked at for the first file that has one."""


def explain_width(context: BatchContext, unknown: UnknownWidth) -> None:
    """Raises ContractChanged if the source's columns explain the file's number of fields, and TableStopped with the
    reason if they do not. Returns if the source cannot be asked, or the policies forbid a change."""
    file, policies = unknown.file, context.target.schema_changes
    at_source = context.runtime.at_source(context.target.source, context.target.table)
    newest = _newest(context)
    # A file from before a layout that lake.yaml declares is the user's to explain.
    is_present = not newest.contract.table(context.target.config).era(file.written_at)
    asked = at_source.is_known and is_present and file.offset > context.position.log_offset
    if not asked or Policy.STOP in (policies.added, policies.dropped) or policies.added is Policy.IGNORE:
        return
    why = f"{file.key} has {many(file.width or 0, 'field')} and no header, unlike the files before it"
    contract = at_source.with_width(newest.contract, context.target.config, file, why)
    before, after = ([column.name for column in each.columns] for each in (newest.contract, contract))
    changes = [f"adds column {name}" for name in after if name not in before]
    changes += [f"no longer has column {name}" for name in before if name not in after]
    sentence = f"{file.key} {', '.join(changes)}, by its number of fields and the source database"
    _record(context, newest, contract, max(file.offset, newest.from_offset), sentence)


def explain_misfits(context: BatchContext, reading: Reading) -> None:
    """Raises ContractChanged if a row of the batch's new files is bad and the source has a wider type for a column.
    Raises TableStopped if the database cannot be read, or the policy is to stop. Returns otherwise."""
    policies = context.target.schema_changes
    at_source = context.runtime.at_source(context.target.source, context.target.table)
    if not at_source.is_known or policies.widened is Policy.IGNORE:
        return
    known = {(one.key, one.version) for one in context.held()}
    new = [
        file
        for file, _ in reading.bad_rows(_MOST_ASKED)
        if file.offset > context.position.log_offset and (file.key, file.version) not in known
    ]
    if not new:
        return
    why = f"{new[0].key} has a row that the table's columns cannot hold"
    newest = _newest(context)
    wider = at_source.widened(newest.contract, why)
    if not wider:
        return
    pairs = [f"{column.name} is {column.type}" for column in wider]
    if policies.widened is Policy.STOP:
        raise TableStopped(
            context.target.table,
            f"{why}, and at the source {', '.join(pairs)}.",
            "Declare the type in lake.yaml, or set schema_changes.widened to evolve.",
        )
    contract = newest.contract.widened(wider)
    sentence = f"{why}, and at the source {', '.join(pairs)}"
    _record(context, newest, contract, context.position.log_offset + 1, sentence)


def _newest(context: BatchContext) -> ContractVersion:
    newest = context.runtime.contracts.of(context.target.identifier).newest
    assert newest is not None, "the batch has a contract"
    return newest


def _record(
    context: BatchContext, newest: ContractVersion, contract: Contract, from_offset: int, sentence: str
) -> None:
    transition(context.target.table, newest.contract, contract, context.target.schema_changes)
    log, identifier = context.runtime.contracts, context.target.identifier
    log.add(identifier, log.of(identifier), new_version(contract, from_offset, sentence, newest.configured))
    raise ContractChanged(f"{identifier}: {sentence}.")
