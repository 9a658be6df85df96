"""Metadata files of tables that the catalog has lost, or names wrongly after a restore.

A dropped table leaves its files behind unless it was purged, and so does a catalog that was restored from a backup.
Here: finding the newest metadata of a table, and pointing the catalog to it. Not here: whether that is wanted
(`commands/mend/recover.py`).
"""

from collections.abc import Iterator
from contextlib import suppress

from pyarrow.fs import FileSelector, FileSystem, FileType
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

SOURCE_TABLE = "lake.source-table"
"""Table property of silver: the source and its table whose rows the table has, as `source/schema.table`."""
SUFFIXES = (".metadata.json", ".metadata.json.gz")


def metadata_files(catalog: Catalog, folder: str) -> Iterator[tuple[str, TableMetadata]]:
    """Address and content of each metadata file below a table's location that can be read, the newest first."""
    io = PyArrowFileIO(catalog.properties)
    scheme, netloc, path = io.parse_location(f"{folder.rstrip('/')}/metadata", catalog.properties)
    system: FileSystem = io.fs_by_scheme(scheme, netloc)
    found = system.get_file_info(FileSelector(path, allow_not_found=True))
    prefix = folder.rstrip("/") + "/metadata/"
    read = []
    for info in found:
        if info.type is FileType.File and info.path.endswith(SUFFIXES):
            address = prefix + info.path.rpartition("/")[2]
            with suppress(Exception):  # a damaged file is none to go back to
                read.append((address, FromInputFile.table_metadata(io.new_input(address))))
    # Of two commits in one millisecond, the later one has the higher sequence number.
    yield from sorted(read, key=lambda entry: _age(entry[1]), reverse=True)


def _age(metadata: TableMetadata) -> tuple[int, int]:
    return metadata.last_updated_ms, getattr(metadata, "last_sequence_number", 0)


def default_location(catalog: Catalog, identifier: str) -> str:
    """Where the catalog puts a table that says nothing else; the convention of PyIceberg's and Spark's catalogs."""
    namespace, name = identifier.split(".")
    with suppress(Exception):  # the namespace may be lost, too
        if location := catalog.load_namespace_properties(namespace).get("location"):
            return f"{location.rstrip('/')}/{name}"
    folder = f"{namespace}.db" if catalog.properties.get("type") == "glue" else namespace
    return f"{catalog.properties['warehouse'].rstrip('/')}/{folder}/{name}"


def point_to(catalog: Catalog, identifier: str, address: str) -> Table:
    """Has the catalog name this metadata file as the table's. What it named before stays in its folder."""
    with suppress(NoSuchTableError):
        catalog.drop_table(identifier)
    return catalog.register_table(identifier, address)


def repaired(
    catalog: Catalog, identifier: str, *, missing_too: bool, source_table: str | None = None
) -> str | None:
    """Points the catalog to the newest metadata of a table whose own is gone; with `missing_too`, also of a table that
    the catalog does not know. `source_table`: whose rows it has, because a folder may be another table's, too. The
    address, or None when there was nothing to mend or nothing to mend it with."""
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
