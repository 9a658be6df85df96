"""What a drill is, which row it is of, and whether it has shown what the row says.

Here: this. Not here: the drills themselves.
"""

import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from lake_assets_tests.drills.practice import New, Practice, new_lake, new_shop
from lake_assets_tests.drills.rows import Row


@dataclass(frozen=True, slots=True)
class Lakes:
    """Makes the lakes of a drill: `lake` without files, `shop` with a full load and changes that are applied."""

    lake: New
    shop: New


Drill = Callable[[Lakes], None]
DRILLS: dict[str, Drill] = {}
"""By the beginning of the first column of its row."""


def drill(of: str) -> Callable[[Drill], Drill]:
    """Registers the drill of the row whose first column begins so, and of no other one."""

    def register(one: Drill) -> Drill:
        assert of not in DRILLS, of
        DRILLS[of] = one
        return one

    return register


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a drill."""

    row: Row
    seen: tuple[str, ...]
    done: tuple[str, ...]
    """What was run, without repetitions."""
    seconds: float
    failure: str | None

    @property
    def line(self) -> str:
        """A line for the user."""
        seen = "; ".join(_short(text) for text in dict.fromkeys(self.seen)) or "nothing"
        result = "equal" if self.failure is None else "FAILED"
        run = "; ".join(dict.fromkeys(self.done))
        return f"{result} | {_short(self.row.happened)} | seen: {seen} | run: {run} | {self.seconds:.1f} s"


def faults(drills: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Rows without a drill, and drills without a row, or of several rows."""
    found = [f"no drill: {row.happened}" for row in rows if not _of(row, drills)]
    for name in drills:
        own = [row for row in rows if row.happened.startswith(name)]
        if len(own) != 1:
            found.append(f"the drill {name!r} is of {len(own)} rows")
    found += [f"several drills: {row.happened}" for row in rows if len(_of(row, drills)) > 1]
    return found


def _of(row: Row, drills: Sequence[str]) -> list[str]:
    return [name for name in drills if row.happened.startswith(name)]


def run(row: Row, one: Drill, folder: Path) -> Outcome:
    """Runs a drill in lakes below the folder, and judges it. Never raises: see `failure`."""
    began = time.monotonic()
    made: list[Practice] = []
    numbers = count(1)

    def make(how: New, *given: object, **more: object) -> Practice:
        found = how(folder / f"lake_{next(numbers)}", *given, **more)
        made.append(found)
        return found

    failure = None
    try:
        one(Lakes(partial(make, new_lake), partial(make, new_shop)))
        judge(row, made)
    except Exception:  # noqa: BLE001  (of the lake or of the drill: the others go on)
        failure = traceback.format_exc()
    seen = tuple(text for lake in made for text in lake.seen)
    done = tuple(text for lake in made for text in lake.done)
    return Outcome(row, seen, done, time.monotonic() - began, failure)


def judge(row: Row, lakes: Sequence[Practice]) -> None:
    """Raises AssertionError unless the user has seen the row's messages, or no stop if it has none, has run its
    commands, and each lake was compared with the source."""
    seen = " ".join(" ".join(lake.seen) for lake in lakes)
    for parts in row.messages:
        assert all(part in seen for part in parts), f"not seen: {' … '.join(parts)}\nbut: {seen}"
    if not row.messages:
        assert not any(lake.stops for lake in lakes), f"a table has stopped: {seen}"
    done = {word for lake in lakes for text in lake.done for word in text.split()}
    for words in row.commands:
        assert set(words) <= done, f"not run: {' '.join(words)}"
    assert lakes, "no lake was made"
    for lake in lakes:
        assert lake.compared, "silver was not compared with the source"


def run_in(row: Row, one: Drill) -> Outcome:
    """The same in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="drill-") as folder:
        return run(row, one, Path(folder))


def _short(text: str, length: int = 110) -> str:
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 2]} …"
