"""CDC files that were written again under their names after their rows had been applied.

DMS does not do that. Somebody who copies or encrypts the bucket does, and then the rows are the same. A table whose
files are all there is made anew from them as they are (`planner.py`), so that it does not matter. Others keep what they
have: a change log, because it cannot take rows back, and a table of which older files are gone.

Here: which files these are, pure. Not here: what such a table says of their rows (`silver/write/reapplied_log.py`),
files with the very bytes that they had.
"""

from collections.abc import Collection, Sequence

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import LoggedFile

Contents = Collection[tuple[str, str]]
"""By key and version."""


def rewritten(
    files: Sequence[LoggedFile], logged: Sequence[LoggedFile], applied: int, left_out: Contents
) -> list[LoggedFile]:
    """Of `files`, those that bring another content than their key had when it was applied, up to the offset `applied`.
    `logged`: all files of the table; `left_out`: what is set aside whole, and was not applied."""
    known = {(file.key, file.version) for file in logged if file.offset <= applied}
    return [
        file
        for file in files
        if file.offset > applied
        and not file.retry
        and (file.key, file.version) not in left_out
        and (file.key, file.version) not in known  # it had vanished, and is back
        and former_content(file, logged, applied, left_out) is not None
    ]


def former_content(
    file: LoggedFile, logged: Sequence[LoggedFile], applied: int, left_out: Contents
) -> LoggedFile | None:
    """The record of the newest other content that the file's key had when it was applied, or None."""
    return max(
        (
            other
            for other in logged
            if other.path == file.path
            and other.version != file.version
            and other.offset <= applied
            and other.kind is file.kind
            and (file.kind is FileKind.CDC or other.epoch == file.epoch)
            and not other.retry
            and (other.key, other.version) not in left_out
        ),
        key=lambda other: other.offset,
        default=None,
    )


def lost_contents(
    files: Sequence[LoggedFile], logged: Sequence[LoggedFile], left_out: Contents
) -> list[LoggedFile]:
    """Of `files`, those that are set aside although the table has rows of what their key had before: these rows cannot
    be read any more."""
    return [
        file
        for file in files
        if (file.key, file.version) in left_out
        and former_content(file, logged, file.offset - 1, left_out) is not None
    ]
