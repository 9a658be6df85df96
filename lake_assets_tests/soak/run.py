"""One history from its first object to the comparison of silver with the source.

Here: turns, kills, comparisons, and the report of a difference. Not here: the expected rows (`truth.py`), many
histories (`__main__.py`).
"""

import itertools
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from unittest.mock import patch

from pyiceberg.exceptions import NoSuchTableError

from lake_assets.bronze.decode import files as decoding
from lake_assets.errors import TableStopped
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.apply import turn as table_turn
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.changes import keyed_events, reading
from lake_assets.silver.reduce import edit_keys
from lake_assets_tests.helpers.oracles.masks import masked
from lake_assets_tests.helpers.processes.faults import Killed
from lake_assets_tests.soak import bucket as storage
from lake_assets_tests.soak import truth
from lake_assets_tests.soak.arrival import Turn, turns
from lake_assets_tests.soak.deaths import deadly
from lake_assets_tests.soak.plan import Plan, plan
from lake_assets_tests.soak.story import describe
from lake_assets_tests.soak.writer import Written, write

MOST_DEATHS = 2
"""In a turn."""


class Wrong(Exception):
    """Silver differs from the source."""

    def __init__(self, what: str, rows: int = 0) -> None:
        super().__init__(what)
        self.rows = rows


@dataclass
class History:
    """Everything that a seed generates."""

    plan: Plan
    written: Written
    turns: list[Turn]
    seen: set[str]
    """The features that it has."""


@dataclass
class Outcome:
    """The outcome of a history."""

    seed: int
    kind: str
    features: list[str] = field(default_factory=list)
    files: int = 0
    changes: int = 0
    turns: int = 0
    compared: int = 0
    """Comparisons of whole tables, the last ones included."""
    kills: int = 0
    stops: int = 0
    """Turns in which the table stopped while files were missing, as it may then."""
    wrong_rows: int = 0
    failure: str | None = None
    digest: str = ""
    """Of the table at the end."""
    seconds: float = 0.0


def history(seed: int, without: Collection[str] = ()) -> History:
    """The same for the same arguments."""
    drawn = plan(seed, without)
    written = write(drawn)
    seen = set(written.seen)
    found = turns(written, seen)
    if written.loads:
        last = written.loads[-1]
        if not any(o.load is None and o.written >= last.began for o in written.objects):
            # Only five minutes without files would show that the load is complete.
            drawn = Plan(**{**vars(drawn), "policy": "immediately"})
            written.plan = drawn
    seen |= set(features_of(drawn, written))
    return History(drawn, written, found, seen)


def features_of(plan: Plan, written: Written) -> Iterator[str]:
    yield f"layout {plan.layout}"
    yield f"sequences {plan.sequences}"
    yield f"load {plan.load}"
    yield f"commits {plan.commits}"
    yield f"policy {plan.policy}"
    if plan.keyed:
        yield f"before {plan.before}"
    if plan.max_files < 100:
        yield "small batches"
    if plan.log_too:
        yield "log too"
    if plan.masked:
        yield "masked"
    if plan.partitioned:
        yield "partitioned"
    if plan.compressed:
        yield "compressed"
    if plan.kills:
        yield "kills"
    if plan.reloads:
        yield "reloads"
    keys = [{part.key for part in load.parts} for load in written.loads]
    if any(later - earlier for earlier, later in itertools.pairwise(keys)):
        yield "new parts"
    if any(load.read > load.cut for load in written.loads):
        yield "overlap"


def run(seed: int, without: Collection[str] = (), folder: Path | None = None) -> Outcome:
    """Never raises for a difference or an error: see `failure`."""
    found = history(seed, without)
    return outcome_of(seed, found, lambda place, outcome: _live(found, place, outcome), folder)


def outcome_of(
    seed: int, details: History, live: Callable[[Path, Outcome], None], folder: Path | None
) -> Outcome:
    """What becomes of a history. `live`: runs it in a folder, and raises Wrong for a difference."""
    began = time.monotonic()
    outcome = Outcome(
        seed=seed,
        kind=details.plan.kind,
        features=sorted(details.seen),
        files=len(details.written.objects),
        changes=len(details.written.source.changes),
        turns=len(details.turns),
    )
    place = Path(tempfile.mkdtemp(prefix=f"soak-{seed}-", dir=folder))
    try:
        with as_large(seed):
            live(place, outcome)
    except Wrong as wrong:
        outcome.wrong_rows = wrong.rows
        outcome.failure = f"{wrong}\n{describe(details.written, details.turns)}"
    except Exception:  # noqa: BLE001  (of the engine or of the bench: the others go on, and this one has failed)
        outcome.failure = f"{traceback.format_exc()}\n{describe(details.written, details.turns)}"
    finally:
        shutil.rmtree(place, ignore_errors=True)
    outcome.features = sorted(details.seen)
    outcome.seconds = time.monotonic() - began
    return outcome


