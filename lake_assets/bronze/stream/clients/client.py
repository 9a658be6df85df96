"""What the lake needs of a stream: its messages by shard, from a position on.

Here: the interface. Not here: Kinesis (`kinesis.py`), Kafka (`kafka.py`), what a message says (`messages.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from lake_assets.bronze.log.streams.stream_positions import Ranges
from lake_assets.storage.object_store import StoreError

EXPIRED = (
    "Land what it still has with `lake-assets stream --skip-expired`, and have DMS reload the tables: until then, "
    "changes are missing."
)
"""What to do when messages have expired."""
MOST_BYTES = 32 << 20
"""Bytes of the messages of one poll, about: it ends behind the answer with which it has more. A message may have ten
megabytes, and one of a poll is in memory several times while it lands."""

SILENT_SECONDS = 10.0
"""How long a shard is asked without an answer until a reader that wants all messages of now goes on without it."""


class StreamFault(StoreError):
    """The stream cannot be read now."""


class StreamLost(StreamFault):
    """Messages that were not read are gone: the stream keeps them no longer, or was made again."""


class Message(NamedTuple):
    """One message."""

    shard: str
    """The shard or partition, with the identity of the stream: one that is made again has other shards."""
    position: str
    """The sequence number or offset."""
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Polled:
    """What a poll found."""

    messages: Sequence[Message]
    """Those of a shard in their order."""
    drained: frozenset[str] = frozenset()
    """Closed shards that have no further message."""

    def __add__(self, later: "Polled") -> "Polled":
        """Both, where the other poll was the next one."""
        return Polled([*self.messages, *later.messages], self.drained | later.drained)


@dataclass(frozen=True, slots=True)
class Unread:
    """What a shard has that has not landed."""

    shard: str
    since: datetime | None
    """When the stream got the oldest such message, UTC; None if there is none."""
    messages: int | None = None
    """How many, at most; None where the stream does not say it."""
    is_lost: bool = False
    """Whether messages have expired that had not landed."""
    is_silent: bool = False
    """Whether the stream does not answer for it now. `since` is then when a message of it landed last, or the earliest
    time of one that it may have."""


class Client(Protocol):
    """A reader of one stream. Every method may raise StreamFault."""

    def seek(self, read: Ranges) -> None:
        """Reads on behind these positions, and other shards from their beginning. Raises StreamLost."""
        ...

    def poll(self, seconds: float, most: int) -> Polled:
        """At most so many messages, of about MOST_BYTES at most, and waits at most so long for the first. Raises
        StreamLost."""
        ...

    def is_current(self, *, certainly: bool = False) -> bool:
        """Whether everything has been polled that the stream had at a moment since `seek`; except for shards that have
        not answered for SILENT_SECONDS, unless `certainly`."""
        ...

    def unread(self, read: Ranges) -> list[Unread]:
        """What the stream has behind these positions, by shard. Moves this reader. Raises StreamLost."""
        ...

    def past_expired(self, read: Ranges) -> Ranges:
        """What has to be logged as read, so that reading goes on with the messages that the stream still has. Raises
        StreamLost if it was made again."""
        ...

    def kept_for(self) -> timedelta | None:
        """How long the stream keeps a message; None: for ever. Call `unread` before."""
        ...

    def close(self) -> None: ...
