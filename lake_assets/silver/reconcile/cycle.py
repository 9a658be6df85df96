"""The progress of a table's comparison with its files: which slices of keys are due, and which differed.

Here: those decisions, and the progress as JSON, as it is kept in the lake. Not here: comparing
(`compare_slices.py`), the keys of a slice (`key_slices.py`). Pure.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from lake_assets.errors import LakeError


@dataclass(frozen=True, slots=True)
class Cycle:
    """One pass over all keys of a table, in `number` slices that are compared one after the other."""

    number: int
    begun: datetime
    """UTC."""
    bounds: tuple[int, ...] = ()
    """The first key of each slice but the first; empty for slices of the key's hash."""
    next: int = 0
    """The first slice that was not compared yet; `number` once the cycle is over."""
    rows: int = 0
    """Rows that were compared in this cycle."""
    seconds: float = 0.0
    readings: int = 0
    """How often the files were read in these seconds; each time whole, whatever the number of slices."""
    completed: datetime | None = None
    """When the newest whole cycle ended, UTC."""
    different: Mapping[int, str] = field(default_factory=dict)
    """By slice that differed when it was compared last, a sentence and examples."""

    @property
    def over(self) -> bool:
        return self.next >= self.number

    @property
    def reading(self) -> float | None:
        """The seconds of one reading; None before there was one."""
        return self.seconds / self.readings if self.readings else None

    def step(self, every: timedelta) -> timedelta:
        """The time from one slice to the next, if a cycle takes `every`."""
        return every / self.number

    def due(self, now: datetime, every: timedelta) -> range:
        """The slices whose time has come. Half a step early counts: a schedule is not exact to the second."""
        begun = int((now - self.begun) / self.step(every) + 0.5) + 1
        return range(self.next, min(self.number, max(begun, self.next)))

    def next_due(self, every: timedelta) -> datetime:
        """When the next slice is due, or, once the cycle is over, the next cycle."""
        return self.begun + self.step(every) * self.next

    def is_outdated(self, now: datetime, every: timedelta) -> bool:
        """Whether the cycle is over and the next one is due. Half a step early counts, but no more than a fourteenth of
        the period: otherwise a cycle of one slice would begin twice in a period."""
        return self.over and now >= self.begun + every - min(self.step(every) / 2, every / 14)

    def after(
        self,
        compared: Collection[int],
        different: Mapping[int, str],
        rows: int,
        seconds: float,
        now: datetime,
    ) -> "Cycle":
        """The progress once these slices are compared. `different`: those of them that differ."""
        following = self.next
        while following in compared:
            following += 1
        kept = {one: text for one, text in self.different.items() if one not in compared}
        return replace(
            self,
            next=following,
            rows=self.rows + rows,
            seconds=round(self.seconds + seconds, 3),
            readings=self.readings + 1,
            completed=now if following == self.number != self.next else self.completed,
            different={**kept, **different},
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "begun": self.begun.isoformat(),
            "bounds": list(self.bounds),
            "next": self.next,
            "rows": self.rows,
            "seconds": self.seconds,
            "readings": self.readings,
            "completed": self.completed.isoformat() if self.completed is not None else None,
            "different": {str(one): text for one, text in self.different.items()},
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Cycle":
        completed = given["completed"]
        return cls(
            number=given["number"],
            begun=datetime.fromisoformat(given["begun"]),
            bounds=tuple(given["bounds"]),
            next=given["next"],
            rows=given["rows"],
            seconds=given["seconds"],
            readings=given.get("readings", given["next"]),  # an earlier release did not record them
            completed=datetime.fromisoformat(completed) if completed else None,
            different={int(one): text for one, text in given["different"].items()},
        )


def chosen_slices(text: str, cycle: Cycle) -> tuple[int, ...]:
    """The slices that a user names: `next`, `all`, `different`, a number such as 3, or a range such as 3-5; from 1.
    Raises LakeError for another text, and for numbers that the cycle does not have."""
    named = {
        "next": (cycle.next,),
        "all": tuple(range(cycle.number)),
        "different": tuple(sorted(cycle.different)),
    }
    if text in named:
        return named[text]
    first, _, last = text.partition("-")
    if first.isdecimal() and (last or first).isdecimal():
        found = tuple(range(int(first) - 1, int(last or first)))
        if found and found[0] >= 0 and found[-1] < cycle.number:
            return found
    raise LakeError(
        f"{text} is not a slice: expected next, all, different, or numbers of the {cycle.number} slices, such as 3 or "
        "3-5."
    )
