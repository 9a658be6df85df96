"""A history in readable form.

Here: text for debugging a difference. Not here: finding the difference (`run.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields

from lake_assets_tests.soak.arrival import Turn
from lake_assets_tests.soak.source import Change
from lake_assets_tests.soak.stream.messages import Sent
from lake_assets_tests.soak.writer import Object, Written


def describe(written: Written, turns: Sequence[Turn]) -> str:
    """What the source did, what DMS wrote, what arrived when."""
    return "\n".join([*_habits(written), *_source(written), *_arrivals(written, turns)])


def _habits(written: Written) -> Iterator[str]:
    yield "  plan: " + ", ".join(
        f"{f.name}={value}" for f in fields(written.plan) if (value := getattr(written.plan, f.name))
    )


def _source(written: Written) -> Iterator[str]:
    yield "  the source's log:"
    loads = list(written.loads)
    for change in written.source.changes:
        for load in [load for load in loads if load.cut <= change.number]:
            loads.remove(load)
            yield f"    -- changes of load {load.number}, which reads up to change {load.read}, begin"
        yield f"    {_change(change, written.plan.key)}"
    for load in loads:
        yield f"    -- load {load.number} begins"


def _change(change: Change, key: Sequence[str]) -> str:
    image = {n: ("?" if n in change.unsupplied else v) for n, v in change.image.items()}
    told_of = ", ".join(f"{name}={value!r}" for name, value in image.items() if value is not None)
    before = f" from {tuple(change.before.values())}" if change.before else ""
    return (
        f"{change.number:3} T{change.transaction} {change.commit_ts:%H:%M:%S.%f} {change.op} "
        f"{tuple(change.image[name] for name in key)}{before}: {told_of}"
    )


def _arrivals(written: Written, turns: Sequence[Turn]) -> Iterator[str]:
    for number, turn in enumerate(turns, start=1):
        yield f"  turn {number}:"
        for place, look in enumerate(turn.looks):
            if place:
                yield "    -- a scan --"
            yield from (f"    {_object(found)}" for found in look)


def _object(found: Object | Sent) -> str:
    if isinstance(found, Sent):
        return str(found)
    if found.load is not None:
        return f"{found.key} of load {found.load}, {len(found.file.rows)} rows, read at {found.written:%H:%M:%S.%f}"
    spelt = "" if found.sequenced else ", without sequences"
    return f"{found.key}: changes {found.numbers.start} to {found.numbers.stop - 1}{spelt}"
