"""The state of streams: what has not landed, how old it is, when it expires, what is missing, what came again.

Here: asking each stream and the log, and the sentence for a user. Not here: the requests (`clients/`), who is told
(`commands/show/status.py`, `orchestration/checks/stream_check.py`).

The stream itself is asked, not the process that lands: that one may be dead.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.streams.stream_positions import parse_transactions
from lake_assets.bronze.log.streams.transaction_chain import Transactions
from lake_assets.bronze.stream.clients import EXPIRED, Client, Unread
from lake_assets.config import StreamConfig
from lake_assets.storage.object_store import StoreError
from lake_assets.words import does, many, span

LATELY = timedelta(minutes=1)
ASK_SECONDS = 10.0
"""Seconds for which an answer is kept: Kinesis answers five requests a second, to all together."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What one source's stream has that has not landed."""

    shards: tuple[Unread, ...] = ()
    kept_for: timedelta | None = None
    """How long the stream keeps a message; None: for ever."""
    asked: datetime | None = None
    """UTC; None if the stream cannot be asked."""
    problem: str | None = None
    """Why it cannot be asked."""
    transactions: Transactions = field(default_factory=Transactions)
    """What has landed of them."""
    again_lately: int = 0
    """Changes that had landed before, and came again in the last minute."""

    @property
    def waiting(self) -> list[Unread]:
        """The shards that have messages which have not landed."""
        return [shard for shard in self.shards if shard.since is not None and not shard.is_silent]

    @property
    def silent(self) -> list[Unread]:
        """The shards that the stream does not answer for."""
        return [shard for shard in self.shards if shard.is_silent]

    @property
    def is_empty(self) -> bool:
        """Whether everything has landed, for certain."""
        return self.problem is None and not (self.waiting or self.silent or self.lost)

    @property
    def lost(self) -> list[str]:
        """The shards of which messages have expired that had not landed."""
        return [shard.shard for shard in self.shards if shard.is_lost]

    @property
    def seconds(self) -> float:
        """The age of the oldest message that has not landed; 0 without any."""
        return max(map(self._age, self.waiting), default=0.0)

    def _age(self, shard: Unread) -> float:
        if shard.since is None or self.asked is None:
            return 0.0
        return max(0.0, (self.asked - shard.since).total_seconds())

    @property
    def seconds_left(self) -> float | None:
        """The time until that message expires; None without one, or if the stream keeps messages for ever."""
        if self.kept_for is None or not self.waiting:
            return None
        return self.kept_for.total_seconds() - self.seconds

    def is_late(self, limit: timedelta) -> bool:
        """Whether the user has to act: messages wait for longer than the limit, are lost, or nobody knows."""
        unknown = self.problem is not None or bool(self.silent)
        return unknown or bool(self.lost) or self.seconds > limit.total_seconds()

    @property
    def sentence(self) -> str:
        """The state of the stream, as a sentence."""
        if self.problem is not None:
            return self.problem
        if self.lost:
            return f"messages of {min(self.lost)} have expired that had not landed. {EXPIRED}"
        return "; ".join([*self._silence, *self._landed, *self._chain])

    @property
    def _chain(self) -> Iterator[str]:
        if gaps := self.transactions.gaps:
            yield f"{many(gaps, 'gap')} in its transactions"
        if self.again_lately:
            yield f"{many(self.again_lately, 'change')} came again in the last minute"

    @property
    def _silence(self) -> Iterator[str]:
        if silent := self.silent:
            oldest, shards = max(silent, key=self._age), many(len(self.shards), "shard")
            yield (
                f"{len(silent)} of {shards} {does(len(silent), 'do')} not answer, and nothing of {oldest.shard} has "
                f"landed for {span(self._age(oldest))}"
            )

    @property
    def _landed(self) -> Iterator[str]:
        shards, waiting, silent = many(len(self.shards), "shard"), self.waiting, self.silent
        if not waiting:
            if len(silent) < len(self.shards):
                yield "everything else has landed" if silent else f"everything has landed, of {shards}"
            return
        oldest = max(waiting, key=self._age)
        yield (
            f"{len(waiting)} of {shards} {does(len(waiting), 'have')} messages that have not landed, the oldest since "
            f"{span(self.seconds)} in {oldest.shard}"
        )
        if (left := self.seconds_left) is not None:
            yield f"it expires in {span(left)}"


class Backlogs:
    """The backlog of each source. May be shared between threads."""

    def __init__(self, log: FileLog, opened: Callable[[StreamConfig], Client]) -> None:
        self._log, self._opened = log, opened
        self._known: dict[str, tuple[float, Backlog]] = {}

    def of(self, source: str, stream: StreamConfig) -> Backlog:
        """The source's backlog, at most ASK_SECONDS old. Never raises for a stream that cannot be asked."""
        at, known = self._known.get(source, (0.0, None))
        if known is None or time.monotonic() - at > ASK_SECONDS:
            known = self._asked(source, stream)
            self._known[source] = (time.monotonic(), known)
        return known

    def _asked(self, source: str, stream: StreamConfig) -> Backlog:
        client = self._opened(stream)
        try:
            shards, now = client.unread(self._log.read(source)), datetime.now(UTC)
            found, before = self._log.transactions(source), self._before_lately(source, now)
            again = found.again - before.again
            return Backlog(tuple(shards), client.kept_for(), now, transactions=found, again_lately=again)
        except ImportError as error:
            return Backlog(problem=f"the stream cannot be asked: {error.name} is not installed")
        except StoreError as error:
            return Backlog(problem=str(error))
        finally:
            client.close()

    def _before_lately(self, source: str, now: datetime) -> Transactions:
        """What had landed of the transactions a minute ago."""
        for file in reversed(self._log.records(source)):
            is_earlier = file.ranges is not None and now - file.logged_at > LATELY
            if is_earlier and (found := parse_transactions(file.ranges or "")) is not None:
                return found
        return Transactions()
