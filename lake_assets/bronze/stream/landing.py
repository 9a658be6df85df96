"""The messages of a stream become files of its source, each message once.

Here: one landing: read, sort, write, log. Not here: the readers (`clients/`), the files (`landed_files.py`,
`landed_objects.py`), how often (`rounds/landings.py`).

A landing is one commit of the file log, with its files and with the positions up to which it has read. The log refuses
it if another reader has landed since. So nothing else keeps a position, any number of readers may run, and one that is
killed leaves files that no record names.
"""

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter

import msgspec

from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.bronze.log.streams.stream_positions import (
    Note,
    Overtaken,
    Read,
    merged,
    parse_transactions,
)
from lake_assets.bronze.log.streams.transaction_chain import Linked, Transactions
from lake_assets.bronze.stream.change_order import built_time, linked
from lake_assets.bronze.stream.clients import MOST_BYTES, Client, Message, Polled
from lake_assets.bronze.stream.landed_files import Files, LandedFile, Row, packed, row_of
from lake_assets.bronze.stream.landed_objects import (
    LandedObject,
    carrier_object,
    definition_object,
    rows_object,
)
from lake_assets.bronze.stream.messages import LOAD, MARK, Control, Unreadable, parse
from lake_assets.bronze.stream.table_definitions import Definition, defined, definition_of
from lake_assets.bronze.stream.table_definitions import content as content_of
from lake_assets.config import SourceConfig, TableName
from lake_assets.storage.object_store import ObjectStore

MOST_MESSAGES = 50_000
"""The most messages of one landing; a look for a definition may double it."""
LARGEST_MESSAGE = 32 << 20
"""Bytes. Kinesis takes at most 10 MiB; a file that needs the strict reader may not have more than 64 MiB."""
WRITES_AT_ONCE = 8
"""Files that are written at the same time: each takes two requests, and a landing may have a file of each table."""

