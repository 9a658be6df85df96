"""A table's files without the repetitions of their content.

An object's version is not its content: a multipart copy, KMS or a move to another key give the same bytes another name.
Such an object has a record of its own (`admission.py` recognises it), so that the next listing knows it. No table
changes because of it. Here: what a plan sees of it. Not here: the digest (`bronze/files/content.py`).
"""

from collections.abc import Iterable
from dataclasses import replace

from lake_assets.bronze.log.log_record import LoggedFile


def originals(files: Iterable[LoggedFile]) -> list[LoggedFile]:
    """The records that are no copies, in their order, each with the place where its content is now."""
    listed = list(files)
    by_offset = {file.offset: file for file in listed if file.copy_of is None}
    copies = {file.copy_of: file for file in listed if file.copy_of is not None}
    # Also of the records that ask for the same content again, or that somebody's decision has added.
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
