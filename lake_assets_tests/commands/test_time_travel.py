"""`snapshots`, `diff`, `restore --to`, `pause` and `resume`: a table at its former commits, and a table that waits.

Here: what each command does to the table and to the turns after it, and what it prints. Not here: undoing the commits
of other writers (`silver/test_outside_changes.py`).
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from lake_assets.commands.history.time_travel import chosen_commit, commits, difference, go_back
from lake_assets.commands.show.status import status
from lake_assets.config.config_file import load_lake
from lake_assets.errors import LakeError
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.iceberg.publish import Attempt, KeptBranches
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets.silver.plan.plan import State
from lake_assets.silver.table.pause import pause, pause_of, resume
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, cdc_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import HOUR, ITEMS, changed, loaded, sql, values
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, write_items
from lake_assets_tests.helpers.oracles.masks import MASKING

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SHAPES = ("current", "change_log", "history")


def shop_of(folder: Path, mode: str = "current", **settings: object) -> Bench:
    """A table with a load and two batches of changes."""
    bench, clock = Bench(folder, {"public.items": {**ITEMS, "mode": mode, **settings}}), Clock()
    bench.put(loaded({1: "a", 2: "b", 3: "c"}))
    bench.apply()
    for changes in ((("U", 1, "x"), ("I", 4, "d")), (("D", 2, "b"), ("U", 1, "y"), ("I", 5, "e"))):
        bench.put(changed(clock, *changes))
        bench.apply()
    return bench


def batches(bench: Bench) -> list[int]:
    """The ids of the commits that have a position, the oldest first."""
    (target,) = bench.lake.targets
    found = [one for one in commits(bench.lake.runtime, target) if one.position is not None]
    return [one.snapshot for one in reversed(found)]


@pytest.mark.parametrize("mode", SHAPES)
def test_back_to_a_former_commit_and_forth(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """The table stays there while it is paused; then the files since are applied again, each once."""
    bench = shop_of(tmp_path, mode)
    runtime, (target,) = bench.lake.runtime, bench.lake.targets
    now, (_, first, *_) = bench.rows(), batches(bench)
    commit = chosen_commit(runtime, target, str(first))
    rows = sorted(map(str, bench.table().scan(snapshot_id=first).to_arrow().to_pylist()))
    assert go_back(runtime, target, commit) > 0
    assert sorted(map(str, bench.table().scan().to_arrow().to_pylist())) == rows
    result = bench.turn()["items"]
    assert (result.batches, result.error) == ([], None)
    assert result.waiting is not None
    assert f"(restored to {first})" in result.waiting
    assert sorted(map(str, bench.table().scan().to_arrow().to_pylist())) == rows
    assert resume(runtime, target)
    bench.apply()
    assert bench.rows() == now


@pytest.mark.parametrize("keeps_branches", [False, True])
@pytest.mark.parametrize("step", ["start", "publish"])
def test_back_while_a_batch_is_applied(
    spark: SparkSession, tmp_path: Path, step: str, keeps_branches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch began above the commit, and must not bring back what was taken back. `step`: of the batch, before which
    the table goes back; `keeps_branches`: as the continuous run."""
    bench = shop_of(tmp_path)
    clock, runtime, (target,) = Clock(NOON + HOUR), bench.lake.runtime, bench.lake.targets
    runtime.branches = KeptBranches() if keeps_branches else None
    bench.put(changed(clock, ("U", 3, "later")))
    bench.apply()
    first, todo = batches(bench)[0], [True]
    original = getattr(Attempt, step)

    def late(self: Attempt, *arguments: object) -> None:
        if todo:
            todo.clear()
            go_back(runtime, target, chosen_commit(runtime, target, str(first)))
        original(self, *arguments)

    bench.put(changed(clock, ("I", 9, "newest")))
    if keeps_branches and step == "start":
        runtime.branches = KeptBranches()  # a process that begins
    monkeypatch.setattr(Attempt, step, late)
    result = bench.turn()["items"]
    assert not todo
    assert (result.batches, result.error) == ([], None)
    assert result.waiting is not None
    assert values(bench) == {1: "a", 2: "b", 3: "c"}
    assert bench.table().metadata.current_snapshot_id == first
    assert resume(runtime, target)
    bench.apply()
    assert bench.rows() == bench.truth()


