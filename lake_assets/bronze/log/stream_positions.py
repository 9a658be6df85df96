"""How far a stream was read: by shard, beside the files that have its messages.

Here: the ranges of one landing, and the positions after all landings. Not here: committing them
(`file_log.py`). Pure.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Read:
    """What one landing has read of a shard."""

    after: str | None
    """The position of the last message before; None if there was none."""
    through: str | None
    """The position of the last message of the landing."""
    messages: int
    drained: bool = False
    """Whether the shard is closed, and has no message any more."""
    at: datetime | None = field(default=None, compare=False)
    """When the landing was logged, UTC; None before it is."""


Ranges = Mapping[str, Read]
"""By shard."""


class Overtaken(Exception):
    """Another reader has landed messages of the same shard: read on from its position."""

    def __init__(self, source: str, shard: str) -> None:
        super().__init__(f"{source}: another reader has landed messages of {shard}")


def ranges_text(ranges: Ranges) -> str:
    """The ranges as the log has them."""
    return json.dumps(
        {shard: [r.after, r.through, r.messages, r.drained] for shard, r in sorted(ranges.items())}
    )


def parse_ranges(text: str, at: datetime | None = None) -> dict[str, Read]:
    """The ranges of a record of the log, which was logged at that time."""
    return {
        shard: Read(after, through, messages, drained, at)
        for shard, (after, through, messages, drained) in json.loads(text).items()
    }


def overtaken(ranges: Ranges, read: Ranges) -> str | None:
    """The shard of which another reader has landed messages since; None if there is none. `read`: the newest ranges of
    the log."""
    for shard, own in ranges.items():
        newest = read.get(shard)
        if own.after != (newest.through if newest is not None else None) or (newest and newest.drained):
            return shard
    return None
