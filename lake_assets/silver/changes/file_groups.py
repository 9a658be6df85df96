"""The files of a batch in groups that are read in the same way.

Here: which these are, and whether their columns are silver's. Not here: reading them (`reading.py`), parts of files
(`silver/plan/parts.py`). Pure.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import TableConfig
from lake_assets.schema.contract import Contracts, ContractVersion
from lake_assets.silver.plan.parts import Part
from lake_assets.silver.table.targets import Target


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Parts that are read in the same way."""

    version: ContractVersion
    gone: frozenset[str]
    which: str
    """`all` rows of each file, `only` some, or all `without` some."""
    reopened: bool
    by_path: Mapping[str, Sequence[Part]]

    def table(self, config: TableConfig) -> TableConfig:
        """The table's configuration when the files were written; `config`: today's."""
        return self.version.contract.table(config, self.gone)

    @property
    def files(self) -> list[LoggedFile]:
        return [parts[0].file for parts in self.by_path.values()]


def file_groups(
    parts: Sequence[Part], contracts: Contracts, reopened: Collection[int] = ()
) -> list[FileGroup]:
    """The groups by the version of their contract. `reopened`: offsets of files that were read before, for an earlier
    cut."""
    groups: dict[tuple[int, frozenset[str], str, bool], dict[str, list[Part]]] = defaultdict(dict)
    for part in parts:
        version = contracts.at(part.file.offset)
        # Single rows of a file may be read beside the same file without them.
        which = "only" if part.only is not None else "without" if part.without else "all"
        gone = version.contract.gone_at(part.file.written_at)
        group = groups[version.number, gone, which, part.file.offset in reopened]
        group.setdefault(part.file.path, []).append(part)
    return [
        FileGroup(version, gone, which, again, by_path)
        for version in contracts.versions
        for (number, gone, which, again), by_path in groups.items()
        if number == version.number
    ]


def is_current(version: ContractVersion, contracts: Contracts, target: Target) -> bool:
    """Whether the version has silver's columns. A column of the same name is another column if the first was dropped or
    renamed in between."""
    columns = version.contract.columns
    unchanged = {column.name: column.name for column in columns}
    return columns == target.image_columns and names_today(version, contracts, target) == unchanged


def names_today(version: ContractVersion, contracts: Contracts, target: Target) -> dict[str, str]:
    """Silver's name of each column, by the version's name."""
    return contracts.names_today(version.number, drops=target.schema_changes.dropped == "drop")