DEFINITION_SECONDS = 2.0
"""How long rows with a new column wait for the record that defines it."""
QUIET_FOR = timedelta(hours=6)
"""Kinesis keeps messages for a day at least."""
GAP_AFTER = timedelta(seconds=10)
"""For so long, changes that are missing in the middle may still arrive: DMS puts what was refused behind others."""

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
    unclear: Counter[str] = field(default_factory=Counter)
    """Control records that do not say what they change."""
    faults: list[Fault] = field(default_factory=list)
    unconfigured: Counter[str] = field(default_factory=Counter)
    """Rows by table that lake.yaml does not name."""
    changes: list[Linked] = field(default_factory=list)
    gap: str | None = None
    """What is missing, if changes were given up."""


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
        self._sought = datetime.now(UTC)
        """When the reader began at its position."""
        self._gaps = 0
        """How many the log has."""
        self._defined: dict[str, tuple[datetime, Definition]] = {}
        """By table, the newest definition of its columns, and its time."""

    def skip_expired(self) -> None:
        """Goes on with the messages that the stream still has. Raises as `land`, and Overtaken."""
        if ranges := self._client.past_expired(self._log.read(self._name)):
            self._log.land(self._name, [self._carrier([], datetime.now(UTC))], Note(ranges))
        self._read = None

    def land(self, seconds: float) -> Landed:
        """Lands what the stream has; waits at most so long for a message. Raises StreamFault, StreamLost, StoreError,
        and as `FileLog.append`; then nothing is landed, and the next call reads again."""
        if self._read is None:
            read, self._sought = self._log.read(self._name), datetime.now(UTC)
            self._client.seek(read)
            self._gaps = self._log.transactions(self._name).gaps
            self._read, self._defined = read, self._logged_definitions()
        try:
            polled = self._client.poll(seconds, MOST_MESSAGES)
            found = self._landed(polled, self._read)
            if found is None:
                self._defined = self._logged_definitions()
                found = self._landed(self._with_later(polled), self._read)
            assert found is not None, "it waits once for a column"
            return found
        except Overtaken as other:
            logger.info("%s", other)
            self._read = None
            return Landed()
        except BaseException:
            # What was read is not landed: the next call reads it again.
            self._read = None
            raise

    def _with_later(self, polled: Polled) -> Polled:
        """The messages, and those of the next seconds: the record that defines a column is in another shard than the
        rows that have it."""
        end = time.monotonic() + DEFINITION_SECONDS
        while (left := end - time.monotonic()) > 0 and self._has_room(polled):
            polled += self._client.poll(left, MOST_MESSAGES)
            time.sleep(0.05)
        return polled

    def _has_room(self, polled: Polled) -> bool:
        size = sum(len(message.value or b"") for message in polled.messages)
        return size < MOST_BYTES and len(polled.messages) < 2 * MOST_MESSAGES

    def _landed(self, polled: Polled, read: dict[str, Read]) -> Landed | None:
        """What has landed; None, and nothing has, if a row has a column for the first time that DMS has not defined."""
        ranges = _ranges(polled, read) or _quiet(read, datetime.now(UTC))
        if not ranges:
            return Landed()
        done, rest = Landed(messages=len(polled.messages)), list[bytes]()
        now, rows, files = datetime.now(UTC), 0, list[Future[NewFile]]()
        # First, because a record may arrive after rows that it is about.
        definitions = [*self._definitions(_controls(polled.messages), done)]
        before, transferred = self._log.loads(self._name)
        created = merged(before, done.created)
        with ThreadPoolExecutor(WRITES_AT_ONCE, "landing") as writers:
            for table, at, definition in definitions:
                found = definition_object(table, at, content_of(definition))
                files.append(writers.submit(found.written, self._store))
            rows_of = self._rows(sorted(polled.messages, key=_is_change), done, rest)
            for file in self._files.of(rows_of, created, transferred):
                files.append(writers.submit(self._object(file, now).written, self._store))
                rows += file.rows
        new = [file.result() for file in files]
        assert rows + done.controls + len(done.faults) == done.messages, "each message is landed once"
        if self._files.has_undefined_columns():
            return None
        if done.faults:
            self._hold(done.faults)
        if rest or not new:
            new.append(self._carrier(rest, now))
        searched = self._sought - GAP_AFTER if self._client.is_current(certainly=True) else None
        note = Note(ranges, done.created, done.changes, searched)
        done.logged = self._log.land(self._name, new, note)
        read |= {shard: replace(one, at=now) for shard, one in ranges.items()}
        self._look_for_gaps(parse_transactions(done.logged[0].ranges or "{}"), done)
        return done

    def _look_for_gaps(self, found: Transactions | None, done: Landed) -> None:
        """Reads all shards to their ends once more if changes have been missing for long: are they gone?"""
        assert found is not None, "each landing notes it"
        if found.gaps > self._gaps:
            self._gaps, done.gap = found.gaps, found.gap_sentence
        if found.others and self._sought < found.others[0].since + GAP_AFTER < datetime.now(UTC):
            self._read = None

    def _definitions(
        self, controls: Sequence[tuple[datetime, Control]], done: Landed
    ) -> Iterator[tuple[TableName, datetime, Definition]]:
        """The tables whose columns the control records change, in order: when, and to what. Adds what the records say
        to `done`."""
        for at, control in controls:
            table = TableName(*control.metadata.table)
            if (operation := control.metadata.operation) == "create-table":
                done.created.setdefault(str(table), []).append(at)
            since, before = self._defined.get(str(table), (None, None))
            if since is not None and at <= since:
                continue  # it comes again
            after = defined(control, before, self._source.dms.change_sequence_column)
            if after is None and operation not in ("create-table", "drop-table"):
                done.unclear[f"{operation} of {table}"] += 1
            if after is not None and after != before:
                self._defined[str(table)] = at, after
                self._files.define(str(table), after)
                yield table, at, after

    def _logged_definitions(self) -> dict[str, tuple[datetime, Definition]]:
        """By table, the newest definition of its columns in the log, and its time."""
        found = {}
        for file in self._log.files(self._name):
            if file.format == "parquet":
                found[file.qualified_table] = file.written_at, definition_of(file)
        for table, (_, definition) in found.items():
            self._files.define(table, definition)
        return found

    def _object(self, file: LandedFile, now: datetime) -> LandedObject:
        name, at = TableName.parse(file.table), file.built or now
        found = rows_object(name, file.kind, at, file.content(), file.first)
        assert found.inspected.rows == file.rows, "each row is a record of the file"
        return found

    def _carrier(self, rest: list[bytes], now: datetime) -> NewFile:
        return carrier_object(now, packed(rest)).written(self._store)

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
            if (change := linked(found.change.metadata, found.sequence, found.at)) is not None:
                done.changes.append(change)
            yield found

    def _sorted(self, message: Message) -> Row | Control:
        if message.value is None:
            raise Unreadable("it is empty")
        if len(message.value) > LARGEST_MESSAGE:
            raise Unreadable(
                f"it has {len(message.value) >> 20} MiB, and the lake reads messages of up to "
                f"{LARGEST_MESSAGE >> 20} MiB"
            )
        found = parse(message.value, self._source.dms.before_image_settings.field_name)
        return found if isinstance(found, Control) else row_of(found, self._source, self._stream)


def _controls(messages: Sequence[Message]) -> list[tuple[datetime, Control]]:
    """The control records that say when DMS built them, in that order."""
    found = []
    for message in messages:
        if message.value is None or MARK not in message.value:
            continue
        with suppress(Unreadable):  # `_rows` reports it
            record = parse(message.value)
            if isinstance(record, Control) and (at := built_time(record.metadata)) is not None:
                found.append((at, record))
    return sorted(found, key=itemgetter(0))


def _is_change(message: Message) -> bool:
    """Whether a message may be one of those that are not of a full load."""
    return LOAD not in (message.value or b"")


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
