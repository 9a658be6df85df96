"""One history that arrives in a stream, from its first message to the comparison of silver with the source.

Here: readers that compete and die, shards that change meanwhile, and what the log says in the end. Not here: the
expected rows (`truth.py` of the folder above), many histories (`__main__.py` there).
"""

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from pyiceberg.exceptions import CommitStateUnknownException

from lake_assets.bronze.log import file_log
from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.streams.stream_positions import parse_ranges
from lake_assets.bronze.stream import landing, merging
from lake_assets.bronze.stream.landed_objects import CARRIER
from lake_assets.iceberg.upkeep.table_maintenance import Maintained
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.rounds import merged_landings, stream_arrivals
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.rounds.merged_landings import merge_landed
from lake_assets.rounds.stream_arrivals import StreamArrivals
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.silver.batch.result import TableResult
from lake_assets.storage.local_store import LocalStore
from lake_assets_tests.helpers.oracles.masks import masked
from lake_assets_tests.helpers.processes.faults import Killed
from lake_assets_tests.soak import bucket as storage
from lake_assets_tests.soak import deaths, truth
from lake_assets_tests.soak.arrival import Turn, pieces
from lake_assets_tests.soak.plan import Plan, plan
from lake_assets_tests.soak.run import (
    History,
    Outcome,
    Wrong,
    compare,
    difference,
    features_of,
    outcome_of,
    rows_of,
)
from lake_assets_tests.soak.stream.feeds import Feed, Watched, opened_feed, quick_clients
from lake_assets_tests.soak.stream.messages import ORDER, reload_ends, write
from lake_assets_tests.soak.stream.plan import StreamPlan, stream_plan
from lake_assets_tests.soak.writer import ITEMS, OTHER

DAY = timedelta(days=1)
LANDING: tuple[tuple[Any, str], ...] = (
    (Watched, "poll"),
    (LocalStore, "write"),
    (LocalStore, "write"),
    (StreamArrivals, "_quarantine"),
    (FileLog, "land"),
    (FileLog, "land"),
)
"""Where a reader dies: before or after the call."""
APPLYING = tuple(place for place in deaths.PLACES if place[0] is not FileLog)


@dataclass
class StreamHistory(History):
    """Everything that a seed generates; the looks of its turns have messages."""

    how: StreamPlan = field(kw_only=True)


def history(seed: int, without: Collection[str] = ()) -> StreamHistory:
    """The same for the same arguments."""
    drawn, how = stream_plan(plan(seed, without))
    written, sent = write(drawn, how)
    if written.loads and not any(
        o.load is None and o.written >= written.loads[-1].began for o in written.objects
    ):
        # Only five minutes without changes would show that the load is complete.
        drawn = replace(drawn, policy="immediately")
        written.plan = drawn
    random = Random(f"{seed} stream turns")
    ends = [place for place in reload_ends(sent) if place < len(sent)]
    borders = sorted(
        {*ends, *(a for a, _ in pieces(random, len(sent), random.choice([1, 1, 2, 2]))), len(sent)}
    )
    turns = [
        Turn([sent[a:b][x:y] for x, y in pieces(random, b - a, random.choice([2, 3, 5, 7]))])
        for a, b in pairwise(borders)
    ]
    seen = {*written.seen, *features_of(drawn, written), *_features(how)}
    return StreamHistory(drawn, written, turns, seen, how=how)


def _features(how: StreamPlan) -> Iterator[str]:
    yield f"server {how.server}"
    yield f"engine {how.engine}"
    yield f"shard by {how.partition}"
    named = {"two readers": how.readers > 1, "own order": how.own_order, "no details": not how.details}
    named |= {"NULL left out": how.nulls_left_out, "whole before image": how.whole_before}
    named |= {"resharded": how.reshards, "noise": how.noise}
    yield from (name for name, given in named.items() if given)


def lake(
    plan: Plan,
    how: StreamPlan,
    settings: Mapping[str, Any],
    folder: Path,
    also: Sequence[str] | None = None,
) -> Lake:
    """An empty lake with the history's table, behind the stream. `also`: further shapes."""
    dms: dict[str, Any] = {
        "include_transaction_details": how.details,
        "include_null_and_empty": not how.nulls_left_out,
        "change_sequence_column": ORDER if how.own_order else None,
    }
    columns = "all" if how.whole_before else "pk-only"
    image = {"enable_before_image": True, "field_name": how.before_image, "column_filter": columns}
    dms["before_image_settings"] = image
    stream: dict[str, Any] = {
        "engine": how.engine,
        "absent": "null" if how.nulls_left_out else None,
        # A broker needs a moment to answer.
        "interval": "0s" if how.server == "memory" else "0.1s",
    }
    # Messages that cannot be read are quarantined, up to this number.
    return storage.lake(
        plan, folder, {"stream": {**settings, **stream}, "dms": dms}, most_quarantined=1000, also=also
    )


def run(seed: int, without: Collection[str] = (), folder: Path | None = None) -> Outcome:
    """Never raises for a difference or an error: see `failure`."""
    found = history(seed, without)

    def lived(place: Path, outcome: Outcome) -> None:
        live(found, opened_feed(found.how.server, Random(f"{seed} feed"), f"soak-{seed}"), place, outcome)

    return outcome_of(seed, found, lived, folder)


