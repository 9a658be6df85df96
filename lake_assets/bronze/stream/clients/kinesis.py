"""A stream of Kinesis Data Streams.

Here: shards and their order, iterators, throttling. Not here: positions (`bronze/log/streams/`): the lake's log has
them.

A shard that is split or merged is closed, and its children have the later messages of its keys. A child is read once
its parents have no message any more, so that changes arrive nearly in order.

A poll asks first the shards that had nothing more the last time, which leave most of their share of the messages to the
others, and those before that it has not asked for longest. So neither a long backlog of one shard nor its throttling
keeps the others waiting.
"""

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from lake_assets.bronze.log.streams.stream_positions import Ranges, Read
from lake_assets.bronze.stream.clients.client import (
    EXPIRED,
    MOST_BYTES,
    SILENT_SECONDS,
    Message,
    Polled,
    StreamFault,
    StreamLost,
    Unread,
)
from lake_assets.config import KinesisConfig
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.aws_faults import aws_errors, error_code
from lake_assets.words import span

PAUSE_SECONDS = 0.25
"""Seconds between two requests for one shard: Kinesis answers five a second, to all readers together."""
RESHARD_SECONDS = 10.0
"""Seconds between two looks for new shards."""
MOST_RECORDS = 10_000
"""Of one answer, which has at most 10 MiB."""
MOST_LOOKS = 8
"""Requests for the oldest message of a shard: Kinesis may answer without messages though there are some."""
LEAST_RECORDS = 1_000
"""Messages that are asked of a shard, even if there are so many shards that its share is less."""
AT_ONCE = 4
"""Requests that are open at the same time, so that many shards do not take many round trips."""
LARGE = 4 << 20
"""Bytes of messages in an answer behind which only one request is open: an answer is in memory twice for a moment."""
THROTTLED_SECONDS = 1.0
"""Seconds for which a shard is not asked that was asked too often."""


logger = logging.getLogger(__name__)


class _Throttled(StreamFault):
    """Kinesis answers later."""


class _Expired(StreamFault):
    """The iterator was not used for five minutes."""


class _Unreached(StreamFault):
    """No answer came."""


class _Record(msgspec.Struct, rename="pascal"):
    sequence_number: str
    data: bytes
    approximate_arrival_timestamp: float
    """Seconds since 1970."""


class _Answer(msgspec.Struct, rename="pascal"):
    """An answer to GetRecords."""

    records: list[_Record]
    next_shard_iterator: str | None = None
    millis_behind_latest: int = 0


_answers = msgspec.json.Decoder(_Answer)


