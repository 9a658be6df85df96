"""Full load and changes, of every kind that a source can make, through Spark and Iceberg: silver equals the oracle.

Here: one story in four turns, told by five tables side by side. Not here: late, repeated and rewritten files
(`test_late_files.py`), layouts and types (`test_formats.py`), rows that stop a table (`test_bad_rows.py`), faults
(`test_exactly_once.py`).
"""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.files.dms_files import NOON, Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench

TABLES: dict[str, dict[str, Any]] = {
    "public.items": {
        "columns": {
            "id": "long not null",
            "name": "string not null",
            "note": "string",
            "price": "decimal(10, 2) not null",
            "at": "timestamptz not null",
        },
        "primary_key": ["id"],
        "partition_by": ["day(at)"],
    },
    "public.lines": {
        "columns": {"amount": "int", "order_id": "long not null", "line": "string not null", "due": "date"},
        "primary_key": ["order_id", "line"],
    },
    "public.status": {
        "columns": {"id": "int not null", "free": "int not null"},
        "primary_key": ["id"],
        "also": ["change_log"],
    },
    "public.events": {"columns": {"kind": "string", "size": "long"}, "mode": "append_log"},
    "public.late_born": {"columns": {"id": "long not null", "v": "string"}, "primary_key": ["id"]},
}
SILVER = {
    "items": ("public.items", "current"),
    "lines": ("public.lines", "current"),
    "status": ("public.status", "current"),
    "status_changes": ("public.status", "change_log"),
    "events": ("public.events", "append_log"),
    "late_born": ("public.late_born", "current"),
}


@dataclass
class Told:
    """What was there after each turn."""

    bench: Bench
    found: list[dict[str, list[str]]] = field(default_factory=list)
    true: list[dict[str, list[str]]] = field(default_factory=list)
    kinds: list[dict[str, list[str]]] = field(default_factory=list)
    items: list[set[int]] = field(default_factory=list)
    """Keys of `items` after each turn."""

    def turn(self) -> None:
        batches = self.bench.apply()
        self.kinds.append({name: [batch.kind for batch in done] for name, done in batches.items()})
        self.found.append({name: self.bench.rows(name) for name in SILVER})
        self.true.append({name: self.bench.truth(*of) for name, of in SILVER.items()})
        self.items.append(set(self.bench.table("items").scan().to_arrow()["id"].to_pylist()))


def item(
    number: int, name: str = "n", note: str | None = None, price: str = "1.00", day: int = 1
) -> dict[str, Any]:
    at = datetime(2026, 3, day, 10, 0, 0, 123456, tzinfo=UTC)
    return {"id": number, "name": name, "note": note, "price": Decimal(price), "at": at}


