"""Records of the log, made by hand. Not here: what a pass over real files logs (`scanned_source.py`)."""

from dataclasses import fields, replace
from datetime import date, timedelta
from typing import Any

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets_tests.helpers.files.dms_files import NOON


def logged(offset: int, key: str, *, minute: float = 0, epoch: int = 1, **changed: Any) -> LoggedFile:
    """A record of the log: LOAD objects were modified, and their first row transferred, at `minute` past noon; CDC
    files were flushed then."""
    at = NOON + timedelta(minutes=minute)
    load = "LOAD" in key
    record = LoggedFile(
        offset=offset,
        source="shop",
        schema="public",
        table="items",
        key=key,
        version=f"v{offset}",
        kind=FileKind.LOAD if load else FileKind.CDC,
        format="csv",
        compression="none",
        size=10,
        last_modified=at,
        logged_at=at,
        flush_time=None if load else at,
        capture_date=date(2026, 3, 1),
        epoch=epoch,
        rows=1,
        columns=None,
        first_commit_ts=at if load else at - timedelta(minutes=1),
    )
    return replace(record, **changed)


def as_logged(file: NewFile, offset: int, epoch: int = 1, **changed: Any) -> LoggedFile:
    """The record that the log makes of a file when it appends it; logged when the file was modified, unless changed."""
    copied = {field.name: getattr(file, field.name) for field in fields(NewFile)}
    given = {"source": "s", "logged_at": file.last_modified, **copied, **changed}
    return LoggedFile(offset=offset, epoch=epoch, **given)
