"""What a difference between two versions of a contract does to silver, and what a file's columns do to the contract.

Here: the decisions, by policy. Not here: carrying them out (`silver_schema.py`). Pure.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from lake_assets.bronze.files.formats import added_names
from lake_assets.bronze.files.parquet_columns import parquet_columns
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import Column, Policy, SchemaChanges
from lake_assets.config.spelling import listed
from lake_assets.errors import TableStopped
from lake_assets.schema.contract import Contract, is_unreadable
from lake_assets.schema.names import NO_RULES, Naming, refuse_names
from lake_assets.schema.promotion import holds, lake_type, widens
from lake_assets.spark.types import stored_type


class Kind(StrEnum):
    """Of a change of silver's columns."""

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
    """From one version's columns to the next one's, in the order in which they are made.

    `name` is the table, for messages; `kept` are columns that silver has beside those of `before`. Raises TableStopped,
    before anything is written, for a change of the key and for a type that does not hold what the old one held.
    """
    found: list[SchemaChange] = []
    renamed = {
        old: new
        for new, old in after.renamed_from.items()
        if before.column(old) is not None and before.column(new) is None and after.column(new) is not None
    }
    found += [SchemaChange(Kind.RENAME, new, old=old) for old, new in renamed.items()]
    key = tuple(renamed.get(column, column) for column in before.primary_key)
    if key != after.primary_key:
        raise TableStopped(
            name,
            f"its primary key changed from ({', '.join(before.primary_key)}) to ({', '.join(after.primary_key)}).",
            "Rows of two keys cannot be distinguished: drop the silver table to have it rebuilt, or set it back.",
        )
    held = {renamed.get(column.name, column.name): column for column in before.columns}
    dropped = {renamed.get(name, name) for name in before.dropped_at}
    for column in after.columns:
        if (old := held.get(column.name)) is None:
            default, former = after.defaults.get(column.name), after.renamed_from.get(column.name)
            own = former if former in kept else None
            found.append(SchemaChange(Kind.ADD, column.name, own, column.type, default))
            continue
        if stored_type(old.type) != stored_type(column.type):
            if not widens(old.type, column.type):
                raise TableStopped(
                    name,
                    f"column {column.name} cannot become {column.type}: it is {old.type}.",
                    "Set the type back, or drop the silver table to have it rebuilt.",
                )
            found.append(SchemaChange(Kind.WIDEN, column.name, old=old.type, new=column.type))
        if old.required and not column.required:
            found.append(SchemaChange(Kind.RELAX, column.name))
        if column.name in after.dropped_at and column.name not in dropped:
            found.append(SchemaChange(Kind.KEEP, column.name))
    for column_name in held:
        drops = policies.dropped == "drop" or is_unreadable(column_name)
        if after.column(column_name) is None and (drops or column_name not in dropped):
            found.append(SchemaChange(Kind.DROP if drops else Kind.KEEP, column_name))
    return found


def observed(
    name: str,
    contract: Contract,
    file: LoggedFile,
    policies: SchemaChanges,
    previous: Mapping[str, str],
    rules: Naming = NO_RULES,
) -> tuple[Contract, list[str]]:
    """The contract with what the file's own columns change about it, and a sentence for each change.

    `previous` are the lake types of the columns of the newest earlier Parquet file. Raises TableStopped where the
    policy is to stop, a type is incompatible, silver cannot have a column of the name (by `rules`), or a CSV header
    names a column that nothing gives a type.
    """
    if file.columns is None or len(set(file.columns)) < len(file.columns):
        return contract, []  # what the reader refuses need not be understood
    found = file_types(file)
    told = []
    named = {old: new for new, old in contract.renamed_from.items() if new not in found}
    known = set(contract.ignore)
    for dms in contract.all_settings:
        known |= added_names(contract.columns, dms)
        if dms.before_image_prefix is not None:
            # Also of columns that the contract does not have yet, or under another name.
            known |= {f"{dms.before_image_prefix}{column}" for column in found}
    stops: list[TableStopped] = []
    strange = {
        column: lake_type(arrow or "") or "string"
        for column, arrow in found.items()
        if contract.column(named.get(column, column)) is None and column not in known
    }
    if policies.added is not Policy.IGNORE:
        try:
            refuse_names(name, file.key, strange, contract, rules, found)
        except TableStopped as stop:
            stops.append(stop)
            known |= strange.keys()
    for column, arrow in found.items():
        own = contract.column(named.get(column, column))
        try:
            if own is None:
                if column in known or policies.added is Policy.IGNORE:
                    continue
                contract, sentence = _added(name, contract, file, column, arrow, policies)
                told.append(sentence)
            elif arrow is not None:
                widened = _type_of(name, own, file, arrow, policies, previous.get(column))
                if widened is not None:
                    told.append(f"{file.key} widens column {own.name} from {own.type} to {widened.type}")
                    contract = contract.with_column(widened)
        except TableStopped as stop:
            stops.append(stop)
    # An object of JSON lines leaves out what is NULL.
    for own in contract.columns if file.format != "json" else ():
        if own.name not in found and named_in(contract, own.name) not in found:
            try:
                relaxed = _missing(name, contract, own, file, policies)
            except TableStopped as stop:
                stops.append(stop)
                continue
            if relaxed is not None:
                told.append(f"{file.key} has no column {own.name}, which may be NULL from now on")
                contract = contract.with_column(relaxed)
    if stops:
        raise TableStopped.of_all(stops)
    return contract, told


