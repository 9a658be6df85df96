"""Altering a silver table's columns to match a contract.

Here: executing the changes that `evolve.py` decides. Not here: deciding them; rows.

Uses Spark's ALTER TABLE, because PyIceberg does not write format v3. Each statement is a separate commit, visible on
main at once. So columns are added before the data that needs them, and dropped after the data without them is
published. Every step may be repeated: the table stores its contract version, and the next run completes the steps of a
run that was killed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from lake_assets.config import SchemaChanges
from lake_assets.errors import ApplyConflict, TableStopped
from lake_assets.iceberg.table_io import added_column, relaxed_column, set_property
from lake_assets.schema.contract import Contracts, is_unreadable
from lake_assets.schema.evolve import Kind, SchemaChange, transition
from lake_assets.spark.sql import Sql, sql
from lake_assets.spark.types import spark_type, stored_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION = "lake.contract-version"
"""Table property: the contract version of the table's columns."""
BY_ANOTHER_RUN = ("FIELD_ALREADY_EXISTS", "UNRESOLVED_COLUMN", "FIELD_NOT_FOUND")


@dataclass(frozen=True, slots=True)
class Step:
    """The changes from one contract version to the next."""

    version: int
    origin: str
    changes: tuple[SchemaChange, ...]

    @property
    def drops(self) -> tuple[SchemaChange, ...]:
        return tuple(change for change in self.changes if change.kind is Kind.DROP)


def steps(name: str, at_version: int, contracts: Contracts, policies: SchemaChanges) -> list[Step]:
    """The remaining steps of a table at that version, up to the newest of `contracts`. Raises TableStopped as
    `transition`."""
    found = []
    for place, (before, after) in enumerate(pairwise(contracts.versions), start=1):
        if after.number > at_version:
            kept = Contracts(contracts.versions[:place]).kept(drops=policies.dropped == "drop")
            names = {column.name for column in kept}
            changes = transition(name, before.contract, after.contract, policies, names)
            found.append(Step(after.number, after.origin, tuple(changes)))
    return found


def version_of(table: Table) -> int:
    """The contract version of the table's columns."""
    return int(table.properties.get(VERSION, "1"))


class SilverSchema:
    """Alters the columns of one silver table with Spark."""

    def __init__(self, spark: "SparkSession", address: Sql, table: Table, name: str) -> None:
        """`address` is the table's name in Spark; `name` the source's table, for messages."""
        self._spark = spark
        self._address = address
        self._name = name
        self._types = {field.name: str(field.field_type) for field in table.schema().fields}

    def add(self, todo: Sequence[Step], published: int = 0) -> None:
        """Makes every change except drops; drops a column only if a later step adds one of the same name. The table has
        rows of the contract version `published`: the steps up to it are already made, except drops."""
        for step in todo:
            later = _added_after([s for s in todo if s.version > published], step.version)
            for change in step.changes:
                if change.kind is not Kind.DROP:
                    if step.version > published:
                        self._make(change)
                elif change.column in later:
                    self._drop(change.column)
        for column in [name for name in self._types if is_unreadable(name)]:
            self._drop(column)  # before the batch: Spark cannot apply a batch to a table with such a column

    def finish(self, todo: Sequence[Step]) -> None:
        """Makes the drops, and stores the last step's version in the table."""
        for step in todo:
            later = _added_after(todo, step.version)
            for change in step.drops:
                if change.column not in later:
                    self._drop(change.column)
        if todo:
            self._alter(set_property(VERSION, str(todo[-1].version)))

    def _drop(self, column: str) -> None:
        if column in self._types:
            self._alter(sql("DROP COLUMN {column}", column=column))
            del self._types[column]

    def drop(self, columns: Iterable[str]) -> None:
        """Drops columns that no contract has."""
        for column in columns:
            self._drop(column)

    def _rename(self, old: str, new: str) -> None:
        self._alter(sql("RENAME COLUMN {old} TO {new}", old=old, new=new))
        self._types[new] = self._types.pop(old)

    def _make(self, change: SchemaChange) -> None:
        if change.kind is Kind.RENAME:
            assert change.old is not None
            if change.old in self._types and change.column not in self._types:
                self._rename(change.old, change.column)
        elif change.kind is Kind.ADD:
            assert change.new is not None
            if change.old is not None and change.old in self._types and change.column not in self._types:
                self._rename(
                    change.old, change.column
                )  # the source had dropped the column, and silver kept it
                self._widen(change.column, change.new)
            elif change.column not in self._types:
                self._alter(added_column(change.column, change.new))
                self._types[change.column] = stored_type(change.new)
            else:
                self._widen(change.column, change.new)
        elif change.kind is Kind.WIDEN:
            assert change.new is not None
            self._widen(change.column, change.new)
        elif change.kind is Kind.RELAX:
            self._alter(relaxed_column(change.column))

    def _widen(self, column: str, wanted: str) -> None:
        from pyspark.errors import AnalysisException

        if self._types[column] == stored_type(wanted):
            return
        try:
            self._alter(sql("ALTER COLUMN {column} TYPE {type}", column=column, type=spark_type(wanted)))
        except AnalysisException as error:
            raise TableStopped(
                self._name,
                f"column {column} cannot become {wanted}: silver has kept it as {self._types[column]}.",
                "Set the type back, or drop the silver table to have it rebuilt.",
            ) from error
        self._types[column] = stored_type(wanted)

    def _alter(self, change: Sql) -> None:
        from pyspark.errors import AnalysisException

        try:
            self._spark.sql(sql("ALTER TABLE {table} {change}", table=self._address, change=change))
        except AnalysisException as error:
            if any(name in str(error) for name in BY_ANOTHER_RUN):
                raise ApplyConflict(f"{self._name}: another run changes the table's columns") from error
            raise


def _added_after(todo: Sequence[Step], version: int) -> set[str]:
    return {c.column for step in todo if step.version > version for c in step.changes if c.kind is Kind.ADD}