def _decode(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Reads the records, which takes botocore's own parser twenty times as long; it gets an answer without any. Errors
    are left to it."""
    # Two threads may have registered it at the same moment.
    if response_dict["status_code"] < 300 and "answer" not in customized_response_dict:
        customized_response_dict["answer"] = _answers.decode(response_dict["body"])
        response_dict["body"] = b'{"Records": []}'


_PUT_OFF = {
    "ProvisionedThroughputExceededException": _Throttled,
    "LimitExceededException": _Throttled,
    "KMSThrottlingException": _Throttled,
    "InternalFailure": _Throttled,
    "ServiceUnavailable": _Throttled,
    "ExpiredIteratorException": _Expired,
}
"""By the code of an error, what is tried again at the next poll."""


@dataclass(slots=True)
class _Shard:
    name: str
    parents: tuple[str, ...]
    through: str | None = None
    iterator: str | None = None
    drained: bool = False
    next_request: float = 0.0
    is_behind: bool = True
    """Whether it had more messages than it was asked for."""
    is_current: bool = False
    refused_since: float | None = None
    """None after an answer."""
    is_silent: bool = False
    """Whether it has been refused for long."""


class KinesisClient:
    """Reads all shards of a stream."""

    def __init__(self, config: KinesisConfig, aws: Aws) -> None:
        self._config, self._aws = config, aws
        self._shards: dict[str, _Shard] = {}
        self._created = ""
        self._looked = 0.0
        self._kept_for = timedelta(0)
        self._is_large = True
        """Whether an answer of the last requests was large; unknown before the first."""
        self._threads = ThreadPoolExecutor(AT_ONCE, "kinesis")

    def seek(self, read: Ranges) -> None:
        self._open(read)
        self._refuse_expired(read)
        for shard in self._shards.values():
            if (found := read.get(self._full(shard.name))) is not None:
                shard.through, shard.drained = found.through, found.drained

    def _open(self, read: Ranges) -> None:
        """Looks for the shards. Raises StreamLost if another stream was read."""
        summary = self._ask("describe_stream_summary", StreamName=self._config.name)[
            "StreamDescriptionSummary"
        ]
        self._kept_for = timedelta(hours=summary["RetentionPeriodHours"])
        self._created = f"{summary['StreamCreationTimestamp'].timestamp():.0f}"
        known = {shard.partition("/")[0] for shard in read}
        if known and self._created not in known:
            raise StreamLost(
                f"The stream {self._config.name} was made again. Have DMS reload the tables, and use a new source for "
                "the new stream."
            )
        self._shards = {}
        self._look()

    def _gone(self, read: Ranges) -> list[str]:
        """The shards that were not read to their end, and that the stream has no more."""
        return [
            shard
            for shard, r in sorted(read.items())
            if not r.drained and shard.partition("/")[2] not in self._shards
        ]

    def past_expired(self, read: Ranges) -> Ranges:
        self._open(read)
        gone = self._gone(read)
        return {
            shard: Read(r.through, r.through, 0, shard in gone) for shard, r in read.items() if not r.drained
        }

    def _refuse_expired(self, read: Ranges) -> None:
        """Kinesis itself goes on with the first message that it still has, without a word."""
        if gone := self._gone(read):
            reason = f"has no shard {gone[0]} any more, which was not read to its end"
        else:
            oldest = datetime.now(UTC) - self._kept_for
            old = {shard: r.at for shard, r in read.items() if not r.drained and r.at and r.at < oldest}
            if not old:
                return
            shard, at = min(old.items())
            reason = (
                f"keeps messages for {span(self._kept_for.total_seconds())}, and {shard} was last read at "
                f"{at:%Y-%m-%d %H:%M} UTC, so messages may be gone"
            )
        raise StreamLost(f"The stream {self._config.name} {reason}. {EXPIRED}")

    def _look(self) -> None:
        """Adds the shards that are new."""
        self._looked = time.monotonic()
        request: dict[str, Any] = {"StreamName": self._config.name}
        while True:
            answer = self._ask("list_shards", **request)
            for found in answer["Shards"]:
                parents = (found.get("ParentShardId"), found.get("AdjacentParentShardId"))
                shard = _Shard(found["ShardId"], tuple(parent for parent in parents if parent))
                self._shards.setdefault(shard.name, shard)
            if (token := answer.get("NextToken")) is None:
                return
            request = {"NextToken": token}

    def _full(self, name: str) -> str:
        return f"{self._created}/{name}"

    def _is_open(self, shard: _Shard) -> bool:
        """Whether to read it now. A parent that the stream has no more was read, or its messages have expired."""
        parents = (self._shards.get(parent) for parent in shard.parents)
        return not shard.drained and all(parent is None or parent.drained for parent in parents)

    def poll(self, seconds: float, most: int) -> Polled:
        if time.monotonic() - self._looked > RESHARD_SECONDS:
            self._look()
        end = time.monotonic() + seconds
        while True:
            polled = self._polled(most)
            if polled.messages or polled.drained or time.monotonic() >= end:
                return polled
            time.sleep(min(0.05, max(0.0, end - time.monotonic())))

    def _polled(self, most: int) -> Polled:
        """What the shards have that can be asked now."""
        found: list[Message] = []
        drained: set[str] = set()
        size, now = 0, time.monotonic()
        due = [shard for shard in self._shards.values() if self._is_open(shard) and now >= shard.next_request]
        due.sort(key=lambda shard: (shard.is_behind, shard.next_request))
        while due and len(found) < most and size < MOST_BYTES:
            left, at_once = most - len(found), 1 if self._is_large else AT_ONCE
            share = max(left // len(due), min(LEAST_RECORDS, left // AT_ONCE), 1)
            asked, due = due[: min(at_once, left)], due[min(at_once, left) :]
            answers = [*self._threads.map(self._records, asked, [min(share, MOST_RECORDS)] * len(asked))]
            sizes = [sum(len(message.value or b"") for message in messages) for messages in answers]
            found += [message for messages in answers for message in messages]
            size, self._is_large = size + sum(sizes), max(sizes) > LARGE
            drained.update(self._full(shard.name) for shard in asked if shard.drained)
        if drained:
            self._look()
        return Polled(found, frozenset(drained))

    def _records(self, shard: _Shard, most: int) -> list[Message]:
        shard.next_request = time.monotonic() + PAUSE_SECONDS
        if (answer := self._answered(shard, most)) is None:
            return []
        shard.drained = shard.iterator is None
        # An empty answer alone does not show it: Kinesis skips stretches without records.
        shard.is_current |= len(answer.records) < most and not answer.millis_behind_latest
        if answer.records:
            shard.through = answer.records[-1].sequence_number
        name = self._full(shard.name)
        return [Message(name, record.sequence_number, record.data) for record in answer.records]

    def _answer(self, iterator: str, most: int) -> _Answer:
        # A request that Kinesis refuses is not sent again at once, because the other shards would wait for it.
        client = self._aws.client("kinesis", self._config, retries={"total_max_attempts": 1})
        client.meta.events.register("before-parse.kinesis.GetRecords", _decode, "lake_assets")
        for is_last in (False, True):
            try:
                answer = self._asked(client, "get_records", ShardIterator=iterator, Limit=most)
            except _Unreached:
                # Kinesis may have closed a connection that was idle.
                if is_last:
                    raise
                continue
            found: _Answer = answer["answer"]
            break
        return found

    def _answered(self, shard: _Shard, most: int) -> _Answer | None:
        """The answer to a request for the shard's next messages; None if it has to be asked again later."""
        try:
            if shard.iterator is None:
                shard.iterator = self._iterator(shard)
            answer = self._answer(shard.iterator, most)
        except _Expired:
            shard.iterator = None
            return None
        except _Throttled as reason:
            self._note_refused(shard, reason)
            return None
        shard.refused_since, shard.is_silent = None, False
        shard.iterator = answer.next_shard_iterator
        shard.is_behind = answer.millis_behind_latest > 0
        return answer

    def _note_refused(self, shard: _Shard, reason: StreamFault) -> None:
        """Puts off the next request; warns once if the shard has become silent."""
        now = time.monotonic()
        shard.next_request = now + THROTTLED_SECONDS
        shard.refused_since = now if shard.refused_since is None else shard.refused_since
        if not shard.is_silent and now - shard.refused_since > SILENT_SECONDS:
            shard.is_silent = True
            logger.warning(
                "%s is not answered for, and its messages land when it is again. %s",
                self._full(shard.name),
                reason,
            )

    def is_current(self, *, certainly: bool = False) -> bool:
        return bool(self._shards) and all(
            shard.drained or shard.is_current or (not certainly and self._is_kept_back(shard))
            for shard in self._shards.values()
        )

    def _is_kept_back(self, shard: _Shard) -> bool:
        """Whether it is silent, or a shard that is read before it."""
        parents = (self._shards.get(parent) for parent in shard.parents)
        return shard.is_silent or any(
            parent is not None and not parent.drained and self._is_kept_back(parent) for parent in parents
        )

    def unread(self, read: Ranges) -> list[Unread]:
        self.seek(read)
        return [self._unread(shard, read) for shard in self._shards.values() if not shard.drained]

    def _unread(self, shard: _Shard, read: Ranges) -> Unread:
        name = self._full(shard.name)
        try:
            return Unread(name, self._oldest(shard))
        except _Throttled:
            landed = read[name].at if name in read else None
            created = datetime.fromtimestamp(int(self._created), UTC)
            since = landed or max(created, datetime.now(UTC) - self._kept_for)
            return Unread(name, since, is_silent=True)

    def _oldest(self, shard: _Shard) -> datetime | None:
        """When Kinesis got the next message of the shard; None if there is none. Raises _Throttled."""
        for _ in range(MOST_LOOKS):
            answer = self._answered(shard, 1)
            if answer is not None and answer.records:
                return datetime.fromtimestamp(answer.records[0].approximate_arrival_timestamp, UTC)
            if answer is not None and (shard.iterator is None or not answer.millis_behind_latest):
                return None
            time.sleep(PAUSE_SECONDS)
        raise _Throttled(f"The stream {self._config.name} does not answer for {shard.name} now.")

    def kept_for(self) -> timedelta | None:
        return self._kept_for

    def _iterator(self, shard: _Shard) -> str:
        at = {"ShardIteratorType": "TRIM_HORIZON"}
        if shard.through is not None:
            at = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": shard.through}
        answer = self._ask("get_shard_iterator", StreamName=self._config.name, ShardId=shard.name, **at)
        return str(answer["ShardIterator"])

    def _ask(self, operation: str, **request: Any) -> Any:
        """The answer."""
        return self._asked(self._aws.client("kinesis", self._config), operation, **request)

    def _asked(self, client: Any, operation: str, **request: Any) -> Any:
        try:
            return getattr(client, operation)(**request)
        except aws_errors() as error:
            code = error_code(error)
            kind = _Unreached if code is None else _PUT_OFF.get(code, StreamFault)
            raise kind(f"The stream {self._config.name} cannot be read: {error}") from error
        except msgspec.DecodeError as error:
            raise StreamFault(
                f"An answer of the stream {self._config.name} cannot be read: {error}"
            ) from error

    def close(self) -> None:
        self._shards = {}
        self._threads.shutdown()
