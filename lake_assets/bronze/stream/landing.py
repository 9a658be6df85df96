"""The messages of a stream become files of its source, each message once.

Here: one landing: read, sort, write, log. Not here: the readers (`clients/`), the files' text (`landed_files.py`), how
often (`rounds/arrivals.py`).

A landing is one commit of the file log, with its files and with the positions up to which it has read. The log refuses
it if another reader has landed since. So nothing else keeps a position, any number of readers may run, and one that is
killed leaves files that no record names.
"""

import io
import json
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import BinaryIO, cast

import msgspec

from lake_assets.bronze.files.inspect import inspect_file
from lake_assets.bronze.files.inspection import FileInspection
from lake_assets.bronze.files.keys import DataFile, FileKind
from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.bronze.log.stream_positions import Overtaken, Read, merged
from lake_assets.bronze.stream.change_order import created_at
from lake_assets.bronze.stream.clients import Client, Message, Polled
from lake_assets.bronze.stream.landed_files import Files, LandedFile, Row, packed, row_of
from lake_assets.bronze.stream.messages import CREATE_TABLE, Control, Unreadable, parse
from lake_assets.config import LANDED, SourceConfig, TableName, table_text
from lake_assets.storage.object_store import ObjectStore

CARRIER = "_stream"
"""The folder of the messages that are no row: control records, and what cannot be read."""

WRITES_AT_ONCE = 8
"""Files that are written at the same time: each takes two requests, and a landing may have a file of each table."""

