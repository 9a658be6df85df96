"""Tables made anew from their files: the comparison, the swap, and what is refused.

Here: one lake, which somebody else has tampered with. Not here: what a batch does (`test_apply.py`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lake_assets import cli
from lake_assets.config import LakeConfig
from lake_assets.errors import TableStopped
from lake_assets.iceberg.publish import Attempt
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.silver.apply import rebuild as rebuilding
from lake_assets.silver.apply.rebuild import rebuild, replay
from lake_assets.silver.table.position import read_position
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.files.dms_files import Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench

pytestmark = pytest.mark.spark
TABLE = "public.items"
COLUMNS = {"id": "long not null", "v": "string", "at": "timestamptz"}
TABLES: dict[str, dict[str, Any]] = {
    TABLE: {"columns": COLUMNS, "primary_key": ["id"], "also": ["change_log"]},
    "public.events": {"columns": COLUMNS, "mode": "append_log"},
}


class Story:
    """A lake with a load and three CDC files of two tables, all applied."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder, TABLES)
        self.clock = Clock()
        self.files: list[DmsFile] = []
        rows = [{"id": n, "v": f"v{n}"} for n in range(1, 9)]
        self.bench.put(load_file(TABLE, rows), load_file("public.events", rows))
        for number in range(3):
            self.clock.now += timedelta(minutes=1)
            change = self.clock.change
            changes = [
                change("U", {"id": number + 1, "v": "changed"}),
                change("U", {"id": 50 + number, "v": "moved"}, {"id": 6 + number}),
            ]
            self.files.append(cdc_file(TABLE, self.clock.now, changes))
            events = cdc_file("public.events", self.clock.now, [change("I", {"id": 9, "v": "e"})])
            self.bench.put(self.files[-1], events)
        self.bench.apply()

    @property
    def lake(self) -> Lake:
        return self.bench.lake

    def target(self, name: str = "items") -> Target:
        return next(target for target in self.lake.targets if target.name == name)

    def sql(self, statement: str, name: str = "items") -> None:
        """Somebody writes to silver past the engine."""
        table = f"{self.lake.config.catalog.name}.silver_shop.{name}"
        with self.lake.runtime.sessions.isolated() as spark:
            spark.sql(statement.format(table=table))

    def check(self) -> None:
        for name, (table, shape) in {
            "items": (TABLE, "current"),
            "items_changes": (TABLE, "change_log"),
            "events": ("public.events", "append_log"),
        }.items():
            assert self.bench.rows(name) == self.bench.truth(table, shape), name


@pytest.fixture
def story(spark: SparkSession, tmp_path: Path) -> Story:
    return Story(tmp_path)


def test_what_differs_is_swapped_in_whole(story: Story) -> None:
    """And what does not is left as it is. A reader never sees anything else than the old rows or the new ones."""
    bench, runtime = story.bench, story.lake.runtime
    for name in ("items", "items_changes", "events"):
        before = bench.table(name).current_snapshot()
        found = rebuild(runtime, story.target(name))
        assert (found.equal, found.published) == (True, None), name
        assert bench.table(name).current_snapshot() == before, name
        assert [ref for ref in bench.table(name).metadata.refs if ref != "main"] == []

    story.sql("DELETE FROM {table} WHERE id < 3")
    story.sql("INSERT INTO {table} VALUES (77, 'of nobody', NULL)")
    tampered, good = bench.rows(), bench.truth()
    found = rebuild(runtime, story.target(), publish=False)
    assert (found.rows_only_before, found.rows_only_after, found.published) == (1, 2, None)
    assert bench.rows() == tampered
    position = read_position(bench.table())
    seen: set[tuple[str, ...]] = set()
    with reading(bench, seen):
        found = rebuild(runtime, story.target())
    assert seen <= {tuple(tampered), tuple(good)}
    assert (found.rows_only_before, found.rows_only_after) == (1, 2)
    assert found.published is not None
    after = read_position(bench.table())
    assert (after.log_offset, after.max_sequence) == (position.log_offset, position.max_sequence)
    story.check()
    # Nothing is pending, and the next file is applied as if nothing had been.
    assert not any(bench.apply().values())
    story.clock.now += timedelta(minutes=1)
    bench.put(cdc_file(TABLE, story.clock.now, [story.clock.change("U", {"id": 50, "v": "next"})]))
    bench.apply()
    story.check()


@contextmanager
def reading(bench: Bench, seen: set[tuple[str, ...]]) -> Iterator[None]:
    """The table is read again and again beside the block."""
    over = Event()

    def read() -> None:
        while not over.is_set():
            seen.add(tuple(bench.rows()))

    reader = Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        over.set()
        reader.join()
    assert seen