@contextmanager
def as_large(seed: int) -> Iterator[None]:
    """Has every second history applied without rows that this process holds, half of these in pieces of a few keys, and
    every third one without a batch that has both a full load and changes."""
    held = patch.object(decoding, "MOST_BYTES", decoding.MOST_BYTES if seed // 4 % 2 else -1)
    pieces = patch.object(
        keyed_events, "ROWS_OF_A_PIECE", keyed_events.ROWS_OF_A_PIECE if seed // 2 % 2 else 20
    )
    keys = patch.object(edit_keys, "MOST_HELD", edit_keys.MOST_HELD if seed // 2 % 2 else 10)
    with held, pieces, keys, patch.object(table_turn, "SMALL_LOAD", reading.SMALL_LOAD if seed % 3 else 0):
        yield


def _live(history: History, folder: Path, outcome: Outcome) -> None:
    plan = history.plan
    random = Random(f"{plan.seed} life")
    used = storage.lake(plan, folder)
    there = truth.Bucket(history.written)
    before: list[str] = []
    for number, turn in enumerate(history.turns):
        for look in turn.looks[:-1]:
            _put(history, folder, there, look)
            used = _look(used, plan, random, outcome, history)
        _put(history, folder, there, turn.looks[-1])
        used, results = _turn(used, plan, random, outcome, history)
        before = compare(history, used, results, there, before, outcome, f"turn {number + 1}")
    used, results = _turn(storage.quiet(used), plan, None, outcome, history)
    before = compare(history, used, results, there, before, outcome, "the end")
    if plan.keyed:
        end = truth.canonical(masked(history.written.source.rows, plan.mask))
        if rows_of(used, "items") != end:
            raise difference("the end", end, rows_of(used, "items"))
    outcome.digest = truth.digest(before)
    _, results = _turn(used, plan, None, outcome, history)
    if any(result.batches or result.error for result in results.values()):
        raise Wrong("the end: a turn without new files did something")


def _put(history: History, folder: Path, there: truth.Bucket, look: Sequence) -> None:
    storage.put_objects(history.plan, folder, look)
    for found in look:
        there.put(found)


def _look(used: Lake, plan: Plan, random: Random | None, outcome: Outcome, history: History) -> Lake:
    if random is not None and plan.kills and random.random() < 0.1:
        try:
            with deadly(random):
                log_arrivals(used.runtime, "shop")
        except Killed:
            outcome.kills += 1
            history.seen.add("killed")
            used = storage.reopened(used)
    log_arrivals(used.runtime, "shop")
    return used


def _turn(
    used: Lake, plan: Plan, random: Random | None, outcome: Outcome, history: History
) -> tuple[Lake, dict[str, TableResult]]:
    for _ in range(MOST_DEATHS):
        if random is None or not plan.kills or random.random() > 0.4:
            break
        try:
            with deadly(random) as place:
                log_arrivals(used.runtime, "shop")
                list(apply_tables(used.runtime, used.targets))
        except Killed:
            outcome.kills += 1
            history.seen |= {"killed", f"killed at {place}"}
            used = storage.reopened(used)
    log_arrivals(used.runtime, "shop")
    return used, {r.target.name: r for r in apply_tables(used.runtime, used.targets)}


def compare(
    history: History,
    used: Lake,
    results: dict[str, TableResult],
    there: truth.Bucket,
    before: list[str],
    outcome: Outcome,
    place: str,
) -> list[str]:
    """Compares what can be compared; the rows of the main table."""
    plan, written = history.plan, history.written
    shape = {"append_log": truth.append_log, "change_log": truth.change_log}.get(plan.kind, truth.current)
    expected = shape(there)
    if expected is not None:
        expected = masked(expected, plan.mask)
    for result in results.values():
        if result.error is None:
            continue
        gap = expected is None and (written.source.collisions or plan.partial or plan.toasted or plan.overlap)
        if not (gap and isinstance(result.error, TableStopped)):
            raise Wrong(f"{place}: {result.target.identifier} failed: {result.error!r}") from result.error
        outcome.stops += 1
    found = rows_of(used, "items")
    if results["items"].waiting:
        history.seen.add("waited")
        expected_rows: list[str] | None = before
    else:
        expected_rows = None if expected is None else truth.canonical(expected)
    if expected_rows is not None:
        if plan.kind == "change_log" and plan.reloads:
            found, expected_rows = _changes_only(found), _changes_only(expected_rows)
        _equal(f"{place}: the table", expected_rows, found)
        outcome.compared += 1
    if plan.log_too:
        log, changes = (
            rows_of(used, "items_changes"),
            truth.canonical(masked(truth.change_log(there), plan.mask)),
        )
        if plan.reloads:
            log, changes = _changes_only(log), _changes_only(changes)
        _equal(f"{place}: its change log", changes, log)
        outcome.compared += 1
    return found


def _changes_only(rows: Sequence[str]) -> list[str]:
    """Without loaded rows: a reload may have written over those of the load before, seen or unseen."""
    return [row for row in rows if "'_sequence': ''" not in row]


def _equal(place: str, expected: list[str], found: list[str]) -> None:
    if truth.digest(expected) != truth.digest(found):
        raise difference(place, expected, found)


def difference(place: str, expected: Sequence[str], found: Sequence[str]) -> Wrong:
    missing, strange = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    lines = [f"{place} is wrong"]
    lines += [f"  missing  {row}" for row in missing.elements()]
    lines += [f"  strange  {row}" for row in strange.elements()]
    return Wrong("\n".join(lines), missing.total() + strange.total())


def rows_of(used: Lake, name: str) -> list[str]:
    try:
        table = used.runtime.catalog.load_table(f"silver_shop.{name}")
    except NoSuchTableError:
        return []
    return truth.canonical(table.scan().to_arrow().to_pylist())
