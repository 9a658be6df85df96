"""Changes of a silver table's columns around a batch: adding columns before it, dropping columns after it.

Here: which contracts a batch needs, the order of those steps, and filling an added column with a default in existing
rows. Not here: which changes (`schema/evolve.py`), their statements (`schema/alter_columns.py`).
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyiceberg.table import Table

from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.iceberg.publish import attempt
from lake_assets.iceberg.table_io import changed_comments, create_table, load_table, set_property
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.alter_columns import VERSION, SilverSchema, Step, steps, version_of
from lake_assets.schema.contract import Contracts, contract_of
from lake_assets.schema.current import Add, contracts_of_batch
from lake_assets.schema.evolve import Kind, SchemaChange
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.table.guard import SOURCE_TABLE, source_table
from lake_assets.silver.table.position import Position, read_position
from lake_assets.silver.table.shape import SHAPE
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import Sql, sql


def batch_contracts(
    runtime: LakeRuntime,
    target: Target,
    recorded: Contracts,
    position: int,
    logged: Sequence[LoggedFile],
    files: Sequence[LoggedFile],
    add: Add,
) -> Contracts:
    """The contracts that a batch of `files` needs; `recorded` are those of the table, `position` is its log offset,
    `logged` are all files of the table. Raises as `contracts_of_batch`."""
    return contracts_of_batch(
        target.table,
        contract_of(target.config, target.dms),
        recorded,
        target.schema_changes,
        position,
        logged,
        [file for file in files if file.offset > position],
        add,
        (target.config.mode, *target.config.also),
        runtime.at_source(target.source, target.table),
        target.config.origin,
    )


@contextmanager
def evolved(context: BatchContext) -> Iterator[tuple[Position, tuple[str, ...]]]:
    """Creates the table, or changes its columns to the contract's; drops columns only after the block. Yields the
    table's position after that, and a sentence for each change. Raises TableStopped before it changes anything, and
    ApplyConflict when another run does the same."""
    target, table = context.target, context.table
    if table is None:
        table = _created(context)
    _note_source(context, table)
    _comment(context, table)
    todo = steps(target.table, version_of(table), context.contracts, target.schema_changes)
    schema = SilverSchema(context.spark, context.address, table, target.table)
    published = context.position.contract_version
    schema.drop(_split_names(target, context.contracts, table))
    schema.add(todo, published)
    position = _fill_defaults(context, [step for step in todo if step.version > published])
    yield position, tuple(str(change) for step in todo for change in step.changes)
    schema.finish(todo)


def _note_source(context: BatchContext, table: Table) -> None:
    """Sets the property with the source table's name on a table of an earlier version."""
    if SOURCE_TABLE not in table.properties:
        change = set_property(SOURCE_TABLE, source_table(context.target))
        context.spark.sql(sql("ALTER TABLE {table} {change}", table=context.address, change=change))


def _comment(context: BatchContext, table: Table) -> None:
    """Sets the comments of lake.yaml on columns that the table has with another one, or without."""
    for change in changed_comments(table, context.target.comments):
        context.spark.sql(sql("ALTER TABLE {table} {change}", table=context.address, change=change))


def _created(context: BatchContext) -> Table:
    runtime, target, contracts = context.runtime, context.target, context.contracts
    columns = target.created_with(contracts)
    version = contracts.versions[0].number
    names = {column.name for column in columns}
    if not all(names.intersection(re.findall(r"\w+", entry)) for entry in target.partition_by):
        # The table is partitioned by a column that the first files did not have, so it is created with today's columns.
        columns, version = target.columns, contracts.versions[-1].number
    properties = {
        VERSION: str(version),
        SHAPE: target.mode.value,
        SOURCE_TABLE: source_table(target),
    }
    create_table(
        context.spark,
        runtime.catalog,
        target.identifier,
        columns,
        runtime.lake.silver_version(target.config),
        target.partition_by,
        properties,
        target.comments,
    )
    table = load_table(runtime.catalog, target.identifier)
    assert table is not None, "it was just created"
    return table


def _split_names(target: Target, contracts: Contracts, table: Table) -> list[str]:
    """Columns that an earlier release, which did not quote names, created from a column with a backtick in its name."""
    names = [c.name for version in contracts.versions for c in version.contract.columns if "`" in c.name]
    pieces = {piece for name in names for piece in name.split("`")}
    own = {column.name for column in target.columns}
    return [name for name in table.schema().column_names if name in pieces - own]


def _fill_defaults(context: BatchContext, todo: list[Step]) -> Position:
    """Fills added columns that have a default, in existing rows, because Spark does not write Iceberg's own column
    defaults. The commit keeps the position. Rows of the new contract may have NULL there, but are not applied yet.
    Returns the position with the new snapshot."""
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
        head = position.snapshot_id
        for change in added:
            context.spark.sql(_update(current.address, change), args={"value": change.default})
            head = current.head_upon(context.runtime.catalog, head)
        current.publish_nothing(context.runtime.catalog, position.properties(), head)
    return read_position(load_table(context.runtime.catalog, identifier))


def _update(address: Sql, change: SchemaChange) -> Sql:
    return sql(
        "UPDATE {table} SET {column} = :value WHERE {column} IS NULL", table=address, column=change.column
    )
