"""What a history and a soft delete say of each kind of change, written out, and what they do when a table is loaded
again, a file comes late, or lake.yaml asks for another shape.

Here: situations of one's own choice. Not here: histories by chance (`test_random_shapes.py`).
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.errors import TableStopped
from lake_assets.orchestration.shared.asset_metadata import figures_of
from lake_assets.silver.plan.table_state import table_states
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, Row, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench, comparable
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS as ITEMS_OF_SHOP
from lake_assets_tests.helpers.oracles import oracle_shapes
from lake_assets_tests.helpers.orchestration.dagster_shop import open_shop

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TABLE = "public.items"
COLUMNS = {"id": "long not null", "v": "string", "x": "double"}
ITEMS: dict[str, Any] = {"columns": COLUMNS, "primary_key": ["id"]}
START = Clock().now


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Story:
    """A lake with both shapes of one table, and the source's clock."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.clock = Clock()
        self.closed: list[list[DmsFile]] = []

    def change(
        self,
        seconds: float,
        op: str,
        key: int,
        value: str | None = None,
        before: int | None = None,
        x: float = 0,
    ) -> dict[str, Any]:
        """A change that is committed at that second."""
        self.clock.now = at(seconds)
        image = {"id": key, "v": value, "x": None if op == "D" else float(x)}
        told = None if before is None else {"id": before}
        return self.clock.change(op, image, told, same_transaction=True)

    def file(self, *rows: Row, flushed: float = 0) -> DmsFile:
        """A CDC file that is flushed `flushed` seconds after its last change."""
        return cdc_file(TABLE, rows[-1]["commit_ts"] + timedelta(seconds=flushed, milliseconds=1), rows)

    def check(self) -> None:
        stages = [*self.closed, self.bench.files(TABLE)]
        for name, meaning in (("items", oracle_shapes.soft_delete), ("items_history", oracle_shapes.history)):
            assert self.bench.rows(name) == comparable(meaning(stages, list(COLUMNS), ["id"])), name

    def versions(self, key: int) -> list[tuple[Any, ...]]:
        """Value, first and last second of each version of a key."""
        rows = self.bench.table("items_history").scan(f"id = {key}").to_arrow().to_pylist()
        assert all(row["_is_current"] == (row["_valid_to"] is None) for row in rows)
        rows.sort(key=lambda row: row["_valid_from"])
        return [(row["v"], second(row["_valid_from"]), second(row["_valid_to"])) for row in rows]

    def kept(self, key: int) -> tuple[Any, ...]:
        """Value of a key's row, whether it is deleted, and in which second it was."""
        (row,) = self.bench.table().scan(f"id = {key}").to_arrow().to_pylist()
        return row["v"], row["_is_deleted"], second(row["_deleted_at"])


def second(moment: datetime | None) -> float | None:
    return None if moment is None else (moment - START).total_seconds()


@pytest.fixture
def new_story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Story]:
    def create() -> Story:
        tables = {TABLE: {**ITEMS, "mode": "soft_delete", "also": ["history"]}}
        return Story(Bench(tmp_path_factory.mktemp("shapes"), tables))

    return create


