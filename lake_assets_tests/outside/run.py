"""One random history with actions from outside between its turns, each followed by what a user would do.

A table either equals the source after its turn, or it has stopped with a reason and a command; after that command it
equals the source. Here: that loop. Not here: the history (`soak`), the actions (`actions.py`).
"""

import contextlib
import os
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from lake_assets.commands.mend import quarantine_commands as quarantine
from lake_assets.commands.mend.full_load_decision import decide
from lake_assets.commands.mend.recover import recover
from lake_assets.commands.mend.relog import LOST
from lake_assets.commands.mend.repair_cli import taken
from lake_assets.commands.mend.repair_plan import repair_plan
from lake_assets.commands.mend.restore import restore
from lake_assets.config.evolution import QuarantineLimits
from lake_assets.errors import LakeError
from lake_assets.lake import open_lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.table.targets import Target
from lake_assets_tests.outside.actions import ACTIONS, Place
from lake_assets_tests.soak import bucket as storage
from lake_assets_tests.soak import truth
from lake_assets_tests.soak.run import History, Outcome, Wrong, as_large, compare, history, rows_of
from lake_assets_tests.soak.story import describe
from lake_assets_tests.soak.writer import ITEMS

WITHOUT = ("kills", "rewritten", "again", "new_parts", "unseen_parts")
"""Features of a history that repeat an action, or are ambiguous together with one."""
LOSES_RECORDS = ("drop_log", "purge_log", "roll_back_log")
"""Actions after which the log may name objects that were overwritten since."""
ATTEMPTS = 5
"""Commands after one action."""


@dataclass
class Outside(Outcome):
    """The outcome of a history with actions."""

    actions: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    """By command, how often it was needed."""
    needs_reload: bool = False
    """Files of a lost log are gone for good, and a late file or the next batch needs them; or rows of a table whose
    position is lost are in no file any more. The table has stopped, unchanged, and says so, which ends the history."""


class _NeedsReload(Exception):
    """The table needs a reload by DMS, or a new table."""


def quiet() -> None:
    """Of a process of histories: drops standard error."""
    # Spark's messages about tables that were changed from outside are expected.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def run(seed: int, folder: Path | None = None) -> Outside:
    """Never raises for a difference or an error: see `failure`."""
    began = time.monotonic()
    found = history(seed, WITHOUT)
    outcome = Outside(seed=seed, kind=found.plan.kind, files=len(found.written.objects))
    where = Path(tempfile.mkdtemp(prefix=f"outside-{seed}-", dir=folder))
    story: list[str] = []
    try:
        with as_large(seed):
            _live(found, where, outcome, story)
    except _NeedsReload:
        outcome.needs_reload = True
    except Exception as error:  # noqa: BLE001  (of the engine or of the bench: the others go on)
        outcome.wrong_rows = error.rows if isinstance(error, Wrong) else 0
        lines = "\n".join(story)
        outcome.failure = f"{traceback.format_exc()}\n{lines}\n{describe(found.written, found.turns)}"
    finally:
        shutil.rmtree(where, ignore_errors=True)
    outcome.seconds = time.monotonic() - began
    return outcome


def _live(found: History, folder: Path, outcome: Outside, story: list[str]) -> None:
    random = Random(f"{found.plan.seed} outside")
    place = Place(storage.lake(found.plan, folder), folder, random)
    there = truth.Bucket(found.written)
    before: list[str] = []
    for number, turn in enumerate(found.turns):
        for look in turn.looks:
            storage.put_objects(found.plan, folder, look)
            for new in look:
                there.put(new)
            log_arrivals(place.used.runtime, "shop")
        if number:
            _act(place, outcome, story)
        results = _turn(place, outcome, story)
        before = _before(place, results, before, outcome)
        before = compare(found, place.used, results, there, before, outcome, f"turn {number + 1}")
    for _ in range(2):
        _act(place, outcome, story)
        place.used = storage.quiet(place.used)
        results = _turn(place, outcome, story)
        before = _before(place, results, before, outcome)
        before = compare(found, place.used, results, there, before, outcome, "the end")
    outcome.digest = truth.digest(before)


def _before(place: Place, results: Mapping[str, TableResult], last: list[str], outcome: Outside) -> list[str]:
    """The expected rows of a table that waits: those after the last turn. If silver was rolled back, it may wait at any
    former state, which only the end of the history judges."""
    rolled_back = results["items"].waiting and outcome.actions["roll_back_silver"]
    return rows_of(place.used, "items") if rolled_back else last


def _act(place: Place, outcome: Outside, story: list[str]) -> None:
    for name in place.random.sample(list(ACTIONS), place.random.choice([1, 1, 2, 3])):
        done = ACTIONS[name](place)
        if done is not None:
            outcome.actions[name] += 1
            story.append(done)
            place.used = storage.reopened(place.used)


