"""Which configured table a folder of the bucket belongs to.

Here: names that match exactly, names that differ by case, the endpoint settings of the table. Not here: the files in
the folder (`bronze/files/keys.py`). Pure.

A table's files come from one folder. With `ignore_case`, a second folder could match the table, for example after the
task was set up again with another case rule: then the same keys would be loaded twice, from two histories. So the
table's folder is the one that the log knows, else the one with the exact name, else the only one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lake_assets.bronze.files.keys import DataFile, IgnoredKey, TransactionFile, UnknownKey, parse_key
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import SourceConfig, TableName

Folder = TableName
"""Schema and table, spelled as in the key."""


@dataclass(frozen=True, slots=True)
class UnconfiguredKey:
    """A file of a table that lake.yaml does not name."""

    key: str
    table: str
    """`schema.table`, spelled as in the key."""


class TableFolders:
    """The tables of one source, by folder."""

    def __init__(self, source: SourceConfig) -> None:
        self._source = source
        self._settings = {table: source.settings(table) for table in source.tables}
        # Two tables that differ only by case are refused with ignore_case.
        self._folded = {name.casefold(): name for name in source.tables}

    def parse(self, key: str) -> DataFile | TransactionFile | IgnoredKey | UnknownKey | UnconfiguredKey:
        """What the key means under its table's own settings; a data file gets the name of its configured table."""
        table = self._table(key)
        parsed = parse_key(key, self._settings[table] if table else self._source.dms)
        if not isinstance(parsed, DataFile):
            return parsed
        if table is None:
            return UnconfiguredKey(key, parsed.qualified_table)
        if table == parsed.qualified_table:
            return parsed
        schema, name = TableName.parse(table)
        return replace(parsed, schema=schema, table=name)

    def _table(self, key: str) -> str | None:
        """The configured table (`schema.table`) whose folder the key is in."""
        if (folder := folder_of(key)) is None:
            return None
        name = str(folder)
        if name in self._settings:
            return name
        return self._folded.get(name.casefold()) if self._source.ignore_case else None

    def hint(self, table: str) -> str | None:
        """The configured table that an unconfigured one differs from only by case."""
        return self._folded.get(table.casefold())


def folder_of(key: str) -> Folder | None:
    """The folder of a table's files: the first two parts of a key that has more."""
    parts = key.split("/", 2)
    return TableName(parts[0], parts[1]) if len(parts) == 3 else None


def logged_folders(files: Iterable[LoggedFile]) -> dict[str, set[Folder]]:
    """By table, the folders that its logged files came from."""
    found: dict[str, set[Folder]] = {}
    for file in files:
        folder = folder_of(file.key)
        # A file of several tables is in no table's folder.
        if folder and str(folder).casefold() == file.qualified_table.casefold():
            found.setdefault(file.qualified_table, set()).add(folder)
    return found


def mixed_folders(listed: Iterable[DataFile], logged: Mapping[str, set[Folder]]) -> dict[str, str]:
    """By key, files that must not be mixed with those of another folder of the same table, and the reason. `logged`: by
    table, the folders of the files in the log."""
    listed = list(listed)
    found: dict[str, set[Folder]] = {}
    for file in listed:
        if folder := folder_of(file.key):
            found.setdefault(file.qualified_table, set()).add(folder)
    owners = {table: _owner(table, folders, logged.get(table, set())) for table, folders in found.items()}
    reasons: dict[str, str] = {}
    for file in listed:
        folder, owner = folder_of(file.key), owners.get(file.qualified_table)
        if folder is None or folder in (owner or ()):
            continue
        others = owner or found[file.qualified_table] - {folder}
        names = ", ".join(sorted("/".join(other) for other in others))
        reasons[file.key] = (
            f"its folder {'/'.join(folder)} and {names} differ only by case, and both would be the table "
            f"{file.qualified_table}: files of two folders are not mixed; "
            + (
                "remove one of them"
                if owner is None
                else f"the table's files come from {names}, remove this one"
            )
            + ", or set ignore_case: false and configure each as a table"
        )
    return reasons


def _owner(table: str, found: set[Folder], logged: set[Folder]) -> set[Folder] | None:
    if logged:
        return logged
    exact = {folder for folder in found if str(folder) == table}
    if exact or len(found) == 1:
        return exact or found
    return None