def named_in(contract: Contract, column: str) -> str | None:
    """What the column was called before it was renamed."""
    return contract.renamed_from.get(column)


def file_types(file: LoggedFile) -> dict[str, str | None]:
    """The file's columns; with Arrow's names of their types for Parquet, with None for text."""
    if file.format != "parquet":
        return dict.fromkeys(file.columns or ())
    return {column.name: column.arrow for column in parquet_columns(file.columns or ())}


def types_of(file: LoggedFile | None) -> dict[str, str]:
    """The lake types of a Parquet file's columns; none without a file."""
    types = file_types(file) if file is not None else {}
    return {column: kind for column, arrow in types.items() if (kind := lake_type(arrow or "")) is not None}


def _added(
    name: str, contract: Contract, file: LoggedFile, column: str, arrow: str | None, policies: SchemaChanges
) -> tuple[Contract, str]:
    if policies.added is Policy.STOP:
        raise TableStopped(
            name,
            f"{file.key} has the column {column}, which lake.yaml does not know.",
            f"Add it to the table's columns, set schema_changes to evolve, or say `ignore: {listed([column])}` for the "
            "table.",
        )
    if arrow is None:
        raise TableStopped(
            name,
            f"{file.key} has the column {column}, and a text file does not state its type.",
            f"Add it to the table's columns with its type, or say `ignore: {listed([column])}` for the table.",
        )
    kind = lake_type(arrow)
    if kind is None:
        raise TableStopped(
            name,
            f"{file.key} has the column {column} of type {arrow}, which no column of silver can be.",
            f"Remove it from the DMS task's mapping, or say `ignore: {listed([column])}` for the table.",
        )
    return contract.with_column(Column(name=column, type=kind)), f"{file.key} adds column {column} {kind}"


def _type_of(
    name: str, own: Column, file: LoggedFile, arrow: str, policies: SchemaChanges, before: str | None
) -> Column | None:
    """The column as the file needs it, None if it is wide enough."""
    kind = lake_type(arrow)
    if kind is None or kind == before or holds(own.type, kind):
        return None
    if widens(own.type, kind):
        if policies.widened is Policy.STOP:
            raise TableStopped(
                name,
                f"{file.key} has column {own.name} as {kind}, and it is {own.type}.",
                f"Declare it as {kind}, or set schema_changes.widened to evolve.",
            )
        return own.model_copy(update={"type": kind}) if policies.widened is Policy.EVOLVE else None
    if before is not None and not holds(before, kind) and not holds(kind, before):
        raise TableStopped(
            name,
            f"{file.key} has column {own.name} as {kind}; it was {before} in the files before, and is {own.type}.",
            "No type holds both: drop the silver table and declare the new type to have it rebuilt, or have the "
            "source's column set back.",
        )
    return None


def _missing(
    name: str, contract: Contract, own: Column, file: LoggedFile, policies: SchemaChanges
) -> Column | None:
    """The column without its NOT NULL, None if it has none."""
    if own.name in contract.primary_key:
        raise TableStopped(
            name,
            f"{file.key} lacks {own.name}, which is part of the primary key.",
            "Have DMS write it, or correct primary_key in lake.yaml.",
        )
    if policies.dropped is Policy.STOP:
        raise TableStopped(
            name,
            f"{file.key} lacks the column {own.name}, which lake.yaml expects.",
            "Remove it from the table's columns, or set schema_changes.dropped to evolve.",
        )
    return own.model_copy(update={"required": False}) if own.required else None
