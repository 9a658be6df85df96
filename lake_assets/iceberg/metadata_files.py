"""Metadata files of tables that the catalog has lost, or that it points to wrongly after a restore.

A table's files remain when the table is dropped without a purge, or when the catalog is restored from a backup. Here:
finding the newest metadata of a table, and pointing the catalog to it. Not here: deciding to
(`commands/mend/recover.py`).
"""

from collections.abc import Iterator
from contextlib import suppress

from pyarrow.fs import FileSelector, FileSystem, FileType
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

SOURCE_TABLE = "lake.source-table"
"""Table property of silver: the source table whose rows the table has, as `source/schema.table`."""
SUFFIXES = (".metadata.json", ".metadata.json.gz")


def metadata_files(catalog: Catalog, folder: str) -> Iterator[tuple[str, TableMetadata]]:
    """Address and content of each readable metadata file below a table's location, the newest first."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    io = PyArrowFileIO(catalog.properties)
    scheme, netloc, path = io.parse_location(f"{folder.rstrip('/')}/metadata", catalog.properties)
    system: FileSystem = io.fs_by_scheme(scheme, netloc)
    found = system.get_file_info(FileSelector(path, allow_not_found=True))
    prefix = folder.rstrip("/") + "/metadata/"
    read = []
    for info in found:
        if info.type is FileType.File and info.path.endswith(SUFFIXES):
            address = prefix + info.path.rpartition("/")[2]
            with suppress(Exception):  # a damaged file cannot be restored
                read.append((address, FromInputFile.table_metadata(io.new_input(address))))
    # Of two commits in one millisecond, the later one has the higher sequence number.
    yield from sorted(read, key=lambda entry: _age(entry[1]), reverse=True)


def _age(metadata: TableMetadata) -> tuple[int, int]:
    return metadata.last_updated_ms, getattr(metadata, "last_sequence_number", 0)


def default_location(catalog: Catalog, identifier: str) -> str:
    """Where the catalog puts a table without a location of its own; the convention of PyIceberg and Spark."""
    namespace, name = identifier.split(".")
    with suppress(Exception):  # the namespace may be lost, too
        if location := catalog.load_namespace_properties(namespace).get("location"):
            return f"{location.rstrip('/')}/{name}"
    folder = f"{namespace}.db" if catalog.properties.get("type") == "glue" else namespace
    return f"{catalog.properties['warehouse'].rstrip('/')}/{folder}/{name}"


def point_to(catalog: Catalog, identifier: str, address: str) -> Table:
    """Makes the catalog point to this metadata file. The file that it pointed to before stays in its folder."""
    with suppress(NoSuchTableError):
        catalog.drop_table(identifier)
    return catalog.register_table(identifier, address)


def repaired(
    catalog: Catalog, identifier: str, *, missing_too: bool, source_table: str | None = None
) -> str | None:
    """Points the catalog to the newest metadata of a table whose current metadata is gone; with `missing_too`, also of
    a table that the catalog does not have. `source_table`: skips metadata of another source table, which may be in the
    same folder. Returns the address, or None when the table is intact or no metadata was found."""
    try:
        catalog.load_table(identifier)
        return None
    except NoSuchTableError:
        if not missing_too:
            return None
    except FileNotFoundError:
        pass
    for address, metadata in metadata_files(catalog, default_location(catalog, identifier)):
        if metadata.properties.get(SOURCE_TABLE, source_table) != source_table:
            continue
        point_to(catalog, identifier, address)
        return address
    return None
