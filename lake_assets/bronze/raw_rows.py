"""Rows of a file as they stand in it."""

from collections.abc import Iterable
from dataclasses import dataclass

from lake_assets.bronze.log_record import LoggedFile
from lake_assets.bronze.object_store import ObjectStore
from lake_assets.config import DmsSettings


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record."""

    line: int
    text: str


def raw_records(
    store: ObjectStore, file: LoggedFile, dms: DmsSettings, ordinals: Iterable[int]
) -> dict[int, RawRecord]:
    """Stub."""
    return {}
