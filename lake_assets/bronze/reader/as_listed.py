"""Whether files are still as they were before this process looked at them, or as the log has them.

A look at a file's keys decides how its rows are written. Spark reads the file later, and it may have been written again
in between. Here: listing the files again. Not here: files that are gone (`bronze/scan/vanished.py`), the look
(`silver/changes/staged_rows.py`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.scan.vanished import folder
from lake_assets.storage.object_store import ObjectStore, StoredObject


def as_listed(store: ObjectStore, files: Iterable[LoggedFile]) -> frozenset[StoredObject]:
    """The files as they are listed now. A file that was written again has another time, size or ETag. Raises
    StoreError."""
    groups: dict[tuple[str, FileKind], set[str]] = defaultdict(set)
    for file in files:
        groups[folder(file.path), file.kind].add(file.path)
    return frozenset(obj for (prefix, _), paths in groups.items() for obj in _between(store, prefix, paths))


def not_as_logged(
    store: ObjectStore, files: Sequence[LoggedFile], records: Iterable[LoggedFile]
) -> list[LoggedFile]:
    """Those of the files whose object has another content now than the log says. `records`: all records of their table,
    copies included. A file that is gone is not among them. Raises StoreError."""
    listed = {obj.key: store.version(obj) for obj in as_listed(store, files)}
    changed = [file for file in files if listed.get(file.path, file.version) != file.version]
    if not changed:
        return []  # as a rule: no look at the whole history of the table
    offsets: dict[tuple[str, str], set[int]] = defaultdict(set)
    copies: dict[int | None, set[str]] = defaultdict(set)
    for record in records:
        offsets[record.key, record.version].add(record.offset)
        copies[record.copy_of].add(record.version)

    def is_copy(file: LoggedFile) -> bool:
        return any(listed[file.path] in copies[offset] for offset in offsets[file.key, file.version])

    return [file for file in changed if not is_copy(file)]


def _between(store: ObjectStore, prefix: str, paths: set[str]) -> Iterable[StoredObject]:
    """Lists from the first path to the last, because a folder may have a year's files."""
    first, last = min(paths), max(paths)
    for obj in store.list(prefix, start_after=first[:-1]):
        if obj.key > last:
            return
        if obj.key in paths:
            yield obj
