"""What a user hears of messages that have not landed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lake_assets.bronze.log.streams.transaction_chain import Transactions
from lake_assets.bronze.stream.backlog import Backlog, Backlogs
from lake_assets.bronze.stream.clients import StreamFault, Unread
from lake_assets.config import StreamConfig

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
STREAM = StreamConfig.model_validate({"kafka": {"bootstrap_servers": "b", "topic": "t"}, "engine": "mysql"})

SILENT = Unread("s0", NOW - timedelta(hours=1), is_silent=True)


def backlog(*ages: float | None, kept: float | None = 24.0, **more: Any) -> Backlog:
    """By shard, how many minutes its oldest message is old. `kept`: hours."""
    shards = [
        Unread(f"s{n}", None if age is None else NOW - timedelta(minutes=age)) for n, age in enumerate(ages)
    ]
    return Backlog(tuple(shards), None if kept is None else timedelta(hours=kept), NOW, **more)


@pytest.mark.parametrize(
    ("found", "sentence", "is_late"),
    [
        (backlog(None, None), "everything has landed, of 2 shards", False),
        (
            backlog(None, 4.0),
            "1 of 2 shards has messages that have not landed, the oldest since 4 min in s1; it expires in 23 h 56 min",
            False,
        ),
        (
            backlog(60.0, 4.0, kept=None),
            "2 of 2 shards have messages that have not landed, the oldest since 1 h in s0",
            True,
        ),
        (
            backlog(None, transactions=Transactions(gaps=2), again_lately=1),
            "everything has landed, of 1 shard; 2 gaps in its transactions; 1 change came again in the last minute",
            False,
        ),
        (
            Backlog((SILENT, Unread("s1", None), Unread("s2", NOW)), timedelta(hours=24), NOW),
            "1 of 3 shards does not answer, and nothing of s0 has landed for 1 h; 1 of 3 shards has messages that have "
            "not landed, the oldest since 0.0 s in s2; it expires in 1 d",
            True,
        ),
        (
            Backlog((replace(SILENT, since=NOW), Unread("s1", None)), timedelta(hours=24), NOW),
            "1 of 2 shards does not answer, and nothing of s0 has landed for 0.0 s; everything else has landed",
            True,
        ),
        (Backlog(problem="The topic t cannot be read."), "The topic t cannot be read.", True),
        (
            Backlog((Unread("s0", None, is_lost=True),), None, NOW),
            "messages of s0 have expired that had not landed. Land what it still has with `lake-assets stream "
            "--skip-expired`, and have DMS reload the tables: until then, changes are missing.",
            True,
        ),
    ],
)
def test_the_sentence(found: Backlog, sentence: str, is_late: bool) -> None:
    assert found.sentence == sentence
    assert found.is_late(timedelta(minutes=10)) is is_late


class _Log:
    def read(self, source: str) -> dict[str, Any]:
        return {}

    def transactions(self, source: str) -> Transactions:
        return Transactions()

    def records(self, source: str) -> list[Any]:
        return []


class _Client:
    asked = 0

    def __init__(self, stream: StreamConfig) -> None:
        pass

    def unread(self, read: Any) -> list[Unread]:
        _Client.asked += 1
        raise StreamFault("It is away.")

    def close(self) -> None:
        pass


def test_a_stream_is_asked_once_in_a_while() -> None:
    found: Any = Backlogs(_Log(), _Client)  # type: ignore[arg-type]
    assert [found.of("shop", STREAM).problem for _ in range(3)] == ["It is away."] * 3
    assert _Client.asked == 1
