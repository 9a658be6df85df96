"""Orphan files: files of a table's folder that no state of a table needs, left behind by processes that were killed.

Here: when a search for them is due, and which files they are; no Spark. Not here: removing them
(`table_maintenance.py`), files of a stream's location (`bronze/stream/orphans.py`).

The current metadata alone does not show what is needed: after `detach`, two tables share a folder; a table may lie in
another one's folder; and a catalog that was restored from a backup does not know the newer commits, to which `recover`
can go. All of these have a metadata file below the folder, so what any of these files reaches is kept.
"""

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from lake_assets.errors import LakeError
from lake_assets.iceberg.file_io.pyiceberg_private import files_of_manifest
from lake_assets.iceberg.metadata_files import SUFFIXES
from lake_assets.iceberg.table_io import ORPHANS_REMOVED_AT, committed_at

_UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OF_DATA = re.compile(rf"\d{{5,}}-\d+-{_UUID}(-\d+)*(-deletes)?\.(parquet|orc|avro|puffin)")
_OF_METADATA = re.compile(rf"(snap-\d+-\d+-|optimized-m-)?{_UUID}(-m\d+)?\.avro")
_AT_ONCE = 16
"""Requests to a bucket at the same time."""


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """A file that nothing needs."""

    address: str
    written_at: datetime
    """UTC, by the store's clock."""
    bytes: int


def is_search_due(table: Table, age: timedelta | None, now: datetime) -> bool:
    """Whether the table should be searched for orphan files that are older than `age`; None: never. It is searched once
    in each `age`, as long as orphans may have been written since the last search. `now`: UTC."""
    if age is None or _keeps_all(table):
        return False
    given = table.properties.get(ORPHANS_REMOVED_AT)
    if given is None:
        return True
    last = datetime.fromisoformat(given)
    newest = max(map(committed_at, table.metadata.snapshots), default=None)
    return newest is not None and now - last >= age and newest > last - age


def orphan_files(table: Table, age: timedelta, now: datetime) -> list[OrphanFile]:
    """The orphan files of the table that are older than `age`. `now`: UTC. Only files with a name that Iceberg gives
    are taken, in the folders `data` and `metadata` of the table.

    Raises LakeError if a metadata file cannot be read: it may need any of the files. Raises FileNotFoundError if the
    table's own files are not there.
    """
    # Imported here: it imports pandas, and `status` asks only whether a search is due.
    from pyiceberg.io.pyarrow import PyArrowFileIO

    location = table.location().rstrip("/")
    io = table.io if isinstance(table.io, PyArrowFileIO) else PyArrowFileIO(table.io.properties)
    scheme, netloc, root = io.parse_location(location, io.properties)

    def path_of(address: str) -> str:
        return io.parse_location(address, io.properties)[
            2
        ]  # one file has several addresses: file:/ and file:///

    if _keeps_all(table) or path_of(table.metadata_location).rpartition("/")[0] != f"{root}/metadata":
        return []  # metadata that lies elsewhere does not show who shares the folder
    system = io.fs_by_scheme(scheme, netloc)
    metadata, data = (_below(system, f"{root}/{folder}") for folder in ("metadata", "data"))

    def address(info: FileInfo) -> str:
        return f"{location}/{info.path.removeprefix(root).lstrip('/')}"

    logged = (entry.metadata_file for entry in table.metadata.metadata_log)
    own = set(map(path_of, (table.metadata_location, *logged)))
    old = [info for info in (*metadata, *data) if info.mtime is not None and now - info.mtime > age]
    found = [info for info in old if _is_of_iceberg(info, f"{root}/metadata")]
    others = {
        info.path: _metadata(table, address(info))
        for info in (*metadata, *data)
        if info.path.endswith(SUFFIXES) and info.path not in own
    }
    needed = _Needed(table.io, path_of)
    needed.add([table.metadata], is_whole=True)
    needed.add(filter(None, others.values()), is_whole=False)
    orphans = [info for info in found if info.path not in needed.paths]
    orphans += [info for info in old if info.path in others and _is_spent(others[info.path], table)]
    return [OrphanFile(address(info), info.mtime.astimezone(UTC), info.size) for info in orphans]


class _Needed:
    """The files that metadata reaches."""

    def __init__(self, io: FileIO, path_of: Callable[[str], str]) -> None:
        self.paths = set[str]()
        self._io = io
        self._path_of = path_of

    def add(self, every: Iterable[TableMetadata], *, is_whole: bool) -> None:
        """Adds what these reach. Unless `is_whole`, lists and manifests that are gone reach nothing."""
        snapshots = {one.manifest_list: one for metadata in every for one in metadata.snapshots}
        gone = () if is_whole else (FileNotFoundError,)

        def manifests(snapshot: Snapshot) -> list[ManifestFile]:
            with suppress(*gone):
                return snapshot.manifests(self._io)
            return []

        def files(manifest: ManifestFile) -> list[str]:
            with suppress(*gone):
                return [file.file_path for file, _ in files_of_manifest(manifest, self._io)]
            return []

        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="orphans") as threads:
            lists = [one for one in snapshots.values() if self._path_of(one.manifest_list) not in self.paths]
            found = {m.manifest_path: m for each in threads.map(manifests, lists) for m in each}
            new = [m for path, m in found.items() if self._path_of(path) not in self.paths]
            paths = [path for each in threads.map(files, new) for path in each]
        self.paths.update(map(self._path_of, (*snapshots, *found, *paths)))


def _keeps_all(table: Table) -> bool:
    """Whether Iceberg is not to delete files of the table, because another one has them, too."""
    return table.properties.get("gc.enabled", "true").lower() == "false"


def _below(system: FileSystem, folder: str) -> list[FileInfo]:
    found = system.get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
    return [info for info in found if info.type is FileType.File]


def _is_of_iceberg(info: FileInfo, metadata_folder: str) -> bool:
    folder, _, name = info.path.rpartition("/")
    return (_OF_METADATA if folder == metadata_folder else _OF_DATA).fullmatch(name) is not None


def _metadata(table: Table, address: str) -> TableMetadata | None:
    """None if another process has deleted the file since it was listed."""
    try:
        return FromInputFile.table_metadata(table.io.new_input(address))
    except FileNotFoundError:
        return None
    except Exception as error:
        raise LakeError(
            f"{'.'.join(table.name())}: no orphan files are removed, because a metadata file in its folder, which may "
            f"need them, cannot be read: {address} ({error}). Delete it if no table needs it."
        ) from error


def _is_spent(metadata: TableMetadata | None, table: Table) -> bool:
    """Whether the metadata is of the table, and can no longer be gone back to. Each commit that loses a race leaves
    such a file in a catalog of a database, once the snapshot that it was made from has expired."""
    if metadata is None or metadata.table_uuid != table.metadata.table_uuid:
        return False
    head = metadata.current_snapshot()
    return head is not None and not table.io.new_input(head.manifest_list).exists()
