"""The chain of a stream's transactions: what has landed whole, whatever the order of arrival. Not here: silver at a cut
(`silver/test_stream_cut.py`)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random

import pytest

from lake_assets.bronze.log.streams import transaction_chain
from lake_assets.bronze.log.streams.stream_positions import Note, parse_transactions
from lake_assets.bronze.log.streams.transaction_chain import Linked, Transactions
from lake_assets_tests.helpers.files.dms_files import NOON

SECOND = timedelta(seconds=1)


def history(random: Random, transactions: int, whole_seconds: bool) -> list[list[Linked]]:
    """Transactions in the order of their commits. `whole_seconds`: as in MySQL, commits have no fraction."""
    found, before, at = list[list[Linked]](), None, NOON
    for number in range(1, transactions + 1):
        at += SECOND * random.choice([0.1, 0.3, 2])
        commit = at.replace(microsecond=0) if whole_seconds else at
        changes = []
        for record in range(1, random.choice([1, 1, 2, 5]) + 1):
            place = (number * 100, record)
            changes.append(Linked(f"{number:016d}{record:019d}", place, before, commit))
            before = place
        found.append(changes)
    return found


def arrivals(random: Random, changes: Sequence[Linked]) -> list[Linked]:
    """Out of order by some places, some of them twice, and with a replay of a stretch."""
    found = sorted(changes, key=lambda change: changes.index(change) + random.uniform(0, 8))
    for _ in range(random.choice([0, 3])):
        again, place = random.choice(found), random.randrange(len(found))
        found.insert(max(place, found.index(again)), again)
    begin = random.randrange(len(found))
    replay, end = found[begin : begin + 12], min(len(found), begin + 20)
    return [*found[:end], *replay, *found[end:]] if random.random() < 0.5 else found


@pytest.mark.parametrize("seed", range(300))
def test_only_whole_transactions_are_before_the_time(seed: int) -> None:
    check(Random(seed), seed)


@pytest.mark.parametrize("seed", range(300, 400))
def test_more_loose_ends_than_a_note_lists(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not listed counts as missing until all shards were read to their ends, and is no gap then."""
    monkeypatch.setattr(transaction_chain, "MOST_PARTS", 2)
    check(Random(seed), seed, searched=NOON + timedelta(days=1))


def read_again(found: Transactions) -> Transactions:
    """As a process finds it in the log."""
    again = parse_transactions(Note({}).text(found))
    assert again is not None
    return again


def check(random: Random, seed: int, searched: datetime | None = None) -> None:
    all_of = history(random, 25, whole_seconds=seed % 2 == 0)
    changes = [change for one in all_of for change in one]
    coming, landed, found, now = arrivals(random, changes), set[Linked](), Transactions(), NOON
    moved, begun = 0, ""
    while coming:
        number = random.randint(1, 9)
        part, coming = coming[:number], coming[number:]
        now += SECOND
        landed |= {*part}
        before, found = found, read_again(found.with_landed(part, now))
        assert found.whole is not None
        assert before.whole is None or found.whole >= before.whole
        moved += before.whole is not None and found.whole > before.whole
        # Nobody knows what was before the first landing.
        begun = begun or min(change.sequence for change in landed)
        for one in all_of:
            if one[0].at <= found.whole and one[0].sequence >= begun:
                assert {*one} <= landed, f"{one} of before {found.whole}"
    assert moved, "the time never moved"
    found = found.with_landed([], now, searched)
    assert found.gaps == 0
    assert found.others == ()
    assert found.main is not None
    assert found.main.last == changes[-1].place
    assert found.whole == min(all_of[-2][0].at, all_of[-1][0].at - timedelta(microseconds=1))


def linked(*changes: tuple[int, int, tuple[int, int] | None]) -> list[Linked]:
    """By transaction, number, and the change before; each transaction is committed at its second."""
    return [
        Linked(f"{number:016d}{record:019d}", (number, record), before, NOON + number * SECOND)
        for number, record, before in changes
    ]