def line(order: int, name: str, amount: int | None = 1, due: date | None = None) -> dict[str, Any]:
    return {"order_id": order, "line": name, "amount": amount, "due": due}


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    bench = Bench(tmp_path_factory.mktemp("story"), TABLES)
    story = Told(bench)
    c = Clock()
    bench.put(
        load_file("public.items", [item(n, f"item {n}") for n in range(1, 9)]),
        load_file(
            "public.items",
            [item(9, ""), item(10, 'q"u,o\nte\r\n', "", day=2), item(11, "é✓\\", "NULLS")],
            part=2,
        ),
        load_file("public.lines", [line(1, "a"), line(1, "b"), line(2, "a", None, date(2026, 3, 9))]),
        load_file("public.status", [{"id": n, "free": n} for n in (1, 2, 3)]),
        load_file("public.events", [{"kind": "start", "size": None}, {"kind": "start", "size": None}]),
        # A table without a full load: all there is of it are changes.
        cdc_file(
            "public.late_born",
            c.now,
            [c.change("I", {"id": 1, "v": "a"}), c.change("I", {"id": 2, "v": None})],
        ),
    )
    story.turn()

    gone = {"id": 12, "name": None, "note": None, "price": None, "at": None}
    bench.put(
        cdc_file(
            "public.items",
            c.now + timedelta(minutes=1),
            [
                c.change("U", item(1, "twice changed: 1")),
                c.change("U", item(1, "twice changed: 2", day=3)),
                # A delete carries the key alone, whatever else is NOT NULL.
                c.change("D", gone | {"id": 2}),
                c.change("I", item(12, "came")),
                c.change("U", item(12, "stayed")),
                c.change("D", gone),
                c.change("I", item(12, "came again", "x")),
                c.change("D", gone | {"id": 404}),
                c.change("I", item(13, "came and went")),
                c.change("D", gone | {"id": 13}),
                c.change("U", item(33, "moved"), before={"id": 3}),
                # A chain, and the key at its beginning taken again, in one transaction.
                c.change("U", item(40, "chain 1"), before={"id": 4}),
                c.change("U", item(41, "chain 2"), before={"id": 40}, same_transaction=True),
                c.change("U", item(42, "chain 3"), before={"id": 41}, same_transaction=True),
                c.change("I", item(4, "new owner"), same_transaction=True),
                c.change("U", item(9, "no longer empty", None)),
                c.change("U", item(10, "", None)),
            ],
        ),
        cdc_file(
            "public.lines",
            c.now + timedelta(minutes=1),
            [
                # An engine that fills before images on every update.
                c.change("U", line(1, "a", 7), before={"order_id": 1, "line": "a"}),
                c.change("U", line(3, "b", 8), before={"order_id": 1, "line": "b"}),
                c.change("U", line(2, "z", 9), before={"order_id": 2, "line": "a"}),
                c.change("I", line(1, "b", 10)),
            ],
        ),
        cdc_file(
            "public.status",
            c.now + timedelta(minutes=1),
            [
                c.change("U", {"id": 1, "free": 5}),
                c.change("U", {"id": 1, "free": 4}, same_transaction=True),
                c.change("D", {"id": 3, "free": None}),
                c.change("U", {"id": 30, "free": 9}, before={"id": 2}),
            ],
        ),
        cdc_file("public.events", c.now + timedelta(minutes=1), [c.change("I", {"kind": "", "size": 1})]),
    )
    story.turn()

    for step, key in enumerate((42, 43)):
        # The chain goes on across batches, one key update a file.
        bench.put(
            cdc_file(
                "public.items",
                c.now + timedelta(minutes=2, seconds=step),
                [c.change("U", item(key + 1, f"chain, batch {step}", day=4), before={"id": key})],
            )
        )
        bench.put(
            cdc_file(
                "public.late_born",
                c.now + timedelta(minutes=2, seconds=step),
                [c.change("U", {"id": 1 + step, "v": "b"}), c.change("D", {"id": 1, "v": None})],
            ),
            cdc_file(
                "public.events",
                c.now + timedelta(minutes=2, seconds=step),
                [c.change("I", {"kind": "same", "size": 2}), c.change("I", {"kind": "same", "size": 2})],
            ),
        )
    story.turn()

    bench.put(
        cdc_file(
            "public.items",
            c.now + timedelta(minutes=3),
            [c.change("D", gone | {"id": number}) for number in sorted(story.items[-1])],
        ),
        load_file("public.late_born", [{"id": 7, "v": "loaded"}, {"id": 2, "v": "old"}], at=NOON),
    )
    story.turn()
    return story


@pytest.mark.parametrize("name", SILVER)
@pytest.mark.parametrize("turn", range(4))
def test_silver_is_what_the_files_say(told: Told, turn: int, name: str) -> None:
    assert told.found[turn][name] == told.true[turn][name]


def test_the_story_is_not_an_empty_one(told: Told) -> None:
    """What the turns are compared on is there, by keys that are easy to check by eye."""
    settled = {1, *range(4, 13), 33}
    assert told.items == [set(range(1, 12)), settled | {42}, settled | {44}, set()]


def test_a_batch_replaces_only_after_a_full_load(told: Told) -> None:
    assert [turn["items"] for turn in told.kinds] == [["full_load"], ["cdc"], ["cdc"], ["cdc"]]
    assert [turn["late_born"] for turn in told.kinds] == [["cdc"], [], ["cdc"], ["full_load"]]
    assert [turn["status_changes"] for turn in told.kinds] == [["cdc"], ["cdc"], [], []]