def test_every_kind_of_change(new_story: Callable[[], Story]) -> None:
    """One test, because each turn needs the ones before it."""
    story = new_story()
    bench, change = story.bench, story.change
    began = second(NOON)
    bench.put(load_file(TABLE, [{"id": n, "v": "loaded", "x": 0.0} for n in range(1, 8)]))
    bench.put(
        story.file(
            change(1, "U", 1, "a"),
            change(1, "D", 2),
            change(1, "U", 33, "loaded", before=3),
            change(1, "I", 50, "nobody saw it"),
            change(1, "D", 50),
            change(1, "U", 4, "wrong"),
            change(1, "U", 4, "right"),
            change(2, "D", 99),
            change(2, "U", 5, "loaded", x=-0.0),
            change(3, "U", 6, "loaded"),
            change(3, "D", 7),
            change(4, "I", 7, "again"),
            # A transaction that goes on in another batch.
            change(10, "U", 1, "b"),
            change(10, "D", 4),
        )
    )
    bench.apply()
    story.check()
    assert story.versions(1) == [("loaded", began, 1), ("a", 1, 10), ("b", 10, None)]
    assert story.versions(2) == [("loaded", began, 1)]
    assert (story.versions(3), story.versions(33)) == ([("loaded", began, 1)], [("loaded", 1, None)])
    assert story.versions(50) == [], "inserted and deleted at one instant"
    assert story.versions(4) == [("loaded", began, 1), ("right", 1, 10)]
    assert story.versions(5) == [("loaded", began, 2), ("loaded", 2, None)], "0.0 is not -0.0"
    assert story.versions(6) == [("loaded", began, None)], "an update that changes nothing"
    assert story.versions(7) == [("loaded", began, 3), ("again", 4, None)]
    assert [story.kept(n) for n in (1, 2, 3, 50, 7)] == [
        ("b", False, None),
        ("loaded", True, 1),
        ("loaded", True, 1),
        ("nobody saw it", True, 1),
        ("again", False, None),
    ]

    # What it did there happened at the same instant.
    bench.put(story.file(change(10, "U", 1, "a"), change(10, "I", 4, "right"), change(11, "D", 1), flushed=5))
    bench.apply()
    story.check()
    assert story.versions(1) == [("loaded", began, 1), ("a", 1, 11)]
    assert story.versions(4) == [("loaded", began, 1), ("right", 1, None)]

    # A file that comes late, between what was applied; and one that says again what is known.
    held_back = story.file(change(20, "U", 6, "in between"), change(20, "U", 8, "moved", before=7))
    repeated = [change(21, "U", 6, "loaded"), change(22, "D", 8), change(23, "I", 1, "back")]
    bench.put(story.file(*repeated))
    batches = bench.apply()
    story.check()
    assert not any(batch.replayed_bytes for done in batches.values() for batch in done)
    assert story.versions(6) == [("loaded", began, None)]
    bench.put(held_back, story.file(*repeated, flushed=30))
    batches = bench.apply()
    story.check()
    assert all(batch.replayed_bytes for done in batches.values() for batch in done)
    assert story.versions(6) == [("loaded", began, 20), ("in between", 20, 21), ("loaded", 21, None)]
    assert story.versions(8) == [("moved", 20, 22)]
    assert (story.kept(7), story.kept(8)) == (("again", True, 20), ("moved", True, 22))

    # A file without the commit times has those of its sequences, to the centisecond.
    sequence = change(60.12, "U", 5, "untimed")["change_seq"]
    bench.put_text(
        "public/items/20260301-120700000.csv",
        "Op,id,v,x,change_seq,BI_id",
        f"U,5,untimed,0.0,{sequence},NULL",
    )
    bench.apply()
    assert story.versions(5)[-1] == ("untimed", 60.12, None)


@pytest.mark.long
def test_reloads(new_story: Callable[[], Story]) -> None:
    story = new_story()
    bench, change = story.bench, story.change
    began = second(NOON)
    bench.put(load_file(TABLE, [{"id": n, "v": "loaded", "x": 0.0} for n in range(1, 6)]))
    bench.put(story.file(change(1, "D", 4), change(2, "U", 5, "a")))
    bench.apply()
    # What was written before the reload, and comes with it, is of the time before it.
    unseen = story.file(change(5, "U", 1, "just before"), change(6, "D", 5))
    spanning = story.file(change(9, "U", 3, "before"), change(10.5, "U", 3, "after"))
    bench.put(unseen, spanning)
    story.closed.append(bench.files(TABLE))
    began_again = at(10)
    bench.put(
        load_file(
            TABLE, [{"id": n, "v": v, "x": 0.0} for n, v in ((1, "just before"), (3, "x"))], at=began_again
        )
    )
    bench.put(story.file(change(11, "D", 1), change(12, "I", 4, "again")))
    results = bench.turn()
    assert {result.position.epoch for result in results.values()} == {2}
    story.check()
    assert story.versions(1) == [("loaded", began, 5), ("just before", 5, 11)], (
        "it goes on through the reload"
    )
    assert story.versions(2) == [("loaded", began, 10)]
    assert story.versions(3) == [("loaded", began, 9), ("before", 9, 10.5), ("after", 10.5, None)]
    assert story.versions(4) == [("loaded", began, 1), ("again", 12, None)]
    assert story.versions(5) == [("loaded", began, 2), ("a", 2, 6)]
    assert (story.kept(2), story.kept(5)) == (("loaded", True, 10), ("a", True, 6))

    # Late within the new epoch, which reaches back into the old one; and a late file of the old epoch, which is closed.
    late = story.file(change(13, "U", 2, "unseen since"), change(14, "U", 3, "in between"))
    bench.put(story.file(change(15, "U", 3, "last")))
    bench.apply()
    bench.put(late, story.file(story.change(3, "U", 1, "nobody will know"), flushed=1))
    batches = bench.apply()
    story.check()
    assert all(any(batch.superseded_files for batch in done) for done in batches.values())
    assert story.versions(2) == [("loaded", began, 10), ("unseen since", 13, None)]
    assert story.kept(2) == ("unseen since", False, None)

    # A file that was written again: what was before the epoch is kept, and a soft delete, which cannot tell what that
    # was, keeps what it has.
    wrong = story.file(change(20, "I", 70, "wrong"))
    bench.put(wrong)
    bench.apply()
    story.check()
    bench.put(DmsFile(wrong.key, (change(20, "I", 71, "right"),)))
    before = bench.rows()
    bench.apply()
    assert bench.rows() == before
    (held,) = bench.lake.runtime.quarantine.open("silver_shop.items")
    assert held.key == wrong.key
    expected = oracle_shapes.history([*story.closed, bench.files(TABLE)], list(COLUMNS), ["id"])
    assert bench.rows("items_history") == comparable(expected)


