"""The files of a range of bronze days. Pure."""

from collections.abc import Iterable

from lake_assets.bronze.log.file_log import LoggedFile


def files_of_days(files: Iterable[LoggedFile], first: str | None, last: str | None) -> list[LoggedFile]:
    """The newest version of each file whose capture date lies in `first` to `last` (ISO days, both included), in log
    order; None for no bound."""
    newest: dict[str, LoggedFile] = {}
    for file in sorted(files, key=lambda f: f.offset):
        newest[file.key] = file
    return [
        file
        for file in sorted(newest.values(), key=lambda f: f.offset)
        if (first is None or file.capture_date.isoformat() >= first)
        and (last is None or file.capture_date.isoformat() <= last)
    ]
