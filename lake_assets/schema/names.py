"""Whether silver can have the columns of a contract by their names, and the lines for lake.yaml where it cannot.

Here: applying lake.yaml's rules to the columns of files, before a contract is recorded. Not here: the rules themselves
(`config/tables.py`), types (`evolve.py`). Pure.
"""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lake_assets.config import Mode, name_mistake
from lake_assets.errors import TableStopped
from lake_assets.schema.contract import Contract, Contracts, ContractVersion, is_unreadable
from lake_assets.schema.spelling import key, listed, mapping


@dataclass(frozen=True, slots=True)
class Naming:
    """The names that a new column must not collide with, in addition to the contract's columns."""

    shapes: tuple[Mode, ...] = ()
    """The table's mode and `also`."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Columns that the source dropped and silver kept, with their types."""
    configured: frozenset[str] = frozenset()
    """The columns of lake.yaml."""


NO_RULES = Naming()


def naming(contracts: Contracts, configured: Contract, shapes: Iterable[Mode], *, drops: bool) -> Naming:
    """The rules for a table with these versions; `drops`: whether silver drops what the source drops."""
    kept = {column.name: column.type for column in contracts.kept(drops=drops)}
    return Naming(tuple(shapes), kept, frozenset(column.name for column in configured.columns))


def refuse_names(
    name: str,
    origin: str,
    new: Mapping[str, str],
    among: Contract,
    rules: Naming,
    found: Collection[str] = (),
) -> None:
    """Raises TableStopped if a table with the columns of `among` cannot also have the columns `new` (with their types);
    the message contains the lines for lake.yaml.

    `origin` is their source, for the message; `found` are all columns of that file.
    """
    held = {**{column.name: column.type for column in among.columns}, **rules.kept}
    columns, renamed, wrong = dict[str, str](), dict[str, str](), list[str]()
    for column, kind in new.items():
        others = [other for other in held if other != column]
        if (why := name_mistake(column, others, rules.shapes)) is None:
            held[column] = kind
            continue
        wrong.append(f"the column {key(column)}, which {why}")
        alike = next((other for other in others if other.lower() == column.lower()), None)
        if alike is not None and alike not in found and column in rules.configured:
            renamed[column] = alike
            continue
        if alike is None or alike in found:
            alike = free_name(column, [*held, *found, *columns], rules.shapes)
        renamed[alike] = column
        if alike not in rules.configured:
            columns[alike] = held.get(alike, kind)
    if wrong:
        lines = [f"`columns: {mapping(columns)}`"] * bool(columns) + [f"`renamed_from: {mapping(renamed)}`"]
        gone = [column for column in renamed.values() if column not in rules.configured]
        raise TableStopped(
            name,
            f"{origin} has {' and '.join(wrong)}.",
            f"Add to {name} in lake.yaml {' and '.join(lines)} to have the data under such a name, or "
            f"`ignore: {listed(gone)}` to leave it out. Then run `lake-assets sync --table {shlex.quote(name)}`.",
        )


def refuse_contract(name: str, origin: str, contract: Contract, rules: Naming) -> None:
    """As `refuse_names`, for a whole contract: lake.yaml's columns and those that files added."""
    columns = sorted(contract.columns, key=lambda column: column.name not in rules.configured)
    nothing = contract.model_copy(update={"columns": ()})
    refuse_names(name, origin, {column.name: column.type for column in columns}, nothing, rules)


def without_unusable_columns(contracts: Contracts, shapes: Collection[Mode], *, drops: bool) -> Contracts:
    """The versions without the columns from files that silver can never have. An earlier release recorded a contract
    before it checked the names, so that silver could not reach a later one. Columns with names of Iceberg's metadata
    columns remain, because silver can have them."""
    return Contracts(tuple(_usable_versions(contracts.versions, shapes, drops)))


def _usable_versions(
    versions: Iterable[ContractVersion], shapes: Collection[Mode], drops: bool
) -> Iterator[ContractVersion]:
    done: list[ContractVersion] = []
    for version in versions:
        own = [c.name for c in version.contract.columns if version.configured.column(c.name) is not None]
        brought = [c.name for c in version.contract.columns if c.name not in own]
        before = {c.name for c in done[-1].contract.columns} if done else set[str]()
        if set(brought) - before:
            kept = [column.name for column in Contracts((*done, version)).kept(drops=drops)]
            for column in brought:
                if is_unreadable(column) or name_mistake(column, [*own, *kept], shapes) is None:
                    own.append(column)
            columns = tuple(column for column in version.contract.columns if column.name in own)
            version = replace(version, contract=version.contract.model_copy(update={"columns": columns}))
        done.append(version)
        yield version


def free_name(column: str, taken: Collection[str], shapes: Collection[Mode]) -> str:
    """A free name of letters, digits and underscores for a table of these shapes, similar to the column's."""
    base = re.sub(r"\W+", "_", column).strip("_").lower() or "column"
    folded = {name.lower() for name in taken}
    names = (base if number == 1 else f"{base}_{number}" for number in range(1, len(folded) + 3))
    return next(name for name in names if name not in folded and name_mistake(name, (), shapes) is None)
