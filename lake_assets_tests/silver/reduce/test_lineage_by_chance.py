"""Rows that random transactions change, update and move: each partial image is completed to the row of the source.

Here: the rule of `row_lineage.py` alone, with the full load read after some transactions that its changes show as
well. Not here: cases of one's own choice (`test_lineage.py`), Spark (`test_random_shapes.py`). `LAKE_LINEAGES=100:400`
runs four hundred others, from seed 100 on.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from lake_assets.silver.reduce.current.row_lineage import Place, Step, survivors, whole_images
from lake_assets_tests.helpers.oracles.random_history import RandomSource

FIRST, COUNT = (int(number) for number in os.environ.get("LAKE_LINEAGES", "0:60").split(":"))
KEPT = ("v", "n")


@dataclass
class Watched(RandomSource):
    """A source that notes each row after its change."""

    after: list[dict[str, Any] | None] = field(default_factory=list)

    def _statement(self, same_transaction: bool) -> None:
        super()._statement(same_transaction)
        change = self.changes[-1]
        row = self.rows.get((change["id"], change["part"]))
        self.after.append(None if row is None else dict(row))


@dataclass
class Told:
    """The events of a history, and the images that the files have of them."""

    seed: int
    during: int
    """Transactions while the full load runs, which reads the rows after them."""
    steps: list[Step] = field(default_factory=list)
    images: dict[Place, dict[str, Any]] = field(default_factory=dict)
    """What the files show, without what they lack."""
    rows: dict[Place, dict[str, Any] | None] = field(default_factory=dict)
    """The source's row after each change that the load does not show."""

    def __post_init__(self) -> None:
        random = Random(self.seed)
        self._key = ["id", "part"] if self.seed % 2 else ["id"]
        self.source = Watched(random, self._key, always_before=random.random() < 0.5, kept=KEPT)
        self._numbers: dict[tuple[Any, ...], int] = {}
        start, loading = self._run(12), self._run(self.during)
        self._loaded = {self.number(row): dict(row) for row in self.source.rows.values()}
        self._run(40)
        for key, row in self._loaded.items():
            self._take(Step(key, "I", "", "", "load", key), row)
        for place in range(start, len(self.source.changes)):
            self._follow(place, in_load=place < loading)
        again = random.sample(sorted(self.images), len(self.images) // 4)
        self.steps += [replace(s, file="again") for s in self.steps if s.sequence and s.place in again]
        random.shuffle(self.steps)

    def _run(self, transactions: int) -> int:
        for _ in range(transactions):
            self.source.transaction()
        return len(self.source.changes)

    def number(self, image: dict[str, Any]) -> int:
        return self._numbers.setdefault(tuple(image[name] for name in self._key), len(self._numbers))

    def _take(self, step: Step, image: dict[str, Any]) -> None:
        self.steps.append(step)
        for file in (step.file, "again"):
            self.images[step.sequence, file, step.row] = {
                name: image[name] for name in KEPT if name not in step.lacks
            }

    def _follow(self, place: int, *, in_load: bool) -> None:
        change = self.source.changes[place]
        moved_from = self.number(
            {**change, **{n: change[f"BI_{n}"] for n in self._key if f"BI_{n}" in change}}
        )
        key, lacks = (
            self.number(change),
            frozenset(n for n in KEPT if change["Op"] == "U" and change[n] is None),
        )
        read = self._loaded.get(key, {})
        step = Step(
            key,
            "M" if moved_from != key else change["Op"],
            change["change_seq"],
            "",
            "changes",
            place,
            partial=bool(lacks),
            repeats=True,
            loaded=in_load and all(read.get(n) == change[n] for n in ("id", "part", *KEPT) if n not in lacks),
            in_load=in_load,
            lacks=lacks,
            kept=bool(lacks),
            required=lacks - {"v"},
        )
        if moved_from != key:
            self.steps.append(replace(step, key=moved_from, kind="A", partial=False, loaded=False))
        self._take(step, change)
        if not in_load:
            self.rows[step.place] = self.source.after[place]

    def image(self, places: list[Place]) -> dict[str, Any]:
        """The values from the newest of the changes that has each of them."""
        found: dict[str, Any] = {}
        for place in sorted(places):
            found |= self.images[place]
        return found


def histories() -> Iterator[Told]:
    for seed in range(FIRST, FIRST + COUNT):
        yield from (Told(seed, during) for during in (0, 3))


def test_each_image_is_the_row_that_the_source_had() -> None:
    seen = 0
    for told in histories():
        made = whole_images(told.steps)
        for place, row in told.rows.items():
            if place in made:
                assert row is not None
                assert told.image(made[place]) == {name: row[name] for name in KEPT}, (
                    told.seed,
                    told.during,
                    place,
                )
                seen += 1
    assert seen > 10 * COUNT


def test_each_survivor_is_the_row_that_the_source_has() -> None:
    for told in histories():
        found = survivors(told.steps)
        rows = {told.number(row): row for row in told.source.rows.values()}
        assert found.keys() == rows.keys(), (told.seed, told.during)
        for key, places in found.items():
            assert told.image(places) == {name: rows[key][name] for name in KEPT}, (
                told.seed,
                told.during,
                key,
            )


def test_the_histories_are_of_the_kinds_they_should_be() -> None:
    kinds = {(step.kind, step.partial, step.in_load) for told in histories() for step in told.steps}
    assert {(kind, True, in_load) for kind in "UM" for in_load in (False, True)} <= kinds
    assert {("D", False, True), ("I", False, True), ("A", False, True)} <= kinds