class Readers:
    """The readers of one history, which run in turn, and sometimes in between each other's steps."""

    def __init__(
        self, history: StreamHistory, feed: Feed, used: Lake, outcome: Outcome, random: Random
    ) -> None:
        self._history, self._feed, self._outcome, self._random = history, feed, outcome, random
        self._used = used
        self._landing: StreamArrivals | None = None
        self._all: list[StreamArrivals] = []

    def open(self) -> None:
        self._all = [self._opened() for _ in range(self._history.how.readers)]

    def _opened(self) -> StreamArrivals:
        return StreamArrivals(storage.reopened(self._used).runtime, "shop")

    def client(self, *_: Any) -> Watched:
        """In the place of `opened_client`."""
        return Watched(self._feed.client(), self._polled)

    def _polled(self) -> None:
        """Sometimes another reader lands between a reader's poll and its commit."""
        if (landing := self._landing) is None or self._random.random() > 0.2:
            return
        self._landing = None
        for other in self._all:
            if other is not landing:
                other.scan()
                self._history.seen.add("overtaken")

    def land(self) -> None:
        """One reader's landing; it may die in it."""
        place = self._random.randrange(len(self._all))
        self._landing = self._all[place]
        trouble = self._random.random() if self._history.plan.kills else 1.0
        if trouble < 0.15:
            try:
                with deaths.deadly(self._random, LANDING) as step:
                    self._all[place].scan()
            except Killed:
                self._outcome.kills += 1
                self._history.seen |= {"reader killed", f"reader killed at {step}"}
                self._all[place] = self._opened()
        elif trouble < 0.2:
            with _answer_lost():
                self._all[place].scan()
            self._history.seen.add("answer of the commit lost")
        else:
            self._all[place].scan()
        self._landing = None

    def catch_up(self) -> None:
        """All messages are landed, by one of them."""
        self._random.choice(self._all).catch_up()

    def close(self) -> None:
        for each in self._all:
            each.close()
        self._all = []


@contextmanager
def _answer_lost() -> Iterator[None]:
    """The catalog does not answer the first commit of a landing, which it has done."""
    real: Callable[..., Any] = vars(file_log)["append_rows"]
    lost = list[bool]()

    def append_rows(*given: Any, **named: Any) -> Any:
        real(*given, **named)
        if not lost:
            lost.append(True)
            raise CommitStateUnknownException("no answer")

    with patch.object(file_log, "append_rows", append_rows):
        yield


def live(history: StreamHistory, feed: Feed, folder: Path, outcome: Outcome) -> None:
    """Raises Wrong for a difference."""
    plan = history.plan
    random = Random(f"{plan.seed} stream life")
    used = lake(plan, history.how, feed.settings, folder)
    readers = Readers(history, feed, used, outcome, random)
    with (
        quick_clients(),
        patch.object(landing, "MOST_MESSAGES", random.choice([3, 10, 50_000])),
        patch.object(stream_arrivals, "opened_client", readers.client),
    ):
        readers.open()
        before: list[str] = []
        notes: dict[int, str] = {}
        for number, turn in enumerate(history.turns):
            for look in turn.looks:
                feed.put(look)
                if history.how.reshards and random.random() < 0.3:
                    feed.reshard()
                feed.disturb()
                for _ in range(random.randrange(5)):
                    readers.land()
            if any(one.said.what == "load" for look in turn.looks for one in look):
                feed.calm()
                readers.catch_up()
            used, results = _turn(history, used, random, outcome)
            there = landed(history, feed, used)
            before = compare(history, used, results, there, before, outcome, f"turn {number + 1}")
            if random.random() < 0.4:
                feed.calm()
                readers.catch_up()
                notes = _merged(history, feed, used) | notes
        feed.calm()
        readers.close()
        _end(history, feed, storage.quiet(used), before, outcome)
        # What a merged file notes is not what the landing at its offset had noted.
        landed_once(feed, used, folder, _notes(used) | notes)


def _notes(used: Lake) -> dict[int, str]:
    """By offset, what each landing has noted."""
    records = used.runtime.file_log.records("shop")
    return {record.offset: record.ranges for record in records if record.ranges is not None}


def _merged(history: StreamHistory, feed: Feed, used: Lake) -> dict[int, str]:
    """Merges the files of landings; returns the notes of before, some of which are gone."""
    notes, done = _notes(used), Maintained("files")
    with (
        patch("lake_assets.runtime.opened_client", lambda *_: feed.client()),
        patch.multiple(merged_landings, SETTLED_AFTER=-DAY, LEAST_SHARE=10**6),
        patch.object(merging, "FEWEST", 2),
    ):
        merge_landed(storage.reopened(used).runtime, "shop", done)
    if done.files_rewritten:
        history.seen.add("files merged")
    return notes


