"""The effect of a difference between two contract versions on silver, and of a file's columns on the contract.

Here: the decisions, by policy. Not here: carrying them out (`alter_columns.py`). Pure.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from lake_assets.bronze.files.formats import added_names
from lake_assets.bronze.files.parquet_columns import parquet_columns
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import Column, Policy, SchemaChanges
from lake_assets.errors import TableStopped
from lake_assets.schema.at_source import AtSource
from lake_assets.schema.contract import Contract, is_unreadable
from lake_assets.schema.names import NO_RULES, Naming, refuse_names
from lake_assets.schema.promotion import holds, is_read_as, lake_type, widens
from lake_assets.schema.spelling import listed
from lake_assets.spark.types import stored_type


class Kind(StrEnum):
    """The kind of a change of silver's columns."""

    RENAME = "rename"
    ADD = "add"
    WIDEN = "widen"
    RELAX = "relax"
    KEEP = "keep"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One change of one column of a silver table."""

    kind: Kind
    column: str
    old: str | None = None
    """Its name or its type before."""
    new: str | None = None
    """Its type from now on."""
    default: str | int | float | bool | None = None

    def __str__(self) -> str:
        default = "" if self.default is None else f" default {self.default!r}"
        return {
            Kind.RENAME: f"rename column {self.old} to {self.column}",
            Kind.ADD: f"add column {self.column} {self.new}{default}",
            Kind.WIDEN: f"widen column {self.column} from {self.old} to {self.new}",
            Kind.RELAX: f"let column {self.column} be NULL",
            Kind.KEEP: f"keep column {self.column}, NULL from now on",
            Kind.DROP: f"drop column {self.column}",
        }[self.kind]


def transition(
    name: str,
    before: Contract,
    after: Contract,
    policies: SchemaChanges,
    kept: Collection[str] = (),
) -> list[SchemaChange]:
    """The changes from one version's columns to the next one's, in the order of execution.

    `name` is the table, for messages; `kept` are columns that silver has in addition to `before`. Raises TableStopped,
    before anything is written, for a change of the key and for a type that cannot hold every value of the old one.
    """
    renamed = {
        old: new
        for new, old in after.renamed_from.items()
        if before.column(old) is not None and before.column(new) is None and after.column(new) is not None
    }
    _refuse_another_key(name, tuple(renamed.get(c, c) for c in before.primary_key), before, after)
    found = [SchemaChange(Kind.RENAME, new, old=old) for old, new in renamed.items()]
    held = {renamed.get(column.name, column.name): column for column in before.columns}
    dropped = {renamed.get(column, column) for column in before.dropped_at}
    for column in after.columns:
        if (old := held.get(column.name)) is None:
            default, former = after.defaults.get(column.name), after.renamed_from.get(column.name)
            own = former if former in kept else None
            found.append(SchemaChange(Kind.ADD, column.name, own, column.type, default))
            continue
        if stored_type(old.type) != stored_type(column.type):
            found.append(_widening(name, old, column))
        if old.required and not column.required:
            found.append(SchemaChange(Kind.RELAX, column.name))
        if column.name in after.dropped_at and column.name not in dropped:
            found.append(SchemaChange(Kind.KEEP, column.name))
    for column_name, old in held.items():
        drops = policies.dropped == "drop" or is_unreadable(column_name)
        if after.column(column_name) is not None:
            continue
        if old.required and not drops:
            found.append(SchemaChange(Kind.RELAX, column_name))
        if drops or column_name not in dropped:
            found.append(SchemaChange(Kind.DROP if drops else Kind.KEEP, column_name))
    return found


def _refuse_another_key(name: str, key: tuple[str, ...], before: Contract, after: Contract) -> None:
    """`key`: that of `before`, with the columns' present names."""
    if key != after.primary_key:
        raise TableStopped(
            name,
            f"its primary key changed from ({', '.join(before.primary_key)}) to ({', '.join(after.primary_key)}).",
            "Rows of two keys cannot be distinguished: drop the silver table to have it rebuilt, or set it back.",
        )


