"""`lake-assets repair`: one command for every stop that needs no decision, with a plan that it prints first.

Here: stops of several kinds at once, by the command line; what is left to the user. Not here: each repair
(`silver/test_outside_changes.py`, `silver/test_lost_logs.py`), random mixtures (`outside`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from lake_assets.commands.mend.repair_plan import repair_plan
from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.iceberg.erasure_log import ErasureLog
from lake_assets.iceberg.file_io.metadata_cache import MetadataCache
from lake_assets.lake import Lake, open_lake
from lake_assets.silver.reconcile.compare_slices import begun_cycle, compare, note
from lake_assets_tests.helpers.files.dms_files import NOON, Clock
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import HOUR, changed, loaded, sql, values
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS as CHANGED_ITEMS
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, write_items
from lake_assets_tests.helpers.oracles.masks import MASKING
from lake_assets_tests.helpers.reconcile.outside_writer import rewrite

pytestmark = [pytest.mark.spark, pytest.mark.slow]
NAMES = ("items", "goods", "parts", "racks")


def edit(folder: Path, tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Settings are added to tables in lake.yaml."""
    path = folder / "lake.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    for name, settings in tables.items():
        own = config["sources"]["shop"]["tables"]
        own[name] = {**own[name], **settings}
    path.write_text(yaml.safe_dump(config), encoding="utf-8")


def lake_of(folder: Path) -> Lake:
    return open_lake(load_lake(folder / "lake.yaml"))


def names_of(folder: Path, table: str) -> dict[int, str]:
    rows = open_catalog(lake_of(folder).config.catalog).load_table(f"silver_shop.{table}").scan().to_arrow()
    return dict(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True))


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    """A lake with four tables of two rows, that was synchronized."""
    found = command_lake(tmp_path, [f"public.{name}" for name in NAMES])
    for name in NAMES:
        write_items(found, name)
    assert call(found, "sync") == 0
    return found


def test_every_stop_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another writer's commit, a mode that was changed, two names that were exchanged; then the log is dropped."""
    before = names_of(folder, "items")
    assert call(folder, "repair", "--dry-run") == 0
    assert "Nothing is to be repaired." in capsys.readouterr().out
    lake = lake_of(folder)
    with lake.runtime.sessions.isolated() as spark:
        spark.sql(f"DELETE FROM {lake.config.catalog.name}.silver_shop.items")
    edit(
        folder,
        {
            "public.goods": {"mode": "history"},
            "public.parts": {"name": "racks"},
            "public.racks": {"name": "parts"},
        },
    )
    for arguments in (["--dry-run"], []):
        assert call(folder, "repair", *arguments) == 1
    plain, messages = capsys.readouterr()
    printed = plain.splitlines()
    steps = [line.partition(":")[0] for line in printed if line[0].isdigit()][:4]
    assert steps == [
        "1. detach silver_shop.racks",
        "2. detach silver_shop.parts",
        "3. restore silver_shop.items",
        "4. rebuild silver_shop.goods (2 files, 0.0 MB)",
    ]
    assert "Nobody can be asked here: use --yes." in messages
    assert names_of(folder, "items") == {}, "nothing was done"

    assert call(folder, "repair", "--yes") == 0
    printed = capsys.readouterr().out.splitlines()
    assert "silver_shop.items: 1 commit undone" in printed
    assert "silver_shop.racks is now silver_shop.racks_of_public_racks" in printed
    assert printed[-1] == "Run lake-assets sync now."
    assert call(folder, "sync") == 0
    assert names_of(folder, "items") == before
    catalog = open_catalog(lake_of(folder).config.catalog)
    assert catalog.load_table("silver_shop.goods").scan().to_arrow().num_rows == 3, "a version for each image"

    catalog.drop_table("lake_ops.bronze_files")
    assert call(folder, "sync") == 1
    capsys.readouterr()
    assert call(folder, "repair", "--yes") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("1. recover: public.")
    assert sum(line.startswith("1. recover") for line in printed) == 1, "once for all tables"
    assert call(folder, "sync") == 0
    assert names_of(folder, "items") == before


