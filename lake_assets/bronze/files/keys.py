"""What an object's key says: which table, full load or CDC, which format, which time.

Here: pure decisions on the layout that AWS DMS writes below a source's location. Not here: which configured table a
folder is (`bronze/scan/table_folders.py`), listing keys (`storage/object_store.py`), or whether a file is new and in
which order files are logged (`bronze/log/admission.py`).
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache
from urllib.parse import unquote_plus
from zoneinfo import ZoneInfo

from lake_assets.config import DmsSettings

_EXTENSION = r"\.(?P<format>csv|parquet|jsonl?)(?P<gzip>\.gz)?"
# A segment of a parallel load without a folder of its own, such as those of MongoDB, has it in the name.
_LOAD = re.compile(rf"(SEGMENT[0-9]+_)?LOAD[0-9A-F]{{8}}{_EXTENSION}")
# The DMS guide's example ("Using Amazon S3 as a target") has 10 digits after the dash, every real file 9.
_CDC = re.compile(rf"(?P<day>[0-9]{{8}})-(?P<clock>[0-9]{{6}})(?P<fraction>[0-9]{{3,4}}){_EXTENSION}")
_TRANSACTIONS = re.compile(
    r"CDC_TXN-(?P<day>[0-9]{8})(?P<clock>[0-9]{6})(?P<fraction>[0-9]{3})\.(?P<format>csv)(?P<gzip>\.gz)?"
)

_SEQUENCES = {
    "yyyymmdd": ("year", "month", "day"),
    "yyyymmddhh": ("year", "month", "day", "hour"),
    "yyyymm": ("year", "month"),
    "mmyyyydd": ("month", "year", "day"),
    "ddmmyyyy": ("day", "month", "year"),
}
_DELIMITERS = {"slash": "/", "dash": "-", "underscore": "_", "none": ""}


TRANSACTIONS = "transactions"
"""The format of a file with rows of several tables."""


class FileKind(StrEnum):
    """A part of a full load, or changes; in the log also that all files before it have vanished."""

    LOAD = "load"
    CDC = "cdc"
    VANISHED = "vanished"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file with rows of one table."""

    key: str
    schema: str
    table: str
    kind: FileKind
    format: str
    """csv, parquet or json (a value a line)."""
    compression: str
    """none or gzip; what the file's name says, not what the endpoint is set to. Of Parquet, whose pages are compressed,
    it says nothing."""
    flush_time: datetime | None
    """When DMS wrote it, UTC, from the name; not a commit time. None for a full load."""
    capture_date: date | None
    """CDC: the date folder (commit date) if there is one, else the date in the name. None for a full load, whose
    date is that of the object's modification."""

    @property
    def qualified_table(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class TransactionFile:
    """A file with the whole transactions of all tables, in the order of their commits; always CSV, never a header."""

    key: str
    compression: str
    """none or gzip."""
    flush_time: datetime
    """When DMS wrote it, UTC, from the name; not a commit time."""
    kind = FileKind.CDC
    format = TRANSACTIONS

    @property
    def capture_date(self) -> date:
        return self.flush_time.date()


@dataclass(frozen=True, slots=True)
class IgnoredKey:
    """Something that is never data: DMS's control tables, folder markers, hidden and temporary files."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """Something that may be data, which this lake was not told how to read: to be shown, never guessed at."""

    key: str
    reason: str


def parse_key(key: str, dms: DmsSettings) -> DataFile | TransactionFile | IgnoredKey | UnknownKey:
    """What the key, relative to its source's location, stands for. Never raises."""
    parts = key.split("/")
    if not parts[-1]:
        return IgnoredKey(key, "a folder marker")
    if any(part.startswith(".") for part in parts) or parts[-1].startswith("_"):
        return IgnoredKey(key, "a hidden or temporary file")
    if any(part.lower().startswith("awsdms_") or part == "s3_validation_failures" for part in parts):
        return IgnoredKey(key, "a DMS control table")
    try:
        return _parse_data(key, parts, dms)
    except _NotData as reason:
        # `_prisma_migrations` is a table, `_temporary` is not: only what cannot be data goes by the underscore.
        if any(part.startswith("_") for part in parts):
            return IgnoredKey(key, "in a hidden or temporary folder")
        return UnknownKey(key, str(reason))


class _NotData(Exception):
    """Why a key is none of a data file."""


def _parse_data(key: str, parts: list[str], dms: DmsSettings) -> DataFile | TransactionFile:
    """Raises _NotData."""
    if parts[-1].startswith("CDC_TXN-"):
        return _parse_transactions(key, "/".join(parts[:-1]), parts[-1], dms)
    if len(parts) < 3 or not all(parts):
        raise _NotData("not <schema>/<table>/<file>; is the source's location the endpoint's bucket folder?")
    schema, table, folder, name = parts[0], parts[1], "/".join(parts[2:-1]), parts[-1]
    if match := _LOAD.fullmatch(name):
        # A parallel load has a folder for each partition or segment, which may have any name.
        if "/" in folder or folder.startswith("_"):
            raise _NotData(
                f"a full-load file in the folder {folder!r}: DMS writes them to <schema>/<table>/, or for a parallel "
                "load to <schema>/<table>/<partition or segment>/"
            )
        return DataFile(
            key, schema, table, FileKind.LOAD, *_content(match), flush_time=None, capture_date=None
        )
    if match := _CDC.fullmatch(name):
        written = _wall_clock(match, "CDC")
        captured = _capture_date(folder, written.date(), dms)
        flushed = _flush_time(written, name, dms)
        return DataFile(
            key, schema, table, FileKind.CDC, *_content(match), flush_time=flushed, capture_date=captured
        )
    raise _NotData(
        f"{name!r} is neither LOAD<8 hex digits> nor <YYYYMMDD-HHMMSSmmm>, with .csv, .parquet, .json or .jsonl, "
        "optionally .gz"
    )


def decode_event_key(key: str) -> str:
    """The key that an S3 event notification means: there, unlike in a listing, keys are encoded as in a web form (`+`
    is a space, `%3D` is `=`). Raises ValueError for what is no UTF-8 then."""
    return unquote_plus(key, errors="strict")


def _parse_transactions(key: str, folder: str, name: str, dms: DmsSettings) -> TransactionFile:
    expected = (dms.cdc_path or "").strip("/")
    if not dms.preserve_transactions or not expected:
        raise _NotData(
            "a transaction file of an endpoint that has, or once had, PreserveTransactions: set "
            f"dms.preserve_transactions to true and dms.cdc_path to {folder or 'its CdcPath'!r}"
        )
    if folder != expected:
        raise _NotData(f"a transaction file in the folder {folder!r}, but dms.cdc_path is {expected!r}")
    match = _TRANSACTIONS.fullmatch(name)
    if match is None:
        raise _NotData(f"{name!r} is not CDC_TXN-<17 digits>, with .csv or .csv.gz")
    written = _wall_clock(match, "transaction")
    return TransactionFile(key, _content(match)[1], written.replace(tzinfo=UTC))


def _content(match: re.Match[str]) -> tuple[str, str]:
    return match["format"].removesuffix("l"), "gzip" if match["gzip"] else "none"


def _wall_clock(match: re.Match[str], kind: str) -> datetime:
    try:
        whole = datetime.fromisoformat(f"{match['day']}T{match['clock']}")  # its zone: _flush_time
    except ValueError as error:
        raise _NotData(
            f"{match[0]!r} looks like a {kind} file, but its digits are no date and time"
        ) from error
    return whole + timedelta(microseconds=int(match["fraction"].ljust(6, "0")))


def _flush_time(written: datetime, name: str, dms: DmsSettings) -> datetime:
    if not dms.date_partition_enabled or dms.date_partition_timezone is None:
        return written.replace(tzinfo=UTC)
    # The API reference of S3Settings: the conversion to DatePartitionTimezone concerns the CDC file's name too. Of an
    # hour that the zone has twice the later one: a file that seems to be from before a full load is left out.
    try:
        return written.replace(tzinfo=ZoneInfo(dms.date_partition_timezone), fold=1).astimezone(UTC)
    except OverflowError as error:
        raise _NotData(f"{name!r} looks like a CDC file, but its time is none in UTC") from error


def _capture_date(folder: str, flushed: date, dms: DmsSettings) -> date:
    """The date of a CDC file."""
    if not folder:
        # Also where date partitions are on: these were written before the setting was.
        return flushed
    if not dms.date_partition_enabled:
        raise _NotData(f"a CDC file in the folder {folder!r}, but dms.date_partition_enabled is false")
    expected = f"{dms.date_partition_sequence} with delimiter {dms.date_partition_delimiter}"
    match = _folder_pattern(dms.date_partition_sequence, dms.date_partition_delimiter).fullmatch(folder)
    if match is None:
        raise _NotData(f"the folder {folder!r} is not a date partition ({expected})")
    found = match.groupdict()
    year, month = int(found["year"]), int(found["month"])
    try:
        time(int(found.get("hour", 0)))
        if "day" in found:
            return date(year, month, int(found["day"]))
        next_month = date(year + month // 12, month % 12 + 1, 1)
    except ValueError as error:
        raise _NotData(f"the folder {folder!r} is no date ({expected})") from error
    # A month's folder has no day: the flush date, unless the commits of that month were flushed in the next.
    return min(max(flushed, date(year, month, 1)), next_month - timedelta(days=1))


@lru_cache(maxsize=32)
def _folder_pattern(sequence: str, delimiter: str) -> re.Pattern[str]:
    fields = (f"(?P<{name}>[0-9]{{{4 if name == 'year' else 2}}})" for name in _SEQUENCES[sequence])
    return re.compile(re.escape(_DELIMITERS[delimiter]).join(fields))


def name_of(key: str) -> str:
    """A key's name without its folders and endings."""
    return key.rpartition("/")[2].partition(".")[0]


def same_name(key: str, other: str) -> bool:
    """Whether two keys have one name but for their folders and endings."""
    return name_of(key) == name_of(other)