def _turn(
    history: StreamHistory, used: Lake, random: Random, outcome: Outcome
) -> tuple[Lake, dict[str, TableResult]]:
    for _ in range(2):
        if not history.plan.kills or random.random() > 0.6:
            break
        try:
            with deaths.deadly(random, APPLYING) as step:
                list(apply_tables(used.runtime, used.targets))
        except Killed:
            outcome.kills += 1
            history.seen |= {"killed", f"killed at {step}"}
            used = storage.reopened(used)
    return used, {r.target.name: r for r in apply_tables(used.runtime, used.targets)}


def _end(history: StreamHistory, feed: Feed, used: Lake, before: list[str], outcome: Outcome) -> None:
    plan = history.plan
    log_arrivals(used.runtime, "shop")
    results = {r.target.name: r for r in apply_tables(used.runtime, used.targets)}
    before = compare(history, used, results, landed(history, feed, used), before, outcome, "the end")
    if plan.keyed:
        end = truth.canonical(masked(history.written.source.rows, plan.mask))
        if rows_of(used, "items") != end:
            raise difference("the end", end, rows_of(used, "items"))
    outcome.digest = truth.digest(before)
    log_arrivals(used.runtime, "shop")
    if any(r.batches or r.error for r in apply_tables(used.runtime, used.targets)):
        raise Wrong("the end: a turn without new messages did something")


def landed(history: StreamHistory, feed: Feed, used: Lake) -> truth.Bucket:
    """What the log has, as the oracle sees it."""
    there = truth.Bucket(history.written)
    found = [
        one
        for shard, read in used.runtime.file_log.read("shop").items()
        for position, one in feed.placed[shard.rpartition("/")[2]]
        if read.through is not None and position <= int(read.through)
    ]
    # A reload has its rows under the keys of the load before.
    for one in sorted(found, key=lambda one: one.at):
        if one.counts is not None:
            there.put(one.counts)
    return there


def landed_once(feed: Feed, used: Lake, folder: Path, notes: Mapping[int, str]) -> None:
    """Raises Wrong unless each message is landed once: by the ranges in the notes of all landings, by the rows in the
    log's files, and in the quarantine."""
    log = used.runtime.file_log
    ranges = [found for _, note in sorted(notes.items()) if (found := parse_ranges(note))]
    for shard in sorted({shard for found in ranges for shard in found} | {*log.read("shop")}):
        own = [found[shard] for found in ranges if shard in found]
        placed = feed.placed[shard.rpartition("/")[2]]
        if [r.after for r in own] != [None, *(r.through for r in own[:-1])]:
            raise Wrong(f"the ranges of {shard} do not follow each other: {own}")
        if sum(r.messages for r in own) != len(placed) or any(r.drained for r in own[:-1]):
            raise Wrong(f"the ranges of {shard} are not its {len(placed)} messages: {own}")
        if placed and own[-1].through != str(placed[-1][0]):
            raise Wrong(f"{shard} is landed up to {own[-1].through} of {placed[-1][0]}")
    read = {shard.rpartition("/")[2] for shard in log.read("shop")}
    if left := {shard for shard, placed in feed.placed.items() if placed} - read:
        raise Wrong(f"shards without a reader: {left}")
    everything = [(shard, position, one) for shard, placed in feed.placed.items() for position, one in placed]
    _equal("rows", Counter(_rows(folder, used)), Counter(one.landed for *_, one in everything if one.landed))
    other = sum(file.rows or 0 for file in log.files("shop") if file.qualified_table == OTHER)
    _equal("rows of another table", other, sum(one.said.what == "other" for *_, one in everything))
    kept = Counter((shard, position) for shard, position, _ in _carried(folder, used))
    known = ("control", "unreadable", "bad")
    _equal("what is no row", kept, Counter((s, str(p)) for s, p, one in everything if one.said.what in known))
    bad = {(shard, position) for shard, position, one in everything if one.said.what == "bad"}
    tables = len(used.targets)
    held = Counter(_place(quarantined.key) for quarantined in used.runtime.quarantine.open())
    _equal("the quarantine", held, Counter(dict.fromkeys(bad, tables)))


def _place(key: str) -> tuple[str, int]:
    """Shard and position of a quarantined message."""
    _, position, _, shard = key.split(" ")
    return shard.rpartition("/")[2], int(position)


def _equal(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise Wrong(f"{what}: found {found}, expected {expected}")


def _rows(folder: Path, used: Lake) -> Iterator[tuple[str, str]]:
    """Operation and change sequence of each row of the table's landed files."""
    # A file whose full load shows only later is logged again.
    files = {file.key: file for file in used.runtime.file_log.files("shop")}
    for file in files.values():
        if file.qualified_table == ITEMS and file.format == "csv":
            text = gzip.decompress((folder / "bronze" / file.key).read_bytes()).decode()
            for row in csv.DictReader(io.StringIO(text, newline="")):
                yield row["$dms.operation"], row["$dms.change_sequence"]


def _carried(folder: Path, used: Lake) -> Iterator[tuple[str, str, str | None]]:
    for file in used.runtime.file_log.files("shop"):
        if file.key.startswith(CARRIER):
            for line in gzip.decompress((folder / "bronze" / file.key).read_bytes()).splitlines():
                kept = json.loads(line)
                yield kept["shard"].rpartition("/")[2], kept["position"], kept["reason"]