def test_what_needs_a_decision_is_left(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(
        tmp_path,
        {"public.items": CHANGED_ITEMS},
        dms={"use_task_start_time_for_full_load_timestamp": True},
    )
    bench.put(loaded({1: "a", 2: "b"}))
    bench.put(changed(Clock(), ("U", 1, "changed")))
    bench.apply()
    bench.put(loaded({1: "again"}, at=NOON + HOUR))
    bench.put(loaded({1: "again"}))
    bench.turn()
    plan = repair_plan(bench.reopened())
    assert plan.steps == ()
    (left,) = plan.left
    assert "lake-assets full-load public.items --reload" in left


@pytest.mark.parametrize("tolerates", [False, True])
def test_rows_that_differed_from_the_files_are_replayed(
    spark: SparkSession, tmp_path: Path, *, tolerates: bool
) -> None:
    """Not if others may write to the table: the rows may be theirs."""
    settings = {"foreign_commits": "tolerate"} if tolerates else {}
    bench = Bench(tmp_path, {"public.items": CHANGED_ITEMS | settings})
    bench.put(loaded({1: "a", 2: "b"}))
    bench.apply()
    rewrite(bench.lake, "silver_shop.items", "id = 2", v="'stray'")
    runtime, (target,) = bench.lake.runtime, bench.lake.targets
    cycle = begun_cycle(runtime, target, 1, None, NOON)
    note(runtime, target, cycle, compare(runtime, target, cycle, [0]))
    steps = repair_plan(bench.reopened()).steps
    reason = "1 slice of its keys differed from its files when they were compared last."
    expected = [] if tolerates else [("replay silver_shop.items", reason)]
    assert [(step.name, step.reason) for step in steps] == expected
    assert values(bench) == {1: "a", 2: "stray"}


MISTAKES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a history becomes current": ({"mode": "history"}, {}),
    "a log becomes current": ({"mode": "change_log"}, {}),
    "current becomes a log": ({}, {"mode": "change_log"}),
    "a mask is gone": ({"mask": {"v": "hash"}}, {}),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_a_mistake_in_lake_yaml_may_lose_is_left(
    spark: SparkSession, tmp_path: Path, mistake: str
) -> None:
    """Former versions, values that were masked: a rebuild would drop or show them."""
    before, after = MISTAKES[mistake]
    bench = Bench(tmp_path, {"public.items": CHANGED_ITEMS | before}, sections=MASKING)
    bench.put(loaded({1: "a", 2: "b"}))
    bench.apply()
    bench.edit({"public.items": CHANGED_ITEMS | after})
    plan = repair_plan(bench.lake)
    assert plan.steps == ()
    (left,) = plan.left
    assert "silver_shop.items" in left


def test_rows_of_others_are_not_dropped_by_a_rebuild(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, {"public.items": CHANGED_ITEMS})
    bench.put(loaded({1: "a"}))
    bench.apply()
    sql(bench, "INSERT INTO {table} VALUES (9, 'stray')")
    bench.edit({"public.items": CHANGED_ITEMS | {"mode": "history"}})
    plan = repair_plan(bench.lake)
    assert plan.steps == ()
    (left,) = plan.left
    assert "by others: a rebuild would drop its rows" in left


def test_a_table_that_somebody_else_has_made_is_left(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, {"public.items": CHANGED_ITEMS})
    with bench.lake.runtime.sessions.isolated() as own:
        catalog = bench.lake.config.catalog.name
        own.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.silver_shop")
        own.sql(f"CREATE TABLE {catalog}.silver_shop.items USING iceberg AS SELECT 1L AS id, 'mine' AS v")
    bench.put(loaded({1: "a"}))
    bench.turn()
    plan = repair_plan(bench.reopened())
    assert plan.steps == ()
    assert "lake_assets did not write it" in plan.left[0]


@pytest.mark.parametrize("name", ["bronze_files", "contracts", "findings", "erasures"])
def test_metadata_of_the_lakes_own_tables_that_is_gone(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    runtime = lake_of(folder).runtime
    for number in range(2):
        runtime.findings.note("failure", "silver_shop.items", {"reason": f"test {number}", "position": 0})
    ErasureLog(runtime.catalog).begin("shop", "public.items", [("1",)], None)
    location = runtime.catalog.load_table(f"lake_ops.{name}").metadata_location
    Path(location.removeprefix("file:")).unlink()
    # This process has the file's content, as another one has not.
    monkeypatch.setattr(MetadataCache, "__call__", lambda self, *given: self._read(*given))
    capsys.readouterr()
    assert call(folder, "repair", "--dry-run") == 1
    printed = capsys.readouterr().out
    assert printed.startswith(f"1. recover: lake_ops.{name}: ")
    assert " is gone (" in printed
    assert call(folder, "repair", "--yes") == 0
    assert call(folder, "repair", "--dry-run") == 0


def test_a_step_that_fails_leaves_the_others_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rebuild that would lose rows, beside another table's repair."""
    lake = lake_of(folder)
    with lake.runtime.sessions.isolated() as spark:
        spark.sql(f"DELETE FROM {lake.config.catalog.name}.silver_shop.items")
    edit(folder, {"public.goods": {"mode": "history"}})
    (folder / "bronze/public/goods/LOAD00000001.csv").unlink()
    assert call(folder, "repair", "--yes") == 1
    told = capsys.readouterr()
    assert "rebuild silver_shop.goods: public.goods:" in told.err
    assert "gone from the bucket" in told.err
    assert "silver_shop.items: 1 commit undone" in told.out
    assert told.out.splitlines()[-1] == "Something is left to do."