def _widening(name: str, old: Column, column: Column) -> SchemaChange:
    if not widens(old.type, column.type):
        raise TableStopped(
            name,
            f"column {column.name} cannot become {column.type}: it is {old.type}.",
            "Set the type back, or drop the silver table to have it rebuilt.",
        )
    return SchemaChange(Kind.WIDEN, column.name, old=old.type, new=column.type)


def observed(
    name: str,
    contract: Contract,
    file: LoggedFile,
    policies: SchemaChanges,
    previous: Mapping[str, str],
    rules: Naming = NO_RULES,
    announced: Mapping[str, str] = MappingProxyType({}),
    at_source: AtSource | None = None,
) -> tuple[Contract, list[str]]:
    """The contract with the changes by the file's columns, and a sentence for each change.

    `previous`: by column, the lake types of the newest earlier Parquet file. `announced`: by column, Arrow's name of
    the type that any Parquet file of the table has, for the columns of text files; without one, `at_source` states
    it. Raises TableStopped if the policy is to stop, a type is incompatible, the `rules` forbid a column's name in
    silver, or a CSV header names a column whose type is unknown.
    """
    if file.columns is None or len(set(file.columns)) < len(file.columns):
        return contract, []  # the reader refuses such a file
    found = file_types(file)
    named = {old: new for new, old in contract.renamed_from.items() if new not in found}
    seen = _Observation(name, contract, file, policies, at_source or AtSource(name))
    to_add = seen.new_columns(found, named, rules)
    for column, arrow in found.items():
        own = seen.contract.column(named.get(column, column))
        if own is None and column in to_add:
            seen.make(seen.added, column, arrow or announced.get(column))
        elif own is not None and arrow is not None:
            seen.make(seen.widened, own, arrow, previous.get(column))
    # An object in JSON lines omits keys that are NULL.
    for own in seen.contract.columns if file.format != "json" else ():
        if own.name not in found and contract.renamed_from.get(own.name) not in found:
            seen.make(seen.relaxed, own)
    if seen.stops:
        raise TableStopped.of_all(seen.stops)
    return seen.contract, seen.sentences


def file_types(file: LoggedFile) -> dict[str, str | None]:
    """The file's columns, with Arrow's names of their types; None for text files."""
    if file.format != "parquet":
        return dict.fromkeys(file.columns or ())
    return {column.name: column.arrow for column in parquet_columns(file.columns or ())}


def announced_types(files: Iterable[LoggedFile]) -> dict[str, str]:
    """By column, Arrow's name of its type in the newest Parquet file that has it."""
    layouts = dict.fromkeys(file.columns for file in files if file.format == "parquet" and file.columns)
    return {column.name: column.arrow for columns in layouts for column in parquet_columns(columns)}


def types_of(file: LoggedFile | None) -> dict[str, str]:
    """The lake types of a Parquet file's columns; none without a file."""
    types = file_types(file) if file is not None else {}
    return {column: kind for column, arrow in types.items() if (kind := lake_type(arrow or "")) is not None}


_Change = tuple[Column, str] | None
"""The new column of the contract, and a sentence about it; None without a change."""


