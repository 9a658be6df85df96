"""A stream of Kinesis Data Streams.

Here: shards and their order, iterators, throttling. Not here: positions (`bronze/log/stream_positions.py`): the lake's
log has them.

A shard that is split or merged is closed, and its children have the later messages of its keys. A child is read once
its parents have no message any more, so that changes arrive nearly in order.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lake_assets.bronze.log.stream_positions import Ranges, Read
from lake_assets.bronze.stream.clients.client import EXPIRED, Message, Polled, StreamFault, StreamLost, Unread
from lake_assets.config import KinesisConfig
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.aws_faults import aws_errors, error_code
from lake_assets.words import span

PAUSE_SECONDS = 0.25
"""Seconds between two requests for one shard: Kinesis answers five a second, to all readers together."""
RESHARD_SECONDS = 10.0
"""Seconds between two looks for new shards."""
MOST_RECORDS = 10_000
MOST_LOOKS = 8
"""Requests for the oldest message of a shard: Kinesis may answer without messages though there are some."""


class _Throttled(StreamFault):
    """Kinesis answers later."""


class _Expired(StreamFault):
    """The iterator was not used for five minutes."""


_PUT_OFF = {
    "ProvisionedThroughputExceededException": _Throttled,
    "LimitExceededException": _Throttled,
    "KMSThrottlingException": _Throttled,
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
    is_current: bool = False


class KinesisClient:
    """Reads all shards of a stream."""

    def __init__(self, config: KinesisConfig, aws: Aws) -> None:
        self._config, self._aws = config, aws
        self._shards: dict[str, _Shard] = {}
        self._created = ""
        self._looked = 0.0
        self._kept_for = timedelta(0)

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
        found: list[Message] = []
        drained: set[str] = set()
        end = time.monotonic() + seconds
        while True:
            for shard in [each for each in self._shards.values() if self._is_open(each)]:
                if len(found) < most and time.monotonic() >= shard.next_request:
                    found += self._records(shard, min(most - len(found), MOST_RECORDS))
                    if shard.drained:
                        drained.add(self._full(shard.name))
                        self._look()
            if found or drained or time.monotonic() >= end:
                return Polled(found, frozenset(drained))
            time.sleep(min(0.05, max(0.0, end - time.monotonic())))

    def _records(self, shard: _Shard, most: int) -> list[Message]:
        shard.next_request = time.monotonic() + PAUSE_SECONDS
        if (answer := self._answered(shard, most)) is None:
            return []
        shard.drained = shard.iterator is None
        records = answer["Records"]
        # An empty answer alone does not show it: Kinesis skips stretches without records.
        shard.is_current |= not records and not answer.get("MillisBehindLatest", 0)
        if records:
            shard.through = records[-1]["SequenceNumber"]
        return [
            Message(self._full(shard.name), record["SequenceNumber"], record["Data"]) for record in records
        ]

    def _answered(self, shard: _Shard, most: int) -> Any:
        """The answer to a request for the shard's next messages; None if it has to be asked again later."""
        try:
            if shard.iterator is None:
                shard.iterator = self._iterator(shard)
            answer = self._ask("get_records", ShardIterator=shard.iterator, Limit=most)
        except _Expired:
            shard.iterator = None
            return None
        except _Throttled:
            return None
        shard.iterator = answer.get("NextShardIterator")
        return answer

    def is_current(self) -> bool:
        return bool(self._shards) and all(
            shard.drained or shard.is_current for shard in self._shards.values()
        )

    def unread(self, read: Ranges) -> list[Unread]:
        self.seek(read)
        return [
            Unread(self._full(shard.name), self._oldest(shard))
            for shard in self._shards.values()
            if not shard.drained
        ]

    def _oldest(self, shard: _Shard) -> datetime | None:
        """When Kinesis got the next message of the shard; None if there is none."""
        for _ in range(MOST_LOOKS):
            answer = self._answered(shard, 1)
            if answer is not None and answer["Records"]:
                at: datetime = answer["Records"][0]["ApproximateArrivalTimestamp"]
                return at
            if answer is not None and (shard.iterator is None or not answer.get("MillisBehindLatest", 0)):
                return None
            time.sleep(PAUSE_SECONDS)
        raise StreamFault(f"The stream {self._config.name} does not answer for {shard.name} now.")

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
        try:
            return getattr(self._aws.client("kinesis", self._config), operation)(**request)
        except aws_errors() as error:
            kind = _PUT_OFF.get(error_code(error) or "", StreamFault)
            raise kind(f"The stream {self._config.name} cannot be read: {error}") from error

    def close(self) -> None:
        self._shards = {}