def _turn(place: Place, outcome: Outside, story: list[str]) -> dict[str, TableResult]:
    """A scan and a turn, and after each stop the command that the stop names."""
    refused: dict[str, LakeError] = {}
    for _ in range(ATTEMPTS):
        results = _applied(place)
        stopped = [r for r in results.values() if isinstance(r.error, LakeError)]
        if not stopped and not place.used.runtime.quarantine.open():
            return results
        place.used = storage.reopened(place.used)
        if any(LOST in held.reason for held in place.used.runtime.quarantine.open()):
            raise _NeedsReload
        if not stopped:
            story.append("something is quarantined -> lake-assets quarantine retry")
            outcome.mended["lake-assets quarantine"] += 1
            _retry(place)
            continue
        if outcome.seed % 2 == 0 and _repair(place, outcome, story):
            continue
        mended = {
            _mend(place, result.target, str(result.error), outcome, story, refused) for result in stopped
        }
        if mended == {None}:
            return results
    for name, error in refused.items():
        # What the command is waiting for may be in a file of a later turn.
        if results[name].error is not None:
            results[name].error = error
    return results


def _applied(place: Place) -> dict[str, TableResult]:
    runtime = place.used.runtime
    try:
        log_arrivals(runtime, "shop")
    except LakeError as error:
        return {t.name: TableResult(t, error=error) for t in place.used.targets}
    return {r.target.name: r for r in apply_tables(runtime, place.used.targets)}


def _repair(place: Place, outcome: Outside, story: list[str]) -> bool:
    """What `lake-assets repair` does, of every second history; whether a step of it was taken."""
    done = False
    for step in repair_plan(place.used).steps:
        story.append(f"{step.reason} -> repair: {step.name}")
        try:
            story.extend(taken(place.used, step))
        except LakeError as error:
            story.append(f"{step.name}: {error}")
            continue
        done = True
        outcome.mended["lake-assets repair"] += 1
        outcome.stops += 1
    return done


def _mend(
    place: Place,
    target: Target,
    said: str,
    outcome: Outside,
    story: list[str],
    refused: dict[str, LakeError],
) -> str | None:
    """Runs the command that a stop names; its name, None where it names none. `refused`: by table, why the last
    command that was run for it did nothing."""
    used = place.used
    commands: dict[str, Callable[[], object]] = {
        "lake-assets recover": lambda: list(recover(used)),
        "lake-assets restore": lambda: [restore(used.runtime, each) for each in used.targets],
        "lake-assets rebuild": lambda: rebuild(used.runtime, target),
        "lake-assets full-load": lambda: decide(used, target.table, None, reload=False),
        "raise the limit": lambda: _raise_limit(place),
        "waiting for": lambda: _wait(place),
        "Put them back": lambda: _put_back(place, said, outcome),
        "Put it back": lambda: _put_back(place, said, outcome),
        "is gone from the bucket": lambda: _put_back(place, said, outcome),
    }
    if "in no file any more" in said or LOST in said:
        raise _NeedsReload
    for name, command in commands.items():
        if name not in said:
            continue
        story.append(f"{said} -> {name}")
        outcome.mended[name] += 1
        outcome.stops += 1
        try:
            command()
            refused.pop(target.name, None)
        except LakeError as error:
            story.append(f"{name}: {error}")
            refused[target.name] = error
            _mend(place, target, str(error).replace(name, ""), outcome, story, refused)
        return name
    return None


def _raise_limit(place: Place) -> None:
    """Decides as an operator who has checked the files and accepts their current content."""
    config = place.used.config
    source = config.sources["shop"]
    table = source.tables[ITEMS].model_copy(
        update={"quarantine": QuarantineLimits(max_rows=10_000, max_share=1, max_files=1_000)}
    )
    changed = source.model_copy(update={"tables": source.tables | {ITEMS: table}})
    place.used = open_lake(config.model_copy(update={"sources": {"shop": changed}}), marts=place.used.marts)


def _retry(place: Place) -> None:
    """What is quarantined for want of an expired file says so."""
    _restore_removed(place)
    quarantine.retry(place.used.runtime, quarantine.chosen(place.used.runtime, None, ()))


def _wait(place: Place) -> None:
    place.used = storage.quiet(place.used)


def _put_back(place: Place, said: str, outcome: Outside) -> None:
    if place.removed:
        _restore_removed(place)
    elif any(outcome.actions[lost] for lost in LOSES_RECORDS):
        raise _NeedsReload  # the log lost the record of a reload's part that was moved, or of expired files
    else:
        raise Wrong("it asks for files that were not removed")


def _restore_removed(place: Place) -> None:
    for path, content in place.removed.items():
        if not path.exists():
            path.write_bytes(content)
    place.removed.clear()
