"""Which configured table a folder of the bucket belongs to.

Here: names that match exactly, names that differ by case, the endpoint settings of the table. Not here: the files in
the folder (`bronze/files/keys.py`). Pure.

A table's files come from the folder of its name, and from those that its `folders` match. With `ignore_case`, two
folders may have one name, for example after the task was set up again with another case rule: then the same keys would
be loaded twice, from two histories. So of folders whose names differ only by case, the one that the log knows is the
table's, else the one with the exact name, else the only one.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from lake_assets.bronze.files.keys import DataFile, IgnoredKey, TransactionFile, UnknownKey, parse_key
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import SourceConfig, TableName, table_text

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
        self._found: dict[Folder, list[str]] = {}
        self._folded = {name.casefold(): name for name in source.tables}

    def parse(self, key: str) -> DataFile | TransactionFile | IgnoredKey | UnknownKey | UnconfiguredKey:
        """What the key means under its table's own settings; a data file gets the name of its configured table."""
        folder = folder_of(key)
        owners = self._owners(folder) if folder is not None else []
        table = owners[0] if owners else None
        parsed = parse_key(key, self._settings[table] if table else self._source.dms)
        if not isinstance(parsed, DataFile) or folder is None:
            return parsed
        if table is None:
            return UnconfiguredKey(key, parsed.qualified_table)
        if len(owners) > 1:
            names = " and ".join(owners)
            return UnknownKey(
                key, f"the folders of {names} all match its folder: a folder belongs to one table"
            )
        owner = TableName.parse(table)
        joined = str(owner).casefold() != str(folder).casefold()
        return replace(
            parsed, schema=owner.schema, table=owner.table, partitions=(folder.table,) if joined else ()
        )

    def _owners(self, folder: Folder) -> list[str]:
        """The configured tables (`schema.table`) that the folder's files belong to."""
        if folder not in self._found:
            self._found[folder] = self._source.tables_of(folder)
        return self._found[folder]

    def hint(self, table: str) -> str | None:
        """What lake.yaml may lack to configure the table: a part of a sentence."""
        if (near := self._folded.get(table.casefold())) is not None:
            or_ignore = "" if self._source.dms.preserve_transactions else ", or set ignore_case: true"
            return f"it configures {near}: correct its case{or_ignore}"
        schema, name = TableName.parse(table)
        for other in self._source.tables:
            parent = TableName.parse(other)
            if parent.schema == schema and name.startswith(f"{parent.table}_"):
                glob = f"{parent.table}_*"
                return (
                    f"if it is a partition of {other}, add `folders: [{json.dumps(glob)}]` to {other}; else configure "
                    "it as a table"
                )
        return None


def folder_of(key: str) -> Folder | None:
    """The folder of a table's files: the first two parts of a key that has more."""
    parts = key.split("/", 2)
    return TableName(parts[0], parts[1]) if len(parts) == 3 else None


def logged_folders(files: Iterable[LoggedFile]) -> dict[str, set[Folder]]:
    """By the folded name of a folder, the spellings that logged files came from."""
    found: dict[str, set[Folder]] = {}
    for file in files:
        folder = folder_of(file.key)
        # A file of several tables is in no table's folder.
        if folder and str(folder).casefold() == table_text(*file.stream).casefold():
            found.setdefault(_folded(folder), set()).add(folder)
    return found


def mixed_folders(listed: Iterable[DataFile], logged: Mapping[str, set[Folder]]) -> dict[str, str]:
    """By key, files that must not be mixed with those of another folder whose name differs only by case, and the
    reason. `logged`: see `logged_folders`."""
    listed = list(listed)
    found: dict[str, set[Folder]] = {}
    for file in listed:
        if folder := folder_of(file.key):
            found.setdefault(_folded(folder), set()).add(folder)
    names = {file.qualified_table for file in listed}
    owners = {alike: _owner(names, folders, logged.get(alike, set())) for alike, folders in found.items()}
    reasons: dict[str, str] = {}
    for file in listed:
        if (folder := folder_of(file.key)) is None:
            continue
        owner = owners[_folded(folder)]
        if folder in (owner or ()):
            continue
        others = owner or found[_folded(folder)] - {folder}
        spelt = ", ".join(sorted("/".join(other) for other in others))
        reasons[file.key] = (
            f"its folder {'/'.join(folder)} and {spelt} differ only by case, and both would be the table "
            f"{file.qualified_table}: files of two folders are not mixed; "
            + (
                "remove one of them"
                if owner is None
                else f"the table's files come from {spelt}, remove this one"
            )
            + ", or set ignore_case: false and configure each as a table"
        )
    return reasons


def _folded(folder: Folder) -> str:
    return str(folder).casefold()


def _owner(tables: Collection[str], found: set[Folder], logged: set[Folder]) -> set[Folder] | None:
    if logged:
        return logged
    exact = {folder for folder in found if str(folder) in tables}
    if exact or len(found) == 1:
        return exact or found
    return None
