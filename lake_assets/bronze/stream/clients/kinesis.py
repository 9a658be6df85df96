"""A stream of Kinesis Data Streams.

Here: shards and their order, iterators, throttling. Not here: positions (`bronze/log/stream_positions.py`): the lake's
log has them.

A shard that is split or merged is closed, and its children have the later messages of its keys. A child is read once
its parents have no message any more, so that changes arrive nearly in order.
"""

import time
from dataclasses import dataclass
from typing import Any

from lake_assets.bronze.log.stream_positions import Ranges
from lake_assets.bronze.stream.clients.client import Message, Polled, StreamFault, StreamLost
from lake_assets.config import KinesisConfig
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.aws_faults import aws_errors, error_code

PAUSE_SECONDS = 0.25
"""Seconds between two requests for one shard: Kinesis answers five a second, to all readers together."""
RESHARD_SECONDS = 10.0
"""Seconds between two looks for new shards."""
MOST_RECORDS = 10_000


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

    def seek(self, read: Ranges) -> None:
        summary = self._ask("describe_stream_summary", StreamName=self._config.name)[
            "StreamDescriptionSummary"
        ]
        self._created = f"{summary['StreamCreationTimestamp'].timestamp():.0f}"
        known = {shard.partition("/")[0] for shard in read}
        if known and self._created not in known:
            raise StreamLost(
                f"The stream {self._config.name} was made again. Have DMS reload the tables, and use a new source for "
                "the new stream."
            )
        self._shards = {}
        self._look()
        gone = [
            shard
            for shard, r in read.items()
            if not r.drained and shard.partition("/")[2] not in self._shards
        ]
        if gone:
            raise StreamLost(
                f"The stream {self._config.name} has no shard {min(gone)} any more, which was not read to its end: its "
                "retention has passed. Have DMS reload the tables."
            )
        for shard in self._shards.values():
            if (found := read.get(self._full(shard.name))) is not None:
                shard.through, shard.drained = found.through, found.drained

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
        try:
            if shard.iterator is None:
                shard.iterator = self._iterator(shard)
            answer = self._ask("get_records", ShardIterator=shard.iterator, Limit=most)
        except _Expired:
            shard.iterator = None
            return []
        except _Throttled:
            return []
        shard.iterator = answer.get("NextShardIterator")
        shard.drained = shard.iterator is None
        records = answer["Records"]
        # An empty answer alone does not show it: Kinesis skips stretches without records.
        shard.is_current |= not records and not answer.get("MillisBehindLatest", 0)
        if records:
            shard.through = records[-1]["SequenceNumber"]
        return [
            Message(self._full(shard.name), record["SequenceNumber"], record["Data"]) for record in records
        ]

    def is_current(self) -> bool:
        return bool(self._shards) and all(
            shard.drained or shard.is_current for shard in self._shards.values()
        )

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
