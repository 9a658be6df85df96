"""Unpacking a stored lake in another folder: Iceberg's metadata names every file by its absolute path.

Here: the catalog, metadata files, manifests and deletion vectors, with the new paths. All other files are as they were
written. Not here: a lake that a user has moved, which `lake-assets` does not support.
"""

import json
import sqlite3
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import Record
from pyiceberg.types import ListType, MapType, StructType

HERE = Path(__file__).parent
LOCATION = "lake"
"""The name of the stored folder."""
LENGTHS = {500: 501, 100: 104}
"""By the id of a field with a path, in a manifest list and in a manifest, that of the field with the file's length."""


def unpacked(name: str, folder: Path, catalog: str) -> Path:
    """The folder of the stored lake `lake_of_<name>.tar.xz`, below `folder`, in a catalog of that name."""
    with tarfile.open(HERE / f"lake_of_{name}.tar.xz") as stored:
        stored.extractall(folder, filter="data")
    lake = folder / LOCATION
    former = (lake / "written_at").read_text(encoding="utf-8")

    def moved(text: str) -> str:
        return text.replace(former, str(lake))

    _move_tables(lake / "warehouse", moved)
    with sqlite3.connect(lake / "catalog.db") as database:
        columns = ("metadata_location", "previous_metadata_location")
        moves = ", ".join(f"{column} = replace({column}, ?, ?)" for column in columns)
        paths = (former, str(lake))
        database.execute(f"UPDATE iceberg_tables SET catalog_name = ?, {moves}", (catalog, *paths, *paths))
        database.execute(
            "UPDATE iceberg_namespace_properties SET catalog_name = ?, "
            "property_value = replace(property_value, ?, ?)",
            (catalog, *paths),
        )
    database.close()
    return lake


def _move_tables(warehouse: Path, moved: Callable[[str], str]) -> None:
    """Files that others name with their length come first."""
    lengths = dict[str, int]()
    for vectors in warehouse.rglob("*.puffin"):
        _move_vectors(vectors, moved)
        lengths[str(vectors)] = vectors.stat().st_size
    manifests = [*warehouse.rglob("*.avro")]
    for is_list in (False, True):
        for file in manifests:
            if file.name.startswith("snap-") is is_list:
                _move_manifest(file, moved, lengths)
                lengths[str(file)] = file.stat().st_size
    for metadata in warehouse.rglob("*.metadata.json"):
        metadata.write_text(moved(metadata.read_text(encoding="utf-8")), encoding="utf-8")
    assert not [*warehouse.rglob("*.gz.metadata.json")]


def _move_vectors(file: Path, moved: Callable[[str], str]) -> None:
    """The blobs, then the footer: magic, JSON, the JSON's length, flags, magic."""
    content = file.read_bytes()
    end = len(content) - 12
    begin = end - int.from_bytes(content[end : end + 4], "little")
    footer = moved(content[begin:end].decode()).encode()
    length = len(footer).to_bytes(4, "little")
    file.write_bytes(content[:begin] + footer + length + content[end + 4 :])


def _move_manifest(file: Path, moved: Callable[[str], str], lengths: Mapping[str, int]) -> None:
    io = PyArrowFileIO()
    with AvroFile[Record](io.new_input(str(file))) as found:
        records, schema, header = list(found), found.schema, dict(found.header.meta)
    name = json.loads(header.pop("avro.schema"))["name"]
    changed = [_changed(record, schema.as_struct(), moved, lengths) for record in records]
    with AvroOutputFile[Record](io.new_output(str(file)), schema, name, metadata=header) as output:
        output.write_block(changed)


def _changed(value: Any, kind: Any, moved: Callable[[str], str], lengths: Mapping[str, int]) -> Any:
    """The value of an Avro file with moved paths, and with the lengths of the files that they name."""
    if isinstance(value, str):
        return moved(value)
    if isinstance(value, Record) and isinstance(kind, StructType):
        places = {field.field_id: place for place, field in enumerate(kind.fields)}
        parts = [
            _changed(value[place], field.field_type, moved, lengths)
            for place, field in enumerate(kind.fields)
        ]
        for path, length in LENGTHS.items():
            if path in places and length in places:
                local = parts[places[path]].removeprefix("file:").replace("///", "/")
                parts[places[length]] = lengths.get(local, parts[places[length]])
        return Record(*parts)
    if isinstance(value, list) and isinstance(kind, ListType):
        return [_changed(each, kind.element_type, moved, lengths) for each in value]
    if isinstance(value, dict) and isinstance(kind, MapType):
        return value  # figures of columns: no bound of this lake's columns is a path
    return value