QUIET_FOR = timedelta(hours=6)
"""Kinesis keeps messages for a day at least."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fault:
    """A message that cannot be read."""

    message: Message
    table: str | None
    """`schema.table`, if the message names one."""
    reason: str


@dataclass(slots=True)
class Landed:
    """What one landing did."""

    logged: list[LoggedFile] = field(default_factory=list)
    messages: int = 0
    controls: int = 0
    created: dict[str, list[datetime]] = field(default_factory=dict)
    """By table that DMS has created, when."""
    faults: list[Fault] = field(default_factory=list)
    unconfigured: Counter[str] = field(default_factory=Counter)
    """Rows by table that lake.yaml does not name."""


class Landing:
    """The landings of one process. Not safe to use from several threads."""

    def __init__(
        self,
        name: str,
        source: SourceConfig,
        store: ObjectStore,
        log: FileLog,
        client: Client,
        hold: Callable[[list[Fault]], None] = lambda faults: None,
    ) -> None:
        """`hold` is called with what cannot be read, before the landing is logged; perhaps again with the same."""
        assert source.stream is not None
        self._name, self._source, self._stream = name, source, source.stream
        self._store, self._log, self._client = store, log, client
        self._hold = hold
        self._files = Files(source)
        self._read: dict[str, Read] | None = None

    def skip_expired(self) -> None:
        """Goes on with the messages that the stream still has. Raises as `land`, and Overtaken."""
        if ranges := self._client.past_expired(self._log.read(self._name)):
            self._log.land(self._name, [self._carrier([], datetime.now(UTC))], ranges)
        self._read = None

    def land(self, seconds: float) -> Landed:
        """Lands what the stream has; waits at most so long for a message. Raises StreamFault, StreamLost, StoreError,
        and as `FileLog.append`; then nothing is landed, and the next call reads again."""
        if self._read is None:
            read = self._log.read(self._name)
            self._client.seek(read)
            self._read = read
        try:
            polled = self._client.poll(seconds, self._stream.most_messages)
            ranges = _ranges(polled, self._read) or _quiet(self._read, datetime.now(UTC))
            return self._landed(polled, self._read, ranges) if ranges else Landed()
        except Overtaken as other:
            logger.info("%s", other)
            self._read = None
            return Landed()
        except BaseException:
            # What was read is not landed: the next call reads it again.
            self._read = None
            raise

    def _landed(self, polled: Polled, read: dict[str, Read], ranges: dict[str, Read]) -> Landed:
        done, rest = Landed(messages=len(polled.messages)), list[bytes]()
        now, rows, files = datetime.now(UTC), 0, list[Future[NewFile]]()
        # First, because a message may arrive after rows that it is about.
        done.created = _created(polled.messages)
        created = merged(self._log.created(self._name), done.created)
        with ThreadPoolExecutor(WRITES_AT_ONCE, "landing") as writers:
            for file in self._files.of(self._rows(polled.messages, done, rest), created):
                files.append(writers.submit(self._stored, *self._packed(file, now)))
                rows += file.rows
        new = [file.result() for file in files]
        assert rows + done.controls + len(done.faults) == done.messages, "each message is landed once"
        if done.faults:
            self._hold(done.faults)
        if rest or not new:
            new.append(self._carrier(rest, now))
        done.logged = self._log.land(self._name, new, ranges, done.created)
        read |= {shard: replace(one, at=now) for shard, one in ranges.items()}
        return done

    def _rows(self, messages: Sequence[Message], done: Landed, rest: list[bytes]) -> Iterator[Row]:
        """The rows among the messages. Adds the others to `rest`, and what all are to `done`."""
        for message in messages:
            try:
                found = self._sorted(message)
            except Unreadable as reason:
                done.faults.append(Fault(message, _table_of(message), str(reason)))
                rest.append(_as_json(message, str(reason)))
                continue
            if isinstance(found, Control):
                done.controls += 1
                rest.append(_as_json(message, None))
                continue
            if found.table not in self._source.tables:
                done.unconfigured[found.table] += 1
            yield found

    def _sorted(self, message: Message) -> Row | Control:
        if message.value is None:
            raise Unreadable("it is empty")
        found = parse(message.value, self._source.dms.before_image_settings.field_name)
        return found if isinstance(found, Control) else row_of(found, self._source, self._stream)

    def _packed(self, file: LandedFile, now: datetime) -> tuple[DataFile, bytes, FileInspection]:
        content = file.content()
        # The time on DMS's clock, by which a reload is recognised: messages may land long after they were written.
        built = file.built or now
        table, name = TableName.parse(file.table), _name(file.kind, built)
        key = f"{table.prefix}{name}.csv.gz"
        flushed = built if file.kind is FileKind.CDC else None
        data = DataFile(
            key,
            table.schema,
            table.table,
            file.kind,
            "csv",
            "gzip",
            flushed,
            flushed.date() if flushed else None,
        )
        inspected = inspect_file(cast(ObjectStore, _InMemory(content)), data, LANDED)
        assert inspected.rows == file.rows, "each row is a record of the file"
        inspected = replace(inspected, first_commit_ts=file.first)
        return data, content, inspected

    def _carrier(self, rest: list[bytes], now: datetime) -> NewFile:
        content = packed(rest)
        key = f"{CARRIER}/{_name(FileKind.CDC, now)}.json.gz"
        data = DataFile(key, "", "", FileKind.CDC, "json", "gzip", now, now.date())
        return self._stored(data, content, FileInspection(rows=0))

    def _stored(self, data: DataFile, content: bytes, inspected: FileInspection) -> NewFile:
        obj = self._store.write(data.key, content)
        version = self._store.version(obj)
        return NewFile.of(obj, data, version, inspected, schema=data.schema, table=data.table)


def _created(messages: Sequence[Message]) -> dict[str, list[datetime]]:
    """The tables that DMS reports as created, and when."""
    found: dict[str, list[datetime]] = {}
    for message in messages:
        if message.value is None or CREATE_TABLE not in message.value:
            continue
        with suppress(Unreadable):  # `_rows` reports it; a control record without a time says nothing here
            control = parse(message.value)
            if isinstance(control, Control) and (at := created_at(control)) is not None:
                found.setdefault(table_text(*control.metadata.table), []).append(at)
    return found


def _ranges(polled: Polled, read: dict[str, Read]) -> dict[str, Read]:
    counts = Counter(message.shard for message in polled.messages)
    through = {message.shard: message.position for message in polled.messages}
    found = {}
    for shard in {*counts, *polled.drained}:
        before = read.get(shard)
        after = None if before is None else before.through
        found[shard] = Read(after, through.get(shard, after), counts[shard], shard in polled.drained)
    return found


def _quiet(read: dict[str, Read], now: datetime) -> dict[str, Read]:
    """The shards that have had no message for long. The log learns that they were read meanwhile: otherwise nobody
    knows later whether messages of theirs have expired."""
    return {
        shard: Read(one.through, one.through, 0)
        for shard, one in read.items()
        if not one.drained and one.at is not None and now - one.at > QUIET_FOR
    }


def _name(kind: FileKind, now: datetime) -> str:
    own = secrets.token_hex(6)
    if kind is FileKind.LOAD:
        return f"LOAD00000001-{own}"
    return f"{now:%Y%m%d-%H%M%S}{now.microsecond // 1000:03d}-{own}"


def _table_of(message: Message) -> str | None:
    """The table that an unreadable message names, if that much can be read."""
    try:
        metadata = json.loads(message.value or b"")["metadata"]
        return str(TableName(metadata["schema-name"], metadata["table-name"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _as_json(message: Message, reason: str | None) -> bytes:
    kept = {
        "shard": message.shard,
        "position": message.position,
        "reason": reason,
        "base64": message.value or b"",
    }
    return msgspec.json.encode(kept)


class _InMemory:
    """A store with one object, as far as inspecting a file needs one."""

    has_free_ranges = True

    def __init__(self, content: bytes) -> None:
        self._content = content

    @contextmanager
    def open(self, key: str, *, seekable: bool = False) -> Iterator[BinaryIO]:
        yield io.BytesIO(self._content)
