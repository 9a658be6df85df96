"""The rule that a table's columns and key are those of its table in the source database.

Here: which differences count. Not here: reading the source's columns (`storage/reflection/reflect.py`), changes of
columns that the files show (`schema/evolve.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lake_assets.checks.data_check import Outcome, Rule
from lake_assets.config import Column
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.promotion import holds
from lake_assets.silver.table.targets import Target
from lake_assets.words import many

if TYPE_CHECKING:
    from lake_assets.storage.reflection.reflect import SourceColumn, SourceTable


def same_columns(target: Target) -> Rule:
    """The columns, their types, NOT NULL and the key fit the source's table. The contract of the newest files counts;
    lake.yaml counts only without one, and for the key. These are no differences: a wider type, text instead of another
    type, a column that may be NULL only in the contract, and columns that lake.yaml ignores."""

    def rule(runtime: LakeRuntime, earlier: Sequence[float]) -> Outcome:
        read = runtime.at_source(target.source, target.table).read
        assert read is not None, "the check exists only with an address"
        if (found := read()) is None:
            return Outcome(False, f"The source has no table {target.table}, or the user may not read it.")
        found = by_new_names(found, target.config.renamed_from)
        versions = runtime.contracts.of(target.identifier).versions
        columns = versions[-1].contract.columns if versions else target.config.columns
        ignored = {*target.config.ignore, *(versions[-1].contract.ignore if versions else ())}
        problems = [*_differences(columns, found, ignored), *_key(target, found)]
        figures = {"columns": len(columns), "columns_at_source": len(found.columns)}
        if not problems:
            return Outcome(True, f"{many(len(columns), 'column', 'are')} those of {target.table}.", figures)
        state = (
            f"The contract of {target.table} differs from the source in {many(len(problems), 'place')}. Change the "
            "table's columns in lake.yaml, or the table at the source."
        )
        return Outcome(False, state, {**figures, "differences": "\n".join(problems)})

    return rule


def by_new_names(source: "SourceTable", renamed_from: Mapping[str, str]) -> "SourceTable":
    """The source's table by silver's names, where the source has the old name only."""
    known = {column.name for column in source.columns}
    new_names = {old: new for new, old in renamed_from.items() if new not in known}

    def renamed(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(new_names.get(name, name) for name in names)

    return replace(
        source,
        columns=tuple(replace(c, name=new_names.get(c.name, c.name)) for c in source.columns),
        primary_key=renamed(source.primary_key),
        unique_keys=tuple(map(renamed, source.unique_keys)),
    )


def _differences(columns: Sequence[Column], source: "SourceTable", ignored: set[str]) -> Iterator[str]:
    known = {column.name: column for column in columns}
    at_source = {column.name: column for column in source.columns}
    for name, found in at_source.items():
        if name not in known and name not in ignored:
            yield f"{name}: {found.declared.type} at the source, not in the contract"
    for name, column in known.items():
        if name not in at_source:
            yield f"{name}: {column.type} in the contract, not at the source"
        else:
            yield from _of_column(column, at_source[name])


def _of_column(column: Column, source: "SourceColumn") -> Iterator[str]:
    declared = source.declared
    # If DMS's documentation has no exact type, lake.yaml has the user's decision. Text holds every value.
    if declared.is_decided and column.type != "string" and not holds(column.type, declared.type):
        yield f"{column.name}: {declared.type} at the source, {column.type} in the contract"
    if column.required and not source.required:
        yield f"{column.name}: may be NULL at the source, not null in the contract"


def _key(target: Target, source: "SourceTable") -> Iterator[str]:
    # A table without a primary key may be declared with a unique one.
    keys = [source.primary_key, *source.unique_keys]
    if target.key and sorted(target.key) not in [sorted(key) for key in keys]:
        own, theirs = ", ".join(target.key), ", ".join(source.primary_key) or "none"
        yield f"primary key: {theirs} at the source, {own} in the contract"