@pytest.mark.long
def test_a_run_that_publishes_meanwhile(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rebuild starts over on what is there then."""
    bench = story.bench
    story.clock.now += timedelta(minutes=1)
    bench.put(cdc_file(TABLE, story.clock.now, [story.clock.change("I", {"id": 90, "v": "meanwhile"})]))
    bench.look()
    compare, turns = rebuilding._differences, iter([True])

    def other_first(work: Any, current: Attempt) -> tuple[int, int]:
        if next(turns, False):
            bench.apply(only=["items"])
            story.sql("DELETE FROM {table} WHERE id < 3")
        return compare(work, current)

    monkeypatch.setattr(rebuilding, "_differences", other_first)
    found = rebuild(story.lake.runtime, story.target())
    assert found.published is not None
    assert bench.rows() == bench.truth()


@pytest.mark.long
def test_a_range_of_files(story: Story) -> None:
    """Their keys are made anew, from all files; others stay as they are."""
    bench, runtime = story.bench, story.lake.runtime
    story.sql("UPDATE {table} SET v = 'wrong' WHERE id IN (1, 2, 3, 4, 51)")
    found = replay(runtime, story.target(), story.files[1].key)
    assert (found.files, found.rows_only_before, found.rows_only_after) == (2, 3, 3)
    wrong = {row["id"] for row in bench.stored() if row["v"] == "wrong"}
    assert wrong == {1, 4}
    found = replay(runtime, story.target(), story.files[0].key, story.files[0].key)
    assert (found.files, found.rows_only_after) == (1, 1)
    assert replay(runtime, story.target(), story.files[2].key).equal
    with pytest.raises(TableStopped, match=r"is not a file that .* was computed from"):
        replay(runtime, story.target(), "public/items/20200101-000000000.csv")
    with pytest.raises(TableStopped, match="include the full load"):
        replay(runtime, story.target(), "public/items/LOAD00000001.csv")
    with pytest.raises(TableStopped, match="has the mode change_log; only mode current is replayed by keys"):
        replay(runtime, story.target("items_changes"), story.files[0].key)


@pytest.mark.long
def test_files_that_are_gone(story: Story) -> None:
    """A table is not made anew of what is left."""
    before = story.bench.rows()
    assert story.bench.location is not None
    (story.bench.location / story.files[1].key).unlink()
    with pytest.raises(TableStopped, match=f"{story.files[1].key}, which .* is gone from the bucket"):
        rebuild(story.lake.runtime, story.target())
    assert story.bench.rows() == before


@pytest.mark.long
def test_a_change_log_of_files_that_were_written_again(story: Story) -> None:
    """It is the only place that still knows what they said."""
    story.bench.put(load_file(TABLE, [{"id": 1, "v": "reloaded"}], at=story.clock.now + timedelta(hours=1)))
    story.bench.apply(only=["items_changes"])
    with pytest.raises(TableStopped, match="has rows of files that were written again since"):
        rebuild(story.lake.runtime, story.target("items_changes"))


@pytest.mark.long
def test_a_table_in_another_shape(story: Story) -> None:
    """It stops until it is rebuilt; then it is what it would have been from the beginning, and readers have had the old
    rows or the new ones."""
    bench = story.bench
    current = {name: value for name, value in TABLES[TABLE].items() if name != "also"}
    ids = {row["id"] for row in bench.stored()}
    for mode in ("soft_delete", "history", "current"):
        bench.edit({**TABLES, TABLE: {**current, "mode": mode}})
        story.clock.now += timedelta(minutes=1)
        bench.put(cdc_file(TABLE, story.clock.now, [story.clock.change("U", {"id": 1, "v": mode})]))
        assert "lake-assets rebuild public.items" in str(bench.turn()["items"].error)
        with pytest.raises(TableStopped, match="was made with mode"):
            rebuild(bench.lake.runtime, story.target(), publish=False)
        found = rebuild(bench.lake.runtime, story.target())
        assert found.reshaped
        assert found.published is not None
        bench.apply(only=["items"])
        rows = bench.stored()
        names = {field.name for field in bench.table().schema().fields}
        own = {
            "soft_delete": {"_is_deleted", "_deleted_at"},
            "history": {"_valid_from", "_valid_to", "_is_current"},
        }
        assert names == {*COLUMNS, *own.get(mode, ())}
        alive = [r for r in rows if not r.get("_is_deleted") and r.get("_is_current", True)]
        assert {row["id"] for row in alive} == ids
        assert next(row["v"] for row in alive if row["id"] == 1) == mode
        # Rebuilt once more, it is the same.
        assert rebuild(bench.lake.runtime, story.target()).equal
        if mode == "soft_delete":
            assert {row["id"] for row in rows if row["_is_deleted"]} == {6, 7, 8}
    assert bench.rows() == bench.truth()


@pytest.mark.long
def test_by_todays_contract(story: Story) -> None:
    """Each file is read as it was then, unless asked otherwise: here, the zone of the source's clock was wrong."""
    bench = story.bench
    story.clock.now += timedelta(minutes=1)
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    bench.put(cdc_file(TABLE, story.clock.now, [story.clock.change("U", {"id": 1, "v": "x", "at": noon})]))
    bench.apply()
    corrected = {**TABLES[TABLE], "dms": {"timestamp_zone": "Europe/Berlin"}}
    bench.edit({**TABLES, TABLE: corrected})
    assert rebuild(bench.lake.runtime, story.target(), publish=False).equal
    assert rebuild(bench.lake.runtime, story.target(), by_today=True).rows_only_after == 1
    (row,) = (row for row in bench.stored() if row["id"] == 1)
    assert row["at"] == noon - timedelta(hours=1)


@pytest.mark.long
def test_the_command_line(story: Story, tmp_path: Path) -> None:
    story.sql("DELETE FROM {table} WHERE id = 1")
    config = story.lake.config
    code, text = call(config, "rebuild", TABLE, "--check")
    assert code == 1
    assert (
        "silver_shop.items: 0 rows that the 4 files do not give, 1 that only they give; left as it is" in text
    )
    code, text = call(config, "rebuild", "items")
    assert (code, "1 that only they give; replaced, 8 rows now" in text) == (0, True)
    code, text = call(config, "rebuild", "public.items", "--check")
    assert (code, text.count("give the rows that it has; nothing was changed")) == (0, 2)
    code, text = call(config, "replay", TABLE, "--from", story.files[1].key)
    assert (code, "2 files give the rows that it has" in text) == (0, True)


def call(config: LakeConfig, *arguments: str) -> tuple[int, str]:
    """The command on a lake that is configured so."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lake_assets.commands.run.opening.on_running_server", lambda path: config)
        done = CliRunner().invoke(cli.app, [*arguments])
    return done.exit_code, done.stdout
