"""The facts in an object's key: table, full load or CDC, format, time.

Here: pure decisions on the layout that AWS DMS writes below a source's location. Not here: which configured table a
folder belongs to (`bronze/scan/table_folders.py`), listing keys (`storage/object_store.py`), or whether a file is new
and in which order files are logged (`bronze/log/admission.py`).
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache
from urllib.parse import unquote_plus

from lake_assets.config import DmsSettings, table_text
from lake_assets.local_times import instants

_EXTENSION = r"\.(?P<format>csv|parquet|jsonl?)(?P<gzip>\.gz)?"
# A segment of a parallel load without its own folder, as from MongoDB, has the segment in the file name.
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
    """A part of a full load, or changes; in the log also a record that all files before it have vanished."""

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
    """none or gzip, by the file's name and not by the endpoint's settings. Always none for Parquet, whose pages are
    compressed."""
    flush_time: datetime | None
    """When DMS wrote it, UTC, from the name; not a commit time. None for a full load."""
    capture_date: date | None
    """CDC: the date folder (commit date) if there is one, else the date in the name. None for a full load, whose date
    is the object's last modification."""
    partitions: tuple[str, ...] = ()
    """See `NewFile.partitions`."""

    @property
    def qualified_table(self) -> str:
        return table_text(self.schema, self.table)


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
    """An object that is never data: DMS's control tables, folder markers, hidden and temporary files."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """An object that may be data but cannot be interpreted: reported, never guessed."""

    key: str
    reason: str


def parse_key(key: str, dms: DmsSettings) -> DataFile | TransactionFile | IgnoredKey | UnknownKey:
    """The meaning of a key, relative to its source's location. Never raises."""
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
        # `_prisma_migrations` is a table, `_temporary` is not: the underscore decides only for keys that cannot be
        # data.
        if any(part.startswith("_") for part in parts):
            return IgnoredKey(key, "in a hidden or temporary folder")
        return UnknownKey(key, str(reason))


class _NotData(Exception):
    """Why a key is not a data file's."""


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
    """The key of an S3 event notification, where, unlike in a listing, keys are encoded as in a web form (`+` is a
    space, `%3D` is `=`). Raises ValueError for a key that is not UTF-8."""
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
            f"{match[0]!r} looks like a {kind} file, but its digits are not a date and time"
        ) from error
    return whole + timedelta(microseconds=int(match["fraction"].ljust(6, "0")))


def _flush_time(written: datetime, name: str, dms: DmsSettings) -> datetime:
    if not dms.date_partition_enabled or dms.date_partition_timezone is None:
        return written.replace(tzinfo=UTC)
    # The API reference of S3Settings: the conversion to DatePartitionTimezone also applies to the CDC file's name. For
    # an hour that occurs twice, the later one, because a file that seems to precede a full load is not applied.
    zone = dms.date_partition_timezone
    try:
        found = instants(zone, written)
    except OverflowError as error:
        raise _NotData(f"{name!r} looks like a CDC file, but its time is out of range in UTC") from error
    if not found:
        raise _NotData(
            f"{name!r} looks like a CDC file, but the clocks of {zone} skip its time: is dms.date_partition_timezone "
            "the endpoint's?"
        )
    return found[-1]


def _capture_date(folder: str, flushed: date, dms: DmsSettings) -> date:
    """The date of a CDC file."""
    if not folder:
        # Also where date partitions are enabled: such a file was written before the setting.
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
        raise _NotData(f"the folder {folder!r} is not a date ({expected})") from error
    # A month's folder has no day: the flush date, limited to that month, because its commits may be flushed in the
    # next.
    return min(max(flushed, date(year, month, 1)), next_month - timedelta(days=1))


@lru_cache(maxsize=32)
def _folder_pattern(sequence: str, delimiter: str) -> re.Pattern[str]:
    fields = (f"(?P<{name}>[0-9]{{{4 if name == 'year' else 2}}})" for name in _SEQUENCES[sequence])
    return re.compile(re.escape(_DELIMITERS[delimiter]).join(fields))


def name_of(key: str) -> str:
    """A key's name without its folders and extensions."""
    return key.rpartition("/")[2].partition(".")[0]


def place_of(key: str) -> str:
    """A key without its extensions: DMS writes one object there, and names it by its format and compression."""
    return f"{key.rpartition('/')[0]}/{name_of(key)}"


def same_name(key: str, other: str) -> bool:
    """Whether two keys have the same name, apart from their folders and extensions."""
    return name_of(key) == name_of(other)
