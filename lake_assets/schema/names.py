"""Whether silver can have the columns of a contract by their names, and what to write in lake.yaml where it cannot.

Here: the rules of lake.yaml, put to what files bring before a contract is recorded. Not here: the rules themselves
(`config/tables.py`), types (`evolve.py`). Pure.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lake_assets.config import Mode, name_mistake
from lake_assets.config.spelling import key, listed, mapping
from lake_assets.errors import TableStopped
from lake_assets.schema.contract import Contract, Contracts, ContractVersion, is_unreadable


@dataclass(frozen=True, slots=True)
class Naming:
    """What the name of a new column is compared with, beside the contract's columns."""

    shapes: tuple[Mode, ...] = ()
    """Of the table: its mode, and `also`."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Columns that silver has kept, and their types."""
    configured: frozenset[str] = frozenset()
    """The columns of lake.yaml."""


NO_RULES = Naming()


def naming(contracts: Contracts, configured: Contract, shapes: Iterable[Mode], *, drops: bool) -> Naming:
    """Of a table with these versions; `drops`: whether silver drops what the source drops."""
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
    """Raises TableStopped if a table with the columns of `among` cannot have the columns `new` (with their types)
    beside them, with the lines of lake.yaml that mend it.

    `origin` says where they come from; `found` are all columns that are there together with them.
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
            alike = _free(column, [*held, *found, *columns], rules.shapes)
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
            f"`ignore: {listed(gone)}` to leave it out. Then run `lake-assets sync --table {name}`.",
        )


def refuse_contract(name: str, origin: str, contract: Contract, rules: Naming) -> None:
    """As `refuse_names`, for a contract as a whole: lake.yaml's columns and those that files have brought."""
    columns = sorted(contract.columns, key=lambda column: column.name not in rules.configured)
    nothing = contract.model_copy(update={"columns": ()})
    refuse_names(name, origin, {column.name: column.type for column in columns}, nothing, rules)


def proven(contracts: Contracts, shapes: Collection[Mode], *, drops: bool) -> Contracts:
    """The versions without the columns that files brought and silver could never get. An earlier release recorded a
    contract before it had tried it, so that no later one could be reached. A name of Iceberg's own silver does get."""
    return Contracts(tuple(_proven(contracts.versions, shapes, drops)))


def _proven(
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


def _free(column: str, taken: Collection[str], shapes: Collection[Mode]) -> str:
    """A name of letters, digits and underscores that is like the column's, and free."""
    base = re.sub(r"\W+", "_", column).strip("_").lower() or "column"
    folded = {name.lower() for name in taken}
    names = (base if number == 1 else f"{base}_{number}" for number in range(1, len(folded) + 3))
    return next(name for name in names if name not in folded and name_mistake(name, (), shapes) is None)
