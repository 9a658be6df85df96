"""A silver table's columns around a batch: what the batch's rows need before it, what they have left behind after it.

Here: which contracts a batch needs, the order of those steps, and the rows that were there before an added column with
a default. Not here: what is to be done (`schema/evolve.py`), how (`schema/silver_schema.py`).
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyiceberg.table import Table

from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.iceberg.publish import attempt, with_properties
from lake_assets.iceberg.table_io import create_table, load_table, set_property
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.contract import Contracts, contract_of
from lake_assets.schema.current import Add, contracts_of_batch
from lake_assets.schema.evolve import Kind, SchemaChange
from lake_assets.schema.silver_schema import VERSION, SilverSchema, Step, steps, version_of
from lake_assets.silver.table.guard import SOURCE_TABLE, source_table
from lake_assets.silver.table.position import Position, read_position
from lake_assets.silver.table.shape import SHAPE
from lake_assets.silver.table.targets import Target
from lake_assets.silver.write.batch_context import BatchContext
from lake_assets.spark.sql import Sql, sql


def batch_contracts(
    runtime: LakeRuntime,
    target: Target,
    position: Position,
    logged: Sequence[LoggedFile],
    files: Sequence[LoggedFile],
    add: Add,
) -> Contracts:
    """The contracts that a batch of `files` needs; `logged` are all files of the table. Raises as
    `contracts_of_batch`."""
    return contracts_of_batch(
        target.table,
        contract_of(target.config, target.dms),
        runtime.contracts.of(target.identifier),
        target.schema_changes,
        position.log_offset,
        logged,
        [file for file in files if file.offset > position.log_offset],
        add,
        (target.config.mode, *target.config.also),
    )


@contextmanager
def evolved(context: BatchContext) -> Iterator[tuple[Position, tuple[str, ...]]]:
    """Creates the table, or brings it to the contract, drops excepted; after the block, drops. Gives the position of
    the table as it is then, and what changes, a sentence each. Raises TableStopped before anything is changed, and
    ApplyConflict for another run that does the same."""
    target, table = context.target, context.table
    if table is None:
        table = _created(context)
    _note_source(context, table)
    todo = steps(target.table, version_of(table), context.contracts, target.schema_changes)
    schema = SilverSchema(context.spark, context.address, table, target.table)
    published = context.position.contract_version
    schema.drop(_torn_off(target, context.contracts, table))
    schema.add(todo, published)
    position = _fill_defaults(context, [step for step in todo if step.version > published])
    yield position, tuple(str(change) for step in todo for change in step.changes)
    schema.finish(todo)


def _note_source(context: BatchContext, table: Table) -> None:
    """Gives a table of an earlier version the property that says whose rows it has."""
    if SOURCE_TABLE not in table.properties:
        change = set_property(SOURCE_TABLE, source_table(context.target))
        context.spark.sql(sql("ALTER TABLE {table} {change}", table=context.address, change=change))


def _created(context: BatchContext) -> Table:
    runtime, target, contracts = context.runtime, context.target, context.contracts
    columns = target.created_with(contracts)
    version = contracts.versions[0].number
    names = {column.name for column in columns}
    if not all(names.intersection(re.findall(r"\w+", entry)) for entry in target.partition_by):
        # Partitioned by a column that the first files did not have: it begins as it is today.
        columns, version = target.columns, contracts.versions[-1].number
    properties = {
        "format-version": str(target.config.format_version),
        VERSION: str(version),
        SHAPE: target.mode.value,
        SOURCE_TABLE: source_table(target),
    }
    create_table(context.spark, runtime.catalog, target.identifier, columns, target.partition_by, properties)
    table = load_table(runtime.catalog, target.identifier)
    assert table is not None, "it was just created"
    return table


def _torn_off(target: Target, contracts: Contracts, table: Table) -> list[str]:
    """Columns that an earlier release made of one whose name has a backtick in it: it did not quote names."""
    names = [c.name for version in contracts.versions for c in version.contract.columns if "`" in c.name]
    pieces = {piece for name in names for piece in name.split("`")}
    own = {column.name for column in target.columns}
    return [name for name in table.schema().column_names if name in pieces - own]


def _fill_defaults(context: BatchContext, todo: list[Step]) -> Position:
    """Spark does not write Iceberg's own column defaults: the rows that are there get theirs, in a commit of their own
    that leaves the position where it is. Rows of this contract, which may say NULL, are not there yet. Gives the
    position with the new snapshot."""
    position = context.position
    added = [
        change
        for step in todo
        for change in step.changes
        if change.kind is Kind.ADD and change.default is not None
    ]
    if not added or position.snapshot_id is None or not position.rows:
        return position
    catalog, identifier = context.runtime.lake.catalog.name, context.target.identifier
    with attempt(context.spark, catalog, identifier, position.snapshot_id) as current:
        for change in added:
            context.spark.sql(_update(current.address, change), args={"value": change.default})
        writer = context.main.limit(0).writeTo(current.address)
        with_properties(writer, position.properties()).append()
        current.publish()
    return read_position(load_table(context.runtime.catalog, identifier))


def _update(address: Sql, change: SchemaChange) -> Sql:
    return sql(
        "UPDATE {table} SET {column} = :value WHERE {column} IS NULL", table=address, column=change.column
    )
