"""How far a stream was read: by shard, beside the files that have its messages.

Here: what one landing notes in the log, and reading its note. Not here: committing it (`file_log.py`), the chain of
transactions (`transaction_chain.py`). Pure.
"""

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType

from lake_assets.bronze.log.streams.transaction_chain import Linked, Transactions, from_json

_loaded = lru_cache(maxsize=1)(json.loads)
"""The note of a record, of which all parts are read one after the other."""


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


Created = Mapping[str, Sequence[datetime]]
"""By `schema.table`, when DMS reported that it creates the table; UTC, on DMS's clock. It does so before each full
load, and when a task starts. The rows of two loads are before and behind such a time."""
NOTHING_CREATED: Created = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Note:
    """What one landing has read, beside the rows in its files."""

    ranges: Ranges
    created: Created = field(default_factory=dict)
    """The tables that DMS created."""
    changes: Sequence[Linked] = ()
    searched: datetime | None = None
    """UTC. What is missing before changes that had landed by then is in no shard."""

    def text(self, transactions: Transactions | None) -> str:
        """As the log has it. `transactions`: what has landed of them, this landing included; None in the note of a file
        that has the rows of several landings."""
        shards = {
            shard: [r.after, r.through, r.messages, r.drained] for shard, r in sorted(self.ranges.items())
        }
        chain = {} if transactions is None else {"transactions": astuple(transactions)}
        said = {"shards": shards, "created": dict(sorted(self.created.items())), **chain}
        return json.dumps(said, default=datetime.isoformat)


def parse_ranges(text: str, at: datetime | None = None) -> dict[str, Read]:
    """The ranges of a record of the log, which was logged at that time."""
    return {
        shard: Read(after, through, messages, drained, at)
        for shard, (after, through, messages, drained) in _loaded(text)["shards"].items()
    }


def parse_created(text: str) -> dict[str, list[datetime]]:
    """The tables that a record of the log reports as created."""
    return {
        table: [datetime.fromisoformat(at) for at in found]
        for table, found in _loaded(text)["created"].items()
    }


def parse_transactions(text: str) -> Transactions | None:
    """What had landed of the source's transactions, by a record of the log; None if it does not say it."""
    found = _loaded(text).get("transactions")
    return None if found is None else from_json(found)


def merged(before: Created, more: Created) -> dict[str, list[datetime]]:
    """Both, each time once, in order."""
    return {table: sorted({*before.get(table, ()), *more.get(table, ())}) for table in {*before, *more}}


def load_number(created: Sequence[datetime], at: datetime) -> int:
    """Which of a table's loads a row is of that DMS transferred at this time: how often the table was created until
    then."""
    return bisect_right(created, at)


def refuse_overtaken(source: str, ranges: Ranges, read: Ranges) -> None:
    """Raises Overtaken if another reader has landed messages of a shard since. `read`: the newest ranges of the log."""
    for shard, own in ranges.items():
        newest = read.get(shard)
        if own.after != (newest.through if newest is not None else None) or (newest and newest.drained):
            raise Overtaken(source, shard)