def test_a_commit_of_another_mode_or_other_masks(spark: SparkSession, tmp_path: Path) -> None:
    """The table has its mode, not the commit: rows of two modes would be wrong for both. Plain values stay hidden."""
    bench, clock = Bench(tmp_path, {"public.items": {**ITEMS}}, sections=MASKING), Clock()
    bench.put(loaded({1: "a"}))
    bench.apply()
    (plain,) = batches(bench)

    def refused(commit: int, why: str) -> None:
        runtime, (target,) = bench.lake.runtime, bench.lake.targets
        with pytest.raises(LakeError, match=why):
            go_back(runtime, target, chosen_commit(runtime, target, str(commit)))
        assert not pause_of(bench.table())

    bench.edit({"public.items": {**ITEMS, "mode": "soft_delete"}})
    rebuild(bench.lake.runtime, *bench.lake.targets)
    refused(plain, "were made with mode: current")
    reshaped = batches(bench)[-1]
    bench.edit({"public.items": {**ITEMS, "mode": "soft_delete", "mask": {"v": "hash"}}})
    rebuild(bench.lake.runtime, *bench.lake.targets)
    refused(reshaped, "were made with other masks")
    bench.put(changed(clock, ("U", 1, "b")))
    masked = batches(bench)[-1]
    bench.apply()
    runtime, (target,) = bench.lake.runtime, bench.lake.targets
    assert go_back(runtime, target, chosen_commit(runtime, target, str(masked))) > 0


def test_a_paused_table_waits_and_the_others_go_on(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, {"public.items": {**ITEMS, "also": ["change_log"]}})
    clock, runtime = Clock(), bench.lake.runtime
    items, log = bench.lake.targets
    with pytest.raises(LakeError, match="does not exist yet"):
        pause(runtime, items, "")
    bench.put(loaded({1: "a"}))
    bench.apply()
    pause(runtime, items, "the source's numbers are wrong")
    line = next(line for line in status(bench.reopened()) if line.table == "silver_shop.items")
    assert (line.state, line.reason) == (State.UP_TO_DATE, None), "nothing is pending"
    bench.put(changed(clock, ("U", 1, "b")))
    done = bench.apply()
    assert (len(done["items"]), len(done["items_changes"])) == (0, 1)
    line = next(line for line in status(bench.reopened()) if line.table == "silver_shop.items")
    assert (line.state, line.is_wrong) == (State.WAITING, False)
    assert line.reason is not None
    assert line.reason.startswith("it is paused since ")
    assert "UTC (the source's numbers are wrong): `lake-assets resume silver_shop.items`" in line.reason
    assert values(bench) == {1: "a"}
    assert resume(runtime, items)
    assert not resume(runtime, log), "it was not paused"
    bench.apply()
    assert values(bench) == {1: "b"}


def test_what_has_changed_between_two_commits(spark: SparkSession, tmp_path: Path) -> None:
    bench = shop_of(tmp_path)
    runtime, (target,) = bench.lake.runtime, bench.lake.targets
    first, second, third = (chosen_commit(runtime, target, str(one)) for one in batches(bench))
    found = difference(runtime, target, first, third)
    assert (found.added, found.removed, found.changed) == (2, 1, 1)
    assert found.examples == ("id=1: v a → y", "id=2: gone", "id=4: new", "id=5: new")
    found = difference(runtime, target, third, second)
    assert (found.added, found.removed, found.changed) == (1, 1, 1)
    assert found.examples == ("id=1: v y → x", "id=2: new", "id=5: gone")
    same = difference(runtime, target, second, second)
    assert (same.added, same.removed, same.changed, same.examples) == (0, 0, 0, ())


def test_a_column_that_was_renamed_between_them(spark: SparkSession, tmp_path: Path) -> None:
    bench, renamed = shop_of(tmp_path), {**ITEMS, "columns": {"id": "long not null", "w": "string"}}
    bench.edit({"public.items": renamed | {"renamed_from": {"w": "v"}}})
    bench.put(
        cdc_file("public.items", NOON + HOUR, [Clock(NOON + HOUR).change("U", {"id": 3, "w": "later"})])
    )
    bench.apply()
    runtime, (target,) = bench.lake.runtime, bench.lake.targets
    *_, before, after = (chosen_commit(runtime, target, str(one)) for one in batches(bench))
    found = difference(runtime, target, before, after)
    assert (found.added, found.removed, found.changed) == (0, 0, 1)
    assert found.examples == ("id=3: w c → later",)
    found = difference(runtime, target, after, before)
    assert found.examples == ("id=3: w later → c",)


def test_a_table_whose_rows_have_no_key(spark: SparkSession, tmp_path: Path) -> None:
    bench = shop_of(tmp_path, "history")
    runtime, (target,) = bench.lake.runtime, bench.lake.targets
    first, *_, last = (chosen_commit(runtime, target, str(one)) for one in batches(bench))
    found = difference(runtime, target, first, last)
    rows = [
        {str(row) for row in bench.table().scan(snapshot_id=one.snapshot).to_arrow().to_pylist()}
        for one in (first, last)
    ]
    assert (found.added, found.removed) == (len(rows[1] - rows[0]), len(rows[0] - rows[1]))
    assert found.changed == 0