@pytest.mark.long
def test_a_file_that_was_written_again_in_the_first_epoch(new_story: Callable[[], Story]) -> None:
    story = new_story()
    bench, change = story.bench, story.change
    bench.put(load_file(TABLE, [{"id": n, "v": "loaded", "x": 0.0} for n in (1, 2)]))
    wrong = story.file(change(1, "D", 1), change(1, "I", 70, "wrong"))
    bench.put(wrong)
    bench.apply()
    story.check()
    bench.put(DmsFile(wrong.key, (change(1, "D", 2), change(1, "I", 71, "right"))))
    bench.apply()
    story.check()
    assert story.versions(70) == []
    assert (story.kept(1), story.kept(2)) == (("loaded", False, None), ("loaded", True, 1))


@pytest.mark.long
@pytest.mark.parametrize(("made", "wanted"), [("current", "history"), ("history", "soft_delete")])
def test_another_shape_needs_a_rebuild(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, made: str, wanted: str
) -> None:
    bench = Bench(tmp_path_factory.mktemp("shapes"), {TABLE: {**ITEMS, "mode": made}})
    bench.put(load_file(TABLE, [{"id": 1, "v": "loaded", "x": 0.0}]))
    bench.apply()
    before = bench.rows()
    bench.edit({TABLE: {**ITEMS, "mode": wanted}})
    bench.put(cdc_file(TABLE, at(2), [Clock(at(1)).change("D", {"id": 1, "v": None, "x": None})]))
    error = bench.turn()["items"].error
    assert isinstance(error, TableStopped)
    assert str(error) == (
        f"public.items: silver_shop.items was made with mode: {made}, and lake.yaml says {wanted}. Run `lake-assets "
        "rebuild public.items` to have it built in the new mode from its files, or set the mode back."
    )
    assert bench.rows() == before
    (state,) = table_states(bench.lake.runtime, bench.lake.targets, NOON)
    assert str(state.error) == str(error)
    bench.edit({TABLE: {**ITEMS, "mode": made}})
    bench.apply()


@pytest.mark.long
def test_a_table_of_an_earlier_version_is_known_by_its_columns(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bench = Bench(tmp_path_factory.mktemp("shapes"), {TABLE: ITEMS})
    bench.put(load_file(TABLE, [{"id": 1, "v": "loaded", "x": 0.0}]))
    bench.apply()
    session = bench.lake.runtime.sessions.root()
    name = f"{bench.lake.config.catalog.name}.silver_shop.items"
    session.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('lake.shape')")
    bench.edit({TABLE: {**ITEMS, "mode": "change_log"}})
    error = bench.turn()["items"].error
    assert "was made with mode: current or append_log, and lake.yaml says change_log" in str(error)
    bench.edit({TABLE: ITEMS})
    bench.put(cdc_file(TABLE, at(2), [Clock(at(1)).change("D", {"id": 1, "v": None, "x": None})]))
    bench.apply()
    assert bench.rows() == []


@pytest.mark.long
def test_what_dagster_shows(spark: SparkSession, tmp_path: Path) -> None:
    sales = {**ITEMS_OF_SHOP, "mode": "soft_delete", "also": ["history"]}
    shop = open_shop(tmp_path, marts=(), tables={"public.sales": sales})
    shop.load("sales", [1, 2])
    shop.change("sales", [1], day=2, op="U", name="renamed")
    shop.change("sales", [2], day=3, op="D")
    found = [figures(shop.apply())]
    shop.change("sales", [2], day=4)
    found.append(figures(shop.apply()))
    assert found == [
        # Three batches: the load; a version that ends and one that begins; a version that ends.
        {"sales": (2, 4, 2), "sales_history": (3, 5, 2)},
        # The version of 2 that ended the day before is left alone.
        {"sales": (2, 1, 1), "sales_history": (4, 1, 0)},
    ]
    graph = shop.definitions.resolve_asset_graph()
    for name, added in (
        ("sales", ["_is_deleted", "_deleted_at"]),
        ("sales_history", ["_valid_to", "_is_current"]),
    ):
        node = graph.get(dg.AssetKey(["silver", "shop", name]))
        schema = node.metadata["dagster/column_schema"]
        assert [column.name for column in schema.columns][-2:] == added
    assert node.tags["mode"] == "history"


def figures(run: dg.ExecuteInProcessResult) -> dict[str, tuple[Any, ...]]:
    """Rows of each table, rows written and removed, of a run in which every check has passed."""
    assert all(check.passed for check in run.get_asset_check_evaluations())
    names = ("dagster/row_count", "rows_written", "rows_removed")
    return {
        event.asset_key.path[-1]: tuple(
            figures_of(event.materialization.metadata).get(name, 0) for name in names
        )
        for event in run.get_asset_materialization_events()
        if event.asset_key is not None and event.asset_key.path[0] == "silver"
    }