def test_a_missing_transaction_holds_the_time_back_until_it_is_a_gap() -> None:
    first = linked((1, 1, None), (2, 1, (1, 1)), (3, 1, (2, 1)))
    behind = linked((5, 1, (4, 1)), (6, 1, (5, 1)), (7, 1, (6, 1)))
    found = Transactions().with_landed(first, NOON).with_landed(behind, NOON + SECOND)
    assert found.whole == NOON + 2 * SECOND
    for searched in (None, NOON):
        assert found.with_landed([], NOON + 9 * SECOND, searched) == found, "it may still be in a shard"
    waits = found.with_landed(linked((4, 1, (3, 1))), NOON + 9 * SECOND)
    assert (waits.whole, waits.gaps) == (NOON + 6 * SECOND, 0)
    given_up = found.with_landed([], NOON + 9 * SECOND, NOON + SECOND)
    assert (given_up.whole, given_up.gaps, given_up.others) == (NOON + 6 * SECOND, 1, ())
    late = given_up.with_landed(linked((4, 1, (3, 1))), NOON + 10 * SECOND)
    assert replace(late, again=0) == given_up


def test_what_dms_sends_again_is_counted() -> None:
    all_of = linked((1, 1, None), *((b, 1, (a, 1)) for a, b in pairwise(range(1, 9))))
    found = Transactions().with_landed(all_of[:6], NOON)
    assert found.again == 0
    found = found.with_landed(all_of[2:5], NOON)
    assert found.again == 3
    found = found.with_landed(all_of[4:], NOON)
    assert found.again == 5
    assert found.main is not None
    assert (found.main.last, found.whole) == ((8, 1), NOON + 7 * SECOND)


def test_a_task_that_starts_again_says_nothing_of_the_change_before() -> None:
    """It begins with transactions that have landed."""
    all_of = linked((1, 1, None), (2, 1, (1, 1)), (3, 1, (2, 1)))
    again = linked((2, 1, None), (3, 1, (2, 1)), (4, 1, (3, 1)))
    found = Transactions().with_landed(all_of, NOON).with_landed(again, NOON)
    assert (found.whole, found.others, found.gaps) == (NOON + 3 * SECOND, (), 0)


def test_commits_of_postgresql_whose_clocks_differ() -> None:
    """A transaction may have an earlier time than the one before it, by microseconds."""
    tick = timedelta(microseconds=1)
    first, late = linked((1, 1, None), (2, 1, (1, 1))), NOON + 2 * SECOND
    before = Linked("0" * 15 + "1" + "9" * 19, (3, 1), (2, 1), late - tick)
    more = Linked("0" * 15 + "4" + "0" * 19, (4, 1), (3, 1), late + SECOND)
    for landings in (
        [[*first, before, more]],
        [first, [before], [more]],
        [first, [more], [before]],
        [[more, before], first],
    ):
        found = Transactions()
        for landing in landings:
            found = found.with_landed(landing, NOON)
        assert (found.whole, found.others) == (late, ()), landings


def test_two_transactions_of_one_microsecond() -> None:
    """PostgreSQL's sequence is made of the commit's time, so they have the same."""
    first, second, third = linked((1, 1, None), (2, 1, (1, 1)), (4, 1, (3, 1)))
    same = Linked(second.sequence, (3, 1), (2, 1), second.at)
    for landings in ([[first, same, second, third]], [[first], [same], [second, third]]):
        found = Transactions()
        for landing in landings:
            found = found.with_landed(landing, NOON)
        assert found.main is not None
        assert (found.main.last, found.others, found.gaps, found.again) == ((4, 1), (), 0, 0)


def test_an_earlier_time_is_no_proof_that_a_change_had_landed() -> None:
    """Of three transactions, the last one has the earliest commit, by microseconds; the one between lags in another
    shard."""
    tick = timedelta(microseconds=1)
    first, second, lags = linked((1, 1, None), (2, 1, (1, 1)), (3, 1, (2, 1)))
    last = Linked("0" * 15 + "1" + "9" * 19, (4, 1), (3, 1), second.at - tick)
    more = linked((5, 1, (4, 1)), (6, 1, (5, 1)), (7, 1, (6, 1)))
    found = Transactions().with_landed([first, second, last, *more], NOON)
    assert found.whole is not None
    assert found.whole < second.at
    found = found.with_landed([lags], NOON + SECOND)
    assert (found.whole, found.others, found.gaps, found.again) == (more[1].at, (), 0, 0)
