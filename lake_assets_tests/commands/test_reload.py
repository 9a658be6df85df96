"""When `lake-assets dev` loads the definitions again. Pure.

Not here: the real `dev` (`orchestration/test_dev_partitions.py`).
"""

import threading
from collections.abc import Sequence
from datetime import date

import pytest

from lake_assets.commands.run import reload
from lake_assets.commands.run.reload import begins_earlier, watch_first_days
from lake_assets.orchestration.shared.first_periods import FirstPeriods

EARLIEST = date(2000, 1, 1)


def first(day: int | None = None, *, mart: int | None = None) -> FirstPeriods:
    tables = {} if day is None else {("shop", "public.items"): date(2026, 3, day)}
    return FirstPeriods(EARLIEST, tables, {} if mart is None else {"daily": date(2026, 3, mart)})


@pytest.mark.parametrize(
    ("now", "loaded", "expected"),
    [
        (first(), first(), False),
        (first(5), first(), True),
        (first(5, mart=5), first(5), True),
        (first(5), first(5), False),
        (first(4), first(5), True),
        (first(6), first(5), False),
        (first(), first(5), False),
    ],
)
def test_data_that_begins_earlier(now: FirstPeriods, loaded: FirstPeriods, *, expected: bool) -> None:
    assert begins_earlier(now, loaded) is expected


@pytest.mark.parametrize(
    ("looks", "reloads"),
    [
        ([first(), first(), first()], 0),
        ([first(), first(5), first(5), first(5)], 1),
        ([first(), first(5), first(5, mart=6), first(5, mart=6)], 1),
        ([first(), first(5), first(5), first(5, mart=6), first(5, mart=6)], 2),
        ([first(5), first(5), first(5)], 0),
        ([OSError("no catalog"), first(), first(5), OSError("no catalog"), first(5), first(5)], 1),
    ],
)
def test_it_reloads_once_the_first_day_is_settled(
    monkeypatch: pytest.MonkeyPatch, looks: Sequence[FirstPeriods | OSError], reloads: int
) -> None:
    monkeypatch.setattr(reload, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(reload, "PAUSE_FACTOR", 0)
    ended, left, seen = threading.Event(), list(looks), []

    def look() -> FirstPeriods:
        found = left.pop(0)
        if not left:
            ended.set()
        if isinstance(found, OSError):
            raise found
        return found

    watch_first_days(look, lambda: seen.append(1), ended)
    assert len(seen) == reloads
