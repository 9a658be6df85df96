"""The contract by which a table's files are read, and its versions.

Here: the settings of lake.yaml that decide how a row is read, which version applies to which file, and a column's name
in a later version. Not here: storing the versions (`contract_log.py`), the effect of a difference between two versions
on silver (`evolve.py`). Pure.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import Field

from lake_assets.config import ICEBERG_COLUMNS, DmsSettings, EarlierLayout, Model, TableConfig
from lake_assets.config.columns import Column, Columns
from lake_assets.errors import TableStopped
from lake_assets.local_times import AmbiguousTimes


class Contract(Model):
    """How a row of a file is read, independent of the silver table's shape."""

    columns: Columns
    primary_key: tuple[str, ...] = ()
    renamed_from: dict[str, str] = Field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    defaults: dict[str, str | int | float | bool] = Field(default_factory=dict)
    ambiguous_times: AmbiguousTimes | None = None
    kept_when_null: tuple[str, ...] = ()
    earlier: tuple[EarlierLayout, ...] = ()
    dms: DmsSettings = DmsSettings()
    dropped_at: dict[str, datetime] = Field(default_factory=dict)
    """By column, the time (UTC) since when files lack it: there it is NULL, whatever its default."""

    def table(self, config: TableConfig, gone: Collection[str] = ()) -> TableConfig:
        """The table of lake.yaml as of this version, for files whose source had dropped the columns `gone`."""
        return config.model_copy(
            update={
                "columns": self.columns,
                "primary_key": self.primary_key,
                "renamed_from": self.renamed_from,
                "defaults": {name: value for name, value in self.defaults.items() if name not in gone},
                "ambiguous_times": self.ambiguous_times,
                "kept_when_null": self.kept_when_null,
                "earlier": self.earlier,
            }
        )

    @property
    def has_partial_updates(self) -> bool:
        """Whether updates may lack columns: see `_unsupplied` of `bronze/reader/arrow_frame.py`."""
        return self.dms.csv_no_sup_value is not None or bool(self.kept_when_null)

    @property
    def all_settings(self) -> tuple[DmsSettings, ...]:
        """The present endpoint settings, and those of each earlier layout."""
        found = [self.dms]
        for entry in reversed(self.earlier):
            found.append(found[-1].model_copy(update=entry.dms))
        return tuple(found)

    def gone_at(self, when: datetime) -> frozenset[str]:
        """The columns with a default that the source had dropped by then: the default does not apply to them."""
        return frozenset(name for name, at in self.dropped_at.items() if at <= when and name in self.defaults)

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)

    def with_column(self, column: Column) -> "Contract":
        """The contract with the column replaced by name, or added as the last one."""
        if self.column(column.name) is None:
            return self.model_copy(update={"columns": (*self.columns, column)})
        columns = tuple(column if c.name == column.name else c for c in self.columns)
        return self.model_copy(update={"columns": columns})

    def widened(self, columns: Sequence[Column]) -> "Contract":
        """The contract with the wider types of these columns, also in earlier layouts that have the narrow one."""
        narrow = {self.column(column.name): column for column in columns}
        found = self
        for column in columns:
            found = found.with_column(column)
        earlier = tuple(
            entry.model_copy(
                update={"columns": tuple(narrow.get(column, column) for column in entry.columns)}
            )
            if entry.columns is not None
            else entry
            for entry in self.earlier
        )
        return found.model_copy(update={"earlier": earlier})


def is_unreadable(name: str) -> bool:
    """Whether Spark cannot read a table with a column of this name, so that silver never keeps one."""
    return name.lower() in ICEBERG_COLUMNS


def contract_of(table: TableConfig, dms: DmsSettings) -> Contract:
    """The contract by the present lake.yaml."""
    return Contract(
        columns=table.columns,
        primary_key=table.primary_key,
        renamed_from=table.renamed_from,
        ignore=table.ignore,
        defaults=table.defaults,
        ambiguous_times=table.ambiguous_times,
        kept_when_null=table.kept_when_null,
        earlier=table.earlier,
        dms=dms,
    )


def left_to_source(
    table: str, contract: Contract, ignore: Collection[str], renamed_from: Mapping[str, str]
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns and the key of a table of which lake.yaml has no list: those of its newest contract, under the names
    that lake.yaml gives them now. Raises TableStopped for a new name that lake.yaml no longer gives."""
    new_names = {old: new for new, old in renamed_from.items()}
    names = {}
    for column in contract.columns:
        at_source = contract.renamed_from.get(column.name)
        if at_source is not None and at_source not in new_names:
            raise TableStopped(
                table,
                f"renamed_from no longer names {column.name}, which silver took from {at_source}.",
                "Keep the entry, or give the column another name there.",
            )
        names[column.name] = new_names.get(at_source or column.name, column.name)
    columns = tuple(
        column.model_copy(update={"name": names[column.name]})
        for column in contract.columns
        if column.name not in ignore
    )
    return columns, tuple(names.get(name, name) for name in contract.primary_key)


@dataclass(frozen=True, slots=True)
class ContractVersion:
    """A contract of one silver table, valid from an offset of the file log on."""

    number: int
    """From 1."""
    from_offset: int
    contract: Contract
    origin: str
    """The reason for the version; a sentence for the user."""
    configured: Contract
    """The contract by lake.yaml at that time."""
    recorded_at: datetime
    """UTC."""


@dataclass(frozen=True, slots=True)
class Contracts:
    """Every version for one silver table, in the order in which they were recorded."""

    versions: tuple[ContractVersion, ...] = ()

    @property
    def newest(self) -> ContractVersion | None:
        return self.versions[-1] if self.versions else None

    def at(self, offset: int) -> ContractVersion:
        """The version that applies to the file at that log offset."""
        return next(version for version in reversed(self.versions) if version.from_offset <= offset)

    def upto(self, offset: int) -> "Contracts":
        """The versions that apply to files up to that offset."""
        return Contracts(tuple(version for version in self.versions if version.from_offset <= offset))

    def and_then(self, version: ContractVersion) -> "Contracts":
        return Contracts((*self.versions, version))

    def names_today(self, number: int, *, drops: bool) -> dict[str, str]:
        """For each column of a version, its name in the newest one. A column that was dropped since keeps its name;
        with `drops` (silver drops what the source drops) it is left out."""
        (held,) = (version for version in self.versions if version.number == number)
        names = {column.name: column.name for column in held.contract.columns}
        for version in self.versions[self.versions.index(held) + 1 :]:
            names = _renamed(names, version.contract)
            if drops:
                names = {name: now for name, now in names.items() if version.contract.column(now) is not None}
        return names

    def kept(self, *, drops: bool) -> tuple[Column, ...]:
        """The columns that silver has in addition to the newest version: the source dropped them, and silver keeps
        them."""
        if drops or not self.versions:
            return ()
        newest, found = self.versions[-1].contract, dict[str, Column]()
        for version in self.versions[:-1]:
            names = self.names_today(version.number, drops=False)
            for column in version.contract.columns:
                today = names[column.name]
                if newest.column(today) is None and not is_unreadable(today):
                    found[today] = column.model_copy(update={"name": today, "required": False})
        return tuple(found.values())


def _renamed(names: dict[str, str], contract: Contract) -> dict[str, str]:
    to = {old: new for new, old in contract.renamed_from.items() if contract.column(old) is None}
    return {name: to.get(today, today) for name, today in names.items()}
