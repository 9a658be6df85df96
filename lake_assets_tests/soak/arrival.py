"""When the objects of a history arrive: order, scans, turns.

Here: any order of arrival that a bucket can show. Not here: the objects (`writer.py`), the expected rows (`truth.py`).
"""

import itertools
from dataclasses import dataclass
from random import Random
from typing import Any

from lake_assets_tests.soak.plan import Plan
from lake_assets_tests.soak.writer import Object, Written


@dataclass(frozen=True)
class Turn:
    """Between two applications."""

    looks: list[list[Any]]
    """The objects that have arrived before each scan of the bucket; of a stream, the messages."""


def turns(written: Written, seen: set[str]) -> list[Turn]:
    """All objects of the history, each at least once; records the random features in `seen`."""
    plan = written.plan
    random = Random(f"{plan.seed} arrival")
    places: list[tuple[float, int, Object]] = []
    by_key: dict[str, float] = {}
    load_done = [-1.0] * (len(written.loads) + 1)
    for place, found in enumerate(written.objects):
        at = float(place + (random.choice([0, 0, 0, 0, 2, 3, 8]) if plan.late else 0))
        # Versions of an object, and full loads, follow each other.
        at = max(at, by_key.get(found.key, -1.0) + 0.001)
        if found.load is not None:
            at = max(at, load_done[found.load] + 0.001)
            load_done[found.load + 1] = max(load_done[found.load + 1], at)
        by_key[found.key] = at
        places.append((at, place, found))
    places.sort(key=lambda entry: entry[:2])
    arrivals = [found for _, _, found in places]
    _note(written, arrivals, seen)
    if plan.again:
        arrivals = _again(written, random, arrivals, seen)
    cuts = pieces(random, len(arrivals), random.choice([2, 2, 3, 3, 4]))
    return _told_apart(written, [Turn(_looks(plan, random, arrivals[a:b])) for a, b in cuts])


def _told_apart(written: Written, found: list[Turn]) -> list[Turn]:
    """Adds scans where one scan would find parts of two full loads, some of them under new keys, or parts of each that
    no scan has seen: if the loads are minutes apart, nothing shows which parts belong together."""
    bucket: dict[str, Object] = {}
    shown: set[str] = set()
    turns = []
    for turn in found:
        looks = []
        for look in turn.looks:
            newer = dict(bucket)
            newer.update({o.key: o for o in look})
            parts = [o for o in newer.values() if o.load is not None]
            # Also of a part that the next load writes again before any scan.
            loads = {o.load for o in look if o.load is not None}
            mixed = len(loads) > 1 or (
                len({o.load for o in parts}) > 1 and any(o.key not in shown for o in parts)
            )
            first = {o.load: n for n, o in reversed(list(enumerate(look))) if o.load is not None}
            borders = sorted({0, len(look), *(first.values() if mixed else ())})
            looks += [look[a:b] for a, b in itertools.pairwise(borders)]
            bucket = newer
            shown |= set(bucket)
        turns.append(Turn(looks))
    return turns


def _note(written: Written, arrivals: list[Object], seen: set[str]) -> None:
    changes = [found for found in arrivals if found.load is None]
    if any(a.written > b.written for a, b in itertools.pairwise(changes)):
        seen.add("late")
    for load in written.loads:
        last = max(n for n, found in enumerate(arrivals) if found.load == load.number)
        first = min(n for n, found in enumerate(arrivals) if found.load == load.number)
        if any(found.load is None and found.written > load.began for found in arrivals[:first]):
            seen.add("late load")
        if load.number and any(
            found.load is None and found.written < load.began for found in arrivals[last:]
        ):
            seen.add("old file after a reload")


def _again(written: Written, random: Random, arrivals: list[Object], seen: set[str]) -> list[Object]:
    """Writes some objects again, with their content at that time."""
    found: list[Object] = []
    bucket: dict[str, Object] = {}
    for arrived in arrivals:
        bucket[arrived.key] = arrived
        found.append(arrived)
        # A part of a full load as it was might be a part of a reload that has not changed.
        known = [old for old in bucket.values() if old.load is None or not written.plan.reloads]
        if known and random.random() < 0.15:
            found.append(random.choice(known))
            seen.add("again")
    return found


def _looks(plan: Plan, random: Random, arrived: list[Object]) -> list[list[Object]]:
    middles = []
    if len(arrived) > 1 and random.random() < 0.4:
        middles.append(random.randrange(1, len(arrived)))
    if "unseen_parts" in plan.without:
        # The first part of each full load gets a scan of its own, so that all earlier objects are logged before.
        loads = {found.load: n for n, found in reversed(list(enumerate(arrived))) if found.load is not None}
        middles += [n for n in loads.values() if n]
    return [arrived[a:b] for a, b in itertools.pairwise(sorted({0, len(arrived), *middles}))]


def pieces(random: Random, length: int, count: int) -> list[tuple[int, int]]:
    borders = random.sample(range(1, length), min(length - 1, count - 1)) if length > 1 else []
    return list(itertools.pairwise(sorted({0, length, *borders})))
