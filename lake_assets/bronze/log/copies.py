"""A table's files without copies of the same content.

An object's version does not identify its content: after a multipart copy, a change of KMS key or a move to another key,
the same bytes have another ETag or key. Such an object gets a record of its own (`admission.py` recognises it), so that
the next scan knows the object. The record changes no table. Here: the files as a plan sees them. Not here: the digest
(`bronze/files/content.py`).
"""

from collections.abc import Iterable
from dataclasses import replace

from lake_assets.bronze.log.log_record import LoggedFile


def originals(files: Iterable[LoggedFile]) -> list[LoggedFile]:
    """The records that are not copies, in their order, each with the key under which its content is now."""
    listed = list(files)
    by_offset = {file.offset: file for file in listed if file.copy_of is None}
    copies = {file.copy_of: file for file in listed if file.copy_of is not None}
    # Records that log the same content again (retries, files added by a command) get the new key too.
    placed = {_content(by_offset[at]): copy for at, copy in copies.items() if at in by_offset}
    return [
        _placed(file, placed[_content(file)]) if _content(file) in placed else file
        for file in by_offset.values()
    ]


def _content(file: LoggedFile) -> tuple[str, str, str]:
    return file.qualified_table, file.key, file.version


def _placed(file: LoggedFile, copy: LoggedFile) -> LoggedFile:
    moved = copy.key if copy.key != file.key else None
    return replace(file, moved_to=moved, size=copy.size, compression=copy.compression)