def test_masked_values_are_not_shown(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = (
        Bench(tmp_path, {"public.items": {**ITEMS, "mask": {"v": "hash"}}}, sections=MASKING),
        Clock(),
    )
    bench.put(loaded({1: "a"}))
    bench.apply()
    bench.put(changed(clock, ("U", 1, "b")))
    bench.apply()
    first, last = batches(bench)
    runtime, (target,) = bench.lake.runtime, bench.lake.targets
    found = difference(
        runtime, target, chosen_commit(runtime, target, str(first)), chosen_commit(runtime, target, str(last))
    )
    assert found.examples == ("id=1: v *** → ***",)


def test_which_commit_is_meant(spark: SparkSession, tmp_path: Path) -> None:
    bench = shop_of(tmp_path)
    runtime, (target,) = bench.lake.runtime, bench.lake.targets
    first, second, third = batches(bench)
    sql(bench, f"ALTER TABLE {{table}} CREATE TAG monday AS OF VERSION {second}")
    by_id = {one.snapshot: one for one in commits(runtime, target)}
    assert by_id[second].tags == ("monday",)
    assert by_id[first].what == "full_load, overwrite"
    assert [by_id[one].rows for one in (first, second, third)] == [3, 4, 4]

    def meant(named: str) -> int:
        return chosen_commit(runtime, target, named).snapshot

    assert meant("monday") == meant(str(second)) == second
    at = by_id[second].at
    assert meant(at.isoformat()) == second
    assert meant((at.replace(tzinfo=None)).isoformat()) == second, "UTC without a zone"
    assert meant((datetime.now(UTC) + timedelta(hours=1)).isoformat()) == third
    with pytest.raises(LakeError, match="has no commit of 2020-01-01 any more"):
        meant("2020-01-01")
    with pytest.raises(LakeError, match="has no commit tuesday"):
        meant("tuesday")


def test_a_commit_without_a_position_is_no_place_to_go_back_to(spark: SparkSession, tmp_path: Path) -> None:
    bench = shop_of(tmp_path, foreign_commits="tolerate")
    runtime, (target,) = bench.lake.runtime, bench.lake.targets
    sql(bench, "DELETE FROM {table} WHERE id = 1")
    newest = commits(runtime, target)[0]
    assert newest.position is None
    with pytest.raises(LakeError, match="has no position"):
        go_back(runtime, target, newest)
    (after,) = bench.turn().values()
    assert (after.waiting, after.error) == (None, None), "it is not paused"


def lines_of(printed: str) -> Sequence[str]:
    return [line.strip() for line in printed.splitlines() if line.strip()]


def test_the_command_line(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = command_lake(tmp_path, ["public.items"])
    write_items(folder)
    assert call(folder, "sync") == 0
    capsys.readouterr()
    assert call(folder, "snapshots", "public.items", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    first = next(one for one in reversed(found["commits"]) if one["position"] is not None)
    assert call(folder, "snapshots", "public.items") == 0
    assert str(first["snapshot"]) in capsys.readouterr().out
    assert call(folder, "diff", "public.items", "--from", str(first["snapshot"])) == 0
    assert " new, " in capsys.readouterr().out
    assert call(folder, "pause", "public.items", "--reason", "a test") == 0
    assert call(folder, "resume", "public.items") == 0
    assert call(folder, "resume", "public.items") == 0
    assert lines_of(capsys.readouterr().out) == [
        "silver_shop.items is paused; `lake-assets resume silver_shop.items` has it go on.",
        "silver_shop.items goes on.",
        "silver_shop.items was not paused.",
    ]
    assert call(folder, "restore", "public.items", "--to", str(first["snapshot"])) == 0
    assert "It is paused; after `lake-assets resume silver_shop.items`" in capsys.readouterr().out
    assert call(folder, "diff", "public.items", "--from", "never") == 1
    assert "has no commit never" in capsys.readouterr().err


def test_a_commit_of_one_of_the_tables_of_a_name(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """None goes back if one cannot."""
    folder = command_lake(tmp_path, ["public.items"])
    path = folder / "lake.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["sources"]["shop"]["tables"]["public.items"]["also"] = ["change_log"]
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    write_items(folder)
    assert call(folder, "sync") == 0
    catalog = open_catalog(load_lake(path).catalog)
    head = catalog.load_table("silver_shop.items").metadata.current_snapshot_id
    assert call(folder, "restore", "public.items", "--to", str(head)) == 1
    assert f"silver_shop.items_changes has no commit {head}" in capsys.readouterr().err
    assert not pause_of(catalog.load_table("silver_shop.items"))
    assert call(folder, "restore", "silver_shop.items", "--to", str(head)) == 0
    assert pause_of(catalog.load_table("silver_shop.items"))
