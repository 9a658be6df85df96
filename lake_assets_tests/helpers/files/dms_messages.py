"""Messages as AWS DMS writes them to a stream, and a stream in memory.

Here: the shapes that real messages have, and a stream that several readers read. Not here: real servers
(`helpers/servers/`).
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from lake_assets.bronze.log.streams.stream_positions import Ranges
from lake_assets.bronze.stream.clients import Message, Polled, Unread

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

ODD = [
    *("\r", "a\r", "\r\n", "a\nb", '"', '""', ","),
    *("\ufeff", "\x00", "a\x00b", "\\", "\u2028", " x ", "NULL", "'", "\x1a"),
]
"""Texts that a reader of CSV may take for something else."""


def message(
    operation: str,
    data: Mapping[str, Any],
    *,
    before: Mapping[str, Any] | None = None,
    table: str = "public.items",
    transaction: int = 0,
    record: int = 1,
    at: datetime = NOON,
    **metadata: Any,
) -> bytes:
    """A data record with all transaction details. `transaction`: the position in the first file of a binary log."""
    schema, name = table.split(".")
    said: dict[str, Any] = {
        "timestamp": f"{at + timedelta(seconds=1):%Y-%m-%dT%H:%M:%S.%f}Z",
        "record-type": "data",
        "operation": operation,
        "partition-key-type": "primary-key",
        "schema-name": schema,
        "table-name": name,
    }
    if operation != "load":
        said |= {
            "transaction-id": (1 << 32) + transaction,
            "transaction-record-id": record,
            "commit-timestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z",
        }
    found: dict[str, Any] = {"data": dict(data)}
    if before is not None:
        found["before-image"] = dict(before)
    return json.dumps(found | {"metadata": said | metadata}, indent="\t").encode()


def control(
    operation: str, details: Any = None, *, table: str = "public.items", at: datetime = NOON
) -> bytes:
    """A control record."""
    schema, name = table.split(".")
    said = {
        "timestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z",
        "record-type": "control",
        "operation": operation,
        "schema-name": schema,
        "table-name": name,
    }
    return json.dumps({"control": details, "metadata": said}).encode()


@dataclass
class MemoryStream:
    """Shards with messages. A reader takes from each shard in turn, a few messages at a time, and opens a shard when
    its parents are drained."""

    shards: dict[str, list[bytes | None]] = field(default_factory=lambda: defaultdict(list))
    closed: set[str] = field(default_factory=set)
    at: datetime = NOON
    """When the messages came."""
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    throttled: set[str] = field(default_factory=set)
    """Shards that are read later."""

    def put(self, shard: str, *values: bytes | None) -> None:
        self.shards[shard] += values

    def reshard(self, closed: Sequence[str], opened: Sequence[str]) -> None:
        """Shards are closed, and others follow them."""
        self.closed |= {*closed}
        for shard in opened:
            self.parents[shard] = (*closed,)
            self.shards[shard] = []

    def client(self, at_once: int = 1000) -> "MemoryClient":
        return MemoryClient(self, at_once)


class MemoryClient:
    """A reader of a stream in memory; a position is the number of a message."""

    def __init__(self, stream: MemoryStream, at_once: int) -> None:
        self._stream, self._at_once = stream, at_once
        self._next: dict[str, int] = {}
        self._drained: set[str] = set()

    def seek(self, read: Ranges) -> None:
        self._next = {shard: int(r.through) + 1 for shard, r in read.items() if r.through is not None}
        self._drained = {shard for shard, r in read.items() if r.drained}

    def poll(self, seconds: float, most: int) -> Polled:
        found: list[Message] = []
        drained = set()
        for shard, values in self._stream.shards.items():
            if shard in self._stream.throttled or not self._drained.issuperset(self._parents(shard)):
                continue
            begin = self._next.get(shard, 0)
            taken = values[begin : begin + min(self._at_once, most - len(found))]
            found += [Message(shard, str(begin + n), value) for n, value in enumerate(taken)]
            self._next[shard] = begin + len(taken)
            if shard in self._stream.closed - self._drained and self._next[shard] == len(values):
                drained.add(shard)
        self._drained |= drained
        return Polled(found, frozenset(drained))

    def _parents(self, shard: str) -> tuple[str, ...]:
        return self._stream.parents.get(shard, ())

    def is_current(self, *, certainly: bool = False) -> bool:
        """A throttled shard does not answer."""
        silent = set() if certainly else self._stream.throttled
        return all(
            self._next.get(shard, 0) >= len(values)
            for shard, values in self._stream.shards.items()
            if shard not in silent
        )

    def unread(self, read: Ranges) -> list[Unread]:
        self.seek(read)
        return [
            Unread(shard, self._stream.at if self._next.get(shard, 0) < len(values) else None)
            for shard, values in self._stream.shards.items()
        ]

    def past_expired(self, read: Ranges) -> Ranges:
        return {}

    def kept_for(self) -> timedelta | None:
        return timedelta(hours=24)

    def close(self) -> None:
        pass
