"""Files that come late, twice, or again with another content, and full loads that are repeated: order of arrival and
number of deliveries make no difference.

Here: one lake through five such turns. Not here: what is decided of them (`test_plan.py`), histories by chance
(`test_random_histories.py`).
"""

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.mend.quarantine_commands import retry
from lake_assets.silver.batch.result import BatchResult
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, Row, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench, comparable
from lake_assets_tests.helpers.oracles import oracle

pytestmark = pytest.mark.spark
TABLES: dict[str, dict[str, Any]] = {
    "public.items": {
        "columns": {"id": "long not null", "v": "string not null"},
        "primary_key": ["id"],
        "also": ["change_log"],
    },
    "public.events": {"columns": {"id": "long not null", "v": "string not null"}, "mode": "append_log"},
}
SILVER = {
    "items": ("public.items", "current"),
    "items_changes": ("public.items", "change_log"),
    "events": ("public.events", "append_log"),
}
Batches = dict[str, list[BatchResult]]


class Story:
    """A lake after each of its turns; `check` compares it with the oracle."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.clock = Clock()
        self.files = 0

    def item(self, op: str, key: int, value: str | None = None, before: int | None = None) -> dict[str, Any]:
        return self.clock.change(op, {"id": key, "v": value}, None if before is None else {"id": before})

    def event(self, key: int) -> dict[str, Any]:
        return self.clock.change("I", {"id": key, "v": "e"})

    def file(self, table: str, *rows: Row) -> DmsFile:
        """A CDC file that is flushed after all files before it."""
        self.files += 1
        return cdc_file(table, self.clock.now + timedelta(seconds=self.files), rows)

    def check(self, *names: str) -> None:
        for name in names or SILVER:
            assert self.bench.rows(name) == self.bench.truth(*SILVER[name]), name


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(Bench(tmp_path_factory.mktemp("late"), TABLES))


def replayed(batches: Batches) -> dict[str, bool]:
    return {name: any(batch.replayed_bytes for batch in done) for name, done in batches.items()}


def test_late_and_repeated_files(story: Story) -> None:
    """One test, because each turn needs the ones before it."""
    bench = story.bench
    bench.put(
        load_file("public.items", [{"id": n, "v": "loaded"} for n in range(1, 7)]),
        load_file("public.items", [{"id": 7, "v": "loaded"}], part=2),
        load_file("public.events", [{"id": 1, "v": "e"}, {"id": 1, "v": "e"}]),
    )
    first = [story.item("U", 1, "first"), story.item("D", 2), story.item("U", 33, "moved", before=3)]
    early = story.file("public.items", *first)
    held_back = story.file(
        "public.items",
        story.item("U", 1, "held back"),
        story.item("U", 34, "moved on", before=33),
        story.item("D", 4),
    )
    third = [story.item("U", 1, "third"), story.item("I", 4, "again"), story.item("U", 5, "third")]
    last = story.file("public.items", *third)
    events = [story.event(n) for n in (2, 2, 3)]
    bench.put(early, last, story.file("public.events", *events))
    batches = bench.apply()
    # `held_back` is not there yet: 33 has not moved on. It is the only difference.
    story.check()
    assert not any(replayed(batches).values())

    # A file comes after later ones were applied. Its update of 1 is history, what it says of 33 is news.
    bench.put(held_back)
    batches = bench.apply()
    story.check()
    assert replayed(batches) == {"items": True, "items_changes": False, "events": False}

    # DMS resumes after a failure, and writes changes again, in other files and among new ones.
    bench.put(
        story.file("public.items", *first, *third, story.item("U", 5, "after the failure")),
        story.file("public.items", *first[1:]),
        story.file("public.events", *events[1:], story.event(4)),
        story.file("public.events", *events[:1]),
    )
    batches = bench.apply()
    story.check()
    assert replayed(batches) == {"items": True, "items_changes": False, "events": True}
    (batch,) = batches["items_changes"]
    assert (batch.rows_read, batch.rows_written) == (9, 1)


def test_a_file_that_was_written_again(story: Story) -> None:
    """Its key is the same, what it said before counts no longer: such a table is made anew."""
    bench = story.bench
    story.clock.now += timedelta(minutes=1)
    wrong = story.file("public.items", story.item("I", 50, "wrong"), story.item("D", 6))
    wrong_events = story.file("public.events", story.event(50), story.event(51))
    bench.put(wrong, wrong_events, story.file("public.items", story.item("U", 5, "later")))
    bench.apply()
    story.check()
    bench.put(
        DmsFile(wrong.key, (story.item("I", 51, "right"),)), DmsFile(wrong_events.key, wrong_events.rows[1:])
    )
    results = bench.turn()
    assert [batch.kind for batch in results["items"].batches] == ["full_load"]
    assert [batch.kind for batch in results["events"].batches] == ["full_load"]
    story.check("items", "events")
    # A log cannot take rows back: it goes on, and somebody decides.
    assert results["items_changes"].error is None
    (held,) = bench.lake.runtime.quarantine.open("silver_shop.items_changes")
    assert held.key == wrong.key
    assert "it was written again after its rows had been applied" in held.reason


def test_reloads(story: Story) -> None:
    """DMS writes LOAD00000001 again: what is not in it is gone, and changes from before it are not applied again."""
    bench = story.bench
    story.clock.now += timedelta(minutes=10)
    late_old = story.file(
        "public.items", story.item("U", 1, "before the reload"), story.item("I", 60, "deleted before it")
    )
    began = story.clock.now + timedelta(minutes=10)
    during = began + timedelta(seconds=30)
    story.clock.now = began
    bench.put(
        load_file("public.items", [{"id": n, "v": "reloaded"} for n in (1, 5, 70)], at=began),
        load_file("public.events", [{"id": 9, "v": "e"}], at=began),
        cdc_file("public.items", during, [story.item("U", 5, "during the load"), story.item("D", 70)]),
    )
    # The reload has one part: the old second one is still in the bucket, and not a part of it.
    del bench.bucket["public/items/LOAD00000002.csv"]
    results = bench.turn()
    assert results["items"].position.epoch == results["events"].position.epoch == 2
    story.check("items", "events")

    bench.put(late_old, story.file("public.events", story.event(10)))
    results = bench.turn()
    assert results["items"].batches[0].superseded_files == 1
    story.check("items", "events")
    assert sorted(row["id"] for row in bench.stored("items")) == [1, 5]


def test_a_change_log_keeps_every_epoch(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And it waits for nothing: changes are there before the load that they follow is complete."""
    story = Story(Bench(tmp_path_factory.mktemp("log"), {"public.items": TABLES["public.items"]}))
    bench, loads = story.bench, []
    for epoch in range(2):
        story.clock.now += timedelta(minutes=10)
        loads.append(
            load_file("public.items", [{"id": epoch, "v": "l"}], at=NOON + timedelta(minutes=30 * epoch))
        )
        bench.put(loads[-1], story.file("public.items", story.item("U", epoch, "c")))
        bench.apply(only=["items_changes"])
    expected = oracle.change_log([loads[0]], ["id", "v"]) + oracle.change_log(
        bench.files("public.items"), ["id", "v"]
    )
    assert bench.rows("items_changes") == comparable(expected)


def test_a_late_file_of_an_append_log_is_held_while_an_applied_file_is_gone(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its rows may repeat those of the missing file, which the table alone cannot show."""
    story = Story(Bench(tmp_path_factory.mktemp("gone"), {"public.events": TABLES["public.events"]}))
    bench = story.bench
    repeated = story.event(2)
    late = story.file("public.events", repeated, story.event(3))
    applied = story.file("public.events", repeated, story.event(4))
    bench.put(load_file("public.events", [{"id": 1, "v": "e"}]), applied)
    bench.apply()
    gone = bench.folder / "bronze" / applied.key
    content = gone.read_bytes()
    gone.unlink()
    newer = story.file("public.events", story.event(5))
    bench.put(late, newer)
    bench.apply()
    assert sorted(row["id"] for row in bench.stored("events")) == [1, 2, 4, 5]
    (held,) = bench.lake.runtime.quarantine.open("silver_shop.events")
    assert held.key == late.key
    assert f"it arrived late, and {applied.key}" in held.reason
    gone.write_bytes(content)
    retry(bench.lake.runtime, [held])
    bench.apply()
    story.check("events")
