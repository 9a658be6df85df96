"""CDC files that were written again after their rows had been applied.

DMS does not do that. A user who copies or encrypts the bucket does, and then the rows are the same. A table whose files
all exist is recomputed from them (`planner.py`), so that the difference does not matter. Other tables keep their rows:
a change log, because it never deletes rows, and a table whose older files are gone.

Here: which files these are, pure. Not here: comparing their rows with such a table
(`silver/reduce/compare_rewritten.py`), files with unchanged bytes.
"""

from collections.abc import Collection, Sequence

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import LoggedFile

Contents = Collection[tuple[str, str]]
"""Object keys and versions."""


def rewritten(
    files: Sequence[LoggedFile], logged: Sequence[LoggedFile], applied: int, left_out: Contents
) -> list[LoggedFile]:
    """Those of `files` whose content differs from the content of the same file that was applied, up to the offset
    `applied`. `logged`: all files of the table; `left_out`: files that were quarantined whole, and so not
    applied."""
    known = {(file.key, file.version) for file in logged if file.offset <= applied}
    return [
        file
        for file in files
        if file.offset > applied
        and not file.retry
        and (file.key, file.version) not in left_out
        and (file.key, file.version) not in known  # it had vanished, and has returned
        and former_content(file, logged, applied, left_out) is not None
    ]


def former_content(
    file: LoggedFile, logged: Sequence[LoggedFile], applied: int, left_out: Contents
) -> LoggedFile | None:
    """The record of the newest other content of the file that was applied, or None."""
    return max(
        (
            other
            for other in logged
            if other.file == file.file
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
    """Those of `files` that are quarantined although the table has rows of their former content. That content cannot
    be read any more."""
    return [
        file
        for file in files
        if (file.key, file.version) in left_out
        and former_content(file, logged, file.offset - 1, left_out) is not None
    ]
