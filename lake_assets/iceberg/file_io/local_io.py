"""Reading the files of a warehouse in a folder, without PyIceberg's own file access.

`pyiceberg.io.pyarrow` imports Arrow's datasets, which import pandas: a third of the time of a command that only looks.
Here: reading such a file. Not here: writing, deleting, object stores, which are left to PyIceberg; the rows in the
files (`table_rows.py`).
"""

from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
from pyiceberg.io import PY_IO_IMPL, FileIO, InputFile, InputStream, OutputFile, load_file_io

from lake_assets.iceberg.file_io.pyiceberg_private import own


class LocalFirstIO(FileIO):
    """Reads local files itself, and leaves everything else to PyIceberg. PyIceberg creates it by its class name."""

    def new_input(self, location: str) -> InputFile:
        path = local_path(location)
        found = self._usual(location).new_input(location) if path is None else _LocalFile(location, path)
        marked: InputFile = own(found)
        return marked

    def new_output(self, location: str) -> OutputFile:
        found: OutputFile = own(self._usual(location).new_output(location))
        return found

    def delete(self, location: str | InputFile | OutputFile) -> None:
        address = location if isinstance(location, str) else location.location
        self._usual(address).delete(address)

    def _usual(self, location: str) -> FileIO:
        properties = {name: value for name, value in self.properties.items() if name != PY_IO_IMPL}
        return load_file_io(properties, location)


class _LocalFile(InputFile):
    def __init__(self, location: str, path: str) -> None:
        super().__init__(location)
        self._path = path

    def __len__(self) -> int:
        return Path(self._path).stat().st_size

    def exists(self) -> bool:
        return Path(self._path).exists()

    def open(self, seekable: bool = True) -> InputStream:
        opened: InputStream = pa.OSFile(self._path)
        return opened


def local_path(location: str) -> str | None:
    """The path of a `file:` address, as PyIceberg reads it (it decodes no `%20`); None for any other address."""
    address = urlsplit(location)
    plain = address.scheme == "file" and not (address.query or address.fragment)
    return address.netloc + address.path if plain else None