@dataclass(slots=True)
class _Observation:
    """Compares the columns of a file with a contract."""

    name: str
    contract: Contract
    """With the changes made so far."""
    file: LoggedFile
    policies: SchemaChanges
    at_source: AtSource
    sentences: list[str] = field(default_factory=list)
    stops: list[TableStopped] = field(default_factory=list)

    def make(self, change: Callable[..., _Change], *given: Any) -> None:
        """Makes a change, or records why the table stops."""
        try:
            made = change(*given)
        except TableStopped as stop:
            self.stops.append(stop)
            return
        if made is not None:
            self.contract = self.contract.with_column(made[0])
            self.sentences.append(made[1])

    def new_columns(
        self, found: Mapping[str, str | None], named: Mapping[str, str], rules: Naming
    ) -> Collection[str]:
        """The columns to add to the contract; none if silver cannot have them all."""
        if self.policies.added is Policy.IGNORE:
            return ()
        known = set(self.contract.ignore)
        for dms in self.contract.all_settings:
            known |= added_names(self.contract.columns, dms)
            if dms.before_image_prefix is not None:
                # Also before images of columns that the contract lacks, or has under another name.
                known |= {f"{dms.before_image_prefix}{column}" for column in found}
        strange = {
            column: lake_type(arrow or "") or "string"
            for column, arrow in found.items()
            if self.contract.column(named.get(column, column)) is None and column not in known
        }
        try:
            refuse_names(self.name, self.file.key, strange, self.contract, rules, found)
        except TableStopped as stop:
            self.stops.append(stop)
            return ()
        return strange

    def added(self, column: str, arrow: str | None) -> _Change:
        """Adds a column with the type in the file."""
        has = f"{self.file.key} has the column {column}"
        leave_out = f"say `ignore: {listed([column])}` for the table."
        if self.policies.added is Policy.STOP:
            raise TableStopped(
                self.name,
                f"{has}, which lake.yaml does not know.",
                f"Add it to the table's columns, set schema_changes to evolve, or {leave_out}",
            )
        if arrow is None and self.at_source.is_known:
            found = self.at_source.column(column, has).model_copy(update={"name": column})
            return found, f"{self.file.key} adds column {column} {found.type}, as the source database has it"
        if arrow is None:
            raise TableStopped(
                self.name,
                f"{has}, and a text file does not state its type.",
                f"Add it to the table's columns with its type, or {leave_out}",
            )
        if (kind := lake_type(arrow)) is None:
            raise TableStopped(
                self.name,
                f"{has} of type {arrow}, which no column of silver can have.",
                f"Remove it from the DMS task's mapping, or {leave_out}",
            )
        return Column(name=column, type=kind), f"{self.file.key} adds column {column} {kind}"

    def widened(self, own: Column, arrow: str, before: str | None) -> _Change:
        """Widens a column to the type in the file. `before`: its type in the earlier files."""
        kind = lake_type(arrow)
        if kind is None or kind == before or is_read_as(own.type, kind):
            return None
        if not widens(own.type, kind):
            if before is not None and not holds(before, kind) and not holds(kind, before):
                raise TableStopped(
                    self.name,
                    f"{self.file.key} has column {own.name} as {kind}; it was {before} in earlier files, and is "
                    f"{own.type}.",
                    "No type holds both: drop the silver table and declare the new type to have it rebuilt, or set the "
                    "source's column back.",
                )
            return None
        if self.policies.widened is Policy.STOP:
            raise TableStopped(
                self.name,
                f"{self.file.key} has column {own.name} as {kind}, and the contract has {own.type}.",
                f"Declare it as {kind}, or set schema_changes.widened to evolve.",
            )
        if self.policies.widened is not Policy.EVOLVE:
            return None
        sentence = f"{self.file.key} widens column {own.name} from {own.type} to {kind}"
        return own.model_copy(update={"type": kind}), sentence

    def relaxed(self, own: Column) -> _Change:
        """Removes the NOT NULL of a column that the file lacks."""
        if own.name in self.contract.primary_key:
            raise TableStopped(
                self.name,
                f"{self.file.key} lacks {own.name}, which is part of the primary key.",
                "Have DMS write it, or correct primary_key in lake.yaml.",
            )
        if self.policies.dropped is Policy.STOP:
            raise TableStopped(
                self.name,
                f"{self.file.key} lacks the column {own.name}, which lake.yaml expects.",
                "Remove it from the table's columns, or set schema_changes.dropped to evolve.",
            )
        if not own.required:
            return None
        sentence = f"{self.file.key} has no column {own.name}, which may be NULL from now on"
        return own.model_copy(update={"required": False}), sentence
