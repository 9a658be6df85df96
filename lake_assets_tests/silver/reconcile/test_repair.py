"""Rows that differ from their files are repaired in one commit, while others apply, and after a kill.

Here: one table that an outside writer has changed. Not here: what is found (`test_compare_slices.py`).
"""

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lake_assets import cli
from lake_assets.errors import TableStopped
from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets.silver.reconcile import repair as repair_module
from lake_assets.silver.reconcile.compare_slices import compare, located
from lake_assets.silver.reconcile.cycle import Cycle
from lake_assets.silver.reconcile.repair import Repaired, repair
from lake_assets.silver.table.position import read_position
from lake_assets.silver.table.targets import Tracked
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bank import quiet
from lake_assets_tests.helpers.lakes.bench import Bench, main_snapshots
from lake_assets_tests.helpers.processes.child import run_python
from lake_assets_tests.helpers.processes.faults import Killed, killed
from lake_assets_tests.helpers.processes.same_lake import same_lake
from lake_assets_tests.helpers.reconcile.outside_writer import rewrite
from lake_assets_tests.helpers.reconcile.reconciled_shop import ITEMS, NOON, TABLES, ReconciledShop, lines
from lake_assets_tests.helpers.reconcile.restored import restorer

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TABLE = "silver_shop.items"


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], ReconciledShop]:
    """With two cells, a missing row, a row of nobody; the guard has noticed none of them."""
    shop = ReconciledShop(tmp_path_factory.mktemp("shop"))
    rewrite(shop.bench.lake, TABLE, "id = 31")
    rewrite(
        shop.bench.lake,
        TABLE,
        "id IN (30, 32, 33)",
        id="IF(id = 32, 900L, id)",
        price="IF(id = 30, price + 0.01, price)",
        v="IF(id = 33, 'wrong', v)",
    )
    assert shop.bench.rows() != shop.bench.truth()
    return restorer(shop)


@pytest.fixture
def shop(made: Callable[[], ReconciledShop]) -> ReconciledShop:
    return made()


def repaired(shop: ReconciledShop) -> Repaired:
    return repair(shop.bench.lake.runtime, shop.target(), shop.cycle(1), [0])


def test_one_commit_repairs_all_and_keeps_the_position(shop: ReconciledShop) -> None:
    """Also a row that is there twice."""
    rewrite(shop.bench.lake, TABLE, "id IN (44, 45)", id="44L", v="'v44'")
    before, commits = read_position(shop.bench.table()), len(main_snapshots(shop.bench.table()))
    target = replace(shop.target(), tracked=Tracked(days=("at",)))
    done = repair(shop.bench.lake.runtime, target, shop.cycle(1), [0])
    assert (done.rows, done.left) == (7, 0)
    assert shop.bench.rows() == shop.bench.truth()
    after = read_position(shop.bench.table())
    stays = ("log_offset", "epoch", "max_sequence", "max_commit_ts", "contract_version", "unknown_rows")
    assert [getattr(after, name) for name in stays] == [getattr(before, name) for name in stays]
    # A delete and an append on the branch, published by one fast-forward.
    assert len(main_snapshots(shop.bench.table())) == commits + 2
    assert shop.bench.summary()["lake.batch.strategy"] == "repair"
    assert shop.bench.summary()["lake.touched-days.at"] == "2026-03-01", "marts recompute it"
    assert list(shop.bench.table().metadata.refs) == ["main"]
    assert repaired(shop) == Repaired()
    # Nothing is pending, and the next files are applied as if nothing had been: one in order, and one that is late.
    assert not any(shop.bench.apply().values())
    shop.change("U", {"id": 30, "v": "next"})
    shop.clock.now -= timedelta(minutes=3)
    shop.change("U", {"id": 40, "v": "late"})
    shop.bench.apply()
    assert shop.bench.rows() == shop.bench.truth()


def test_a_masked_column(spark: SparkSession, tmp_path: Path) -> None:
    """Its rows are compared as silver has them, and none of their values is shown."""
    columns = {"id": "long not null", "v": "string", "price": "decimal(10, 2)"}
    bench = Bench(tmp_path, {ITEMS: {"columns": columns, "primary_key": ["id"], "mask": {"v": "redact"}}})
    bench.put(load_file(ITEMS, [{"id": n, "v": f"v{n}", "price": f"{n}.50"} for n in (30, 31)]))
    bench.apply()
    rewrite(bench.lake, TABLE, "id = 30", v="'plain'", price="1.00BD")
    runtime, (target,), cycle = bench.lake.runtime, bench.lake.targets, Cycle(1, NOON)
    found = compare(runtime, target, cycle, [0])
    assert lines(found) == ["id=30: v is ***, the files give ***; price is 1.00, the files give 30.50"]
    assert repair(runtime, target, cycle, [0]).rows == 1
    assert set(bench.stored_by_id("v").values()) == {"***"}
    assert compare(runtime, target, cycle, [0]).different == {}


def test_another_writer(shop: ReconciledShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair above its commit would hide it from the guard. Once it is there, no file is read in vain."""
    name = f"{shop.bench.lake.config.catalog.name}.{TABLE}"

    def with_a_commit_meanwhile(*given: Any) -> Any:
        found = located(*given)
        statement = f"INSERT INTO {name} SELECT * FROM {name} WHERE id = 44"
        shop.bench.lake.runtime.sessions.root().sql(statement)
        return found

    for found in (with_a_commit_meanwhile, None):
        monkeypatch.setattr(repair_module, "located", found)
        with pytest.raises(TableStopped, match="and not by lake_assets"):
            repaired(shop)


def test_files_that_are_applied_meanwhile(shop: ReconciledShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit takes the newest position. A key that they change is left out, and compared again the next time."""
    rewrite(shop.bench.lake, TABLE, "id = 20", v="'wrong'")  # the last file before changed it, too

    def with_batches_meanwhile(*given: Any) -> Any:
        found = located(*given)
        shop.change("U", {"id": 33, "v": "meanwhile"})
        shop.bench.apply()
        shop.change("I", {"id": 77, "v": "another"})
        shop.change("I", {"id": 31, "v": "meanwhile"})
        shop.bench.apply()
        return found

    publish, turns = Attempt.publish, iter([True])

    def with_a_batch_before(current: Attempt) -> None:
        if next(turns, False):
            shop.change("U", {"id": 50, "v": "in between"})
            shop.bench.apply()
        publish(current)

    monkeypatch.setattr("lake_assets.silver.reconcile.repair.located", with_batches_meanwhile)
    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "publish", with_a_batch_before)
        # The first attempt's own publish is refused, since a batch was published in between.
        done = repaired(shop)
    assert (done.rows, done.left) == (4, 2)
    assert shop.bench.rows() == shop.bench.truth(), "the two were put right by their own new images"
    files = shop.bench.lake.runtime.file_log.files("shop", ITEMS)
    assert read_position(shop.bench.table()).log_offset == files[-1].offset
    monkeypatch.undo()
    assert repaired(shop) == Repaired()


@pytest.mark.long
def test_files_that_are_pending(shop: ReconciledShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have changed no row yet, so that none is left out for them."""

    def with_a_pending_file(*given: Any) -> Any:
        found = located(*given)
        shop.change("U", {"id": 50, "v": "meanwhile"})
        shop.bench.apply()
        shop.change("U", {"id": 33, "v": "pending"})
        shop.bench.look()
        return found

    monkeypatch.setattr(repair_module, "located", with_a_pending_file)
    done = repaired(shop)
    assert (done.rows, done.left) == (5, 0)
    assert shop.bench.stored_by_id("v")[33] == "v33"
    shop.bench.apply()
    assert shop.bench.rows() == shop.bench.truth()


@pytest.mark.long
def test_rows_that_waited_for_the_cut(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later cut applies them meanwhile, without a new file."""
    cut = {"consistent_cut": {"interval": "10s", "margin": "2s", "every": "1s"}}
    bench, clock = Bench(tmp_path, {ITEMS: TABLES[ITEMS]}, source=cut), Clock()
    rows = [clock.change("I", {"id": number, "v": f"v{number}"}) for number in range(12)]
    bench.put(cdc_file(ITEMS, rows[1]["commit_ts"], rows[:2]))
    rows.append(clock.change("U", {"id": 0, "v": "waited"}))
    bench.put(cdc_file(ITEMS, clock.now, rows[2:]))
    bench.apply()
    rewrite(bench.lake, TABLE, "id < 2", v="'wrong'")
    assert bench.stored_by_id("v") == {0: "wrong", 1: "wrong", 2: "v2", 3: "v3", 4: "v4"}

    def with_a_later_cut(*given: Any) -> Any:
        found = located(*given)
        quiet(bench)
        bench.apply()
        return found

    monkeypatch.setattr(repair_module, "located", with_a_later_cut)
    target = next(target for target in bench.lake.targets if target.name == "items")
    done = repair(bench.lake.runtime, target, Cycle(1, NOON), [0])
    assert (done.rows, done.left) == (1, 1)
    assert bench.rows() == bench.truth()
    assert read_position(bench.table()).cut is not None
    assert not any(bench.apply().values())


def test_files_that_vanish_meanwhile(shop: ReconciledShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a TRUNCATE: the rows that they gave do not come back."""
    shop.bench.edit({**TABLES, ITEMS: {**TABLES[ITEMS], "on_vanished": "truncate"}})

    def with_a_truncate_meanwhile(*given: Any) -> Any:
        found = located(*given)
        monkeypatch.undo()
        for file in shop.bench.files(ITEMS):
            (shop.folder / "bronze" / file.key).unlink()
        shop.bench.apply()
        assert shop.bench.rows() == []
        return found

    monkeypatch.setattr(repair_module, "located", with_a_truncate_meanwhile)
    assert repaired(shop) == Repaired()
    assert shop.bench.rows() == []


@pytest.mark.long
def test_a_file_that_is_written_again_meanwhile(
    shop: ReconciledShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a change that it had: nothing of that change comes back."""
    shop.change("U", {"id": 50, "v": "taken back"})
    shop.bench.apply()
    rewrite(shop.bench.lake, TABLE, "id = 50", v="'wrong'")

    def with_another_content_meanwhile(*given: Any) -> Any:
        found = located(*given)
        monkeypatch.undo()
        instead = shop.clock.change("U", {"id": 51, "v": "instead"}, same_transaction=True)
        shop.bench.put(cdc_file(ITEMS, shop.clock.now, [instead]))
        shop.bench.apply()
        return found

    monkeypatch.setattr(repair_module, "located", with_another_content_meanwhile)
    repaired(shop)
    assert shop.bench.rows() == shop.bench.truth()


def test_masks_that_change_meanwhile(shop: ReconciledShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process masks a column while this one, which still has the lake.yaml from before, computes the rows: no
    plain value reaches the table, and the repair says why it stops."""
    runtime, target, cycle = shop.bench.lake.runtime, shop.target(), shop.cycle(1)

    def with_a_mask_meanwhile(*given: Any) -> Any:
        found = located(*given)
        monkeypatch.undo()
        shop.bench.edit({**TABLES, ITEMS: {**TABLES[ITEMS], "mask": {"v": "redact"}}})
        assert rebuild(shop.bench.lake.runtime, shop.target()).published is not None
        return found

    monkeypatch.setattr("lake_assets.silver.reconcile.repair.located", with_a_mask_meanwhile)
    with pytest.raises(TableStopped, match=r"v are masked by redact, and lake\.yaml has no mask for it"):
        repair(runtime, target, cycle, [0])
    assert set(shop.bench.stored_by_id("v").values()) == {"***"}
    assert list(shop.bench.table().metadata.refs) == ["main"]
    assert repaired(shop) == Repaired(), "the rebuild has put the rows right"


def test_a_full_load_meanwhile(shop: ReconciledShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The computed rows are of the epoch before: none of them is written, and it is tried once."""
    publish, tried = repair_module._publish, []

    def with_a_load_meanwhile(*given: Any) -> Any:
        found = located(*given)
        monkeypatch.setattr(repair_module, "located", located)
        rows = [{"id": n, "v": "loaded", "at": NOON} for n in range(28, 40)]
        shop.bench.put(load_file(ITEMS, rows, at=shop.clock.now + timedelta(minutes=1)))
        shop.bench.apply()
        return found

    def counted(*given: Any) -> Repaired:
        tried.append(given)
        return publish(*given)

    monkeypatch.setattr(repair_module, "located", with_a_load_meanwhile)
    monkeypatch.setattr(repair_module, "_publish", counted)
    assert repaired(shop) == Repaired(), "the load has put the rows right"
    assert set(shop.bench.stored_by_id("v").values()) == {"loaded"}
    assert len(tried) == 1


def test_more_rows_than_a_repair_may_write(shop: ReconciledShop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.silver.reconcile.repair.MOST_ROWS", 4)
    rows = shop.bench.rows()
    with pytest.raises(
        TableStopped, match=rf"5 rows differ from the files of {TABLE}. Use lake-assets rebuild"
    ):
        repaired(shop)
    assert shop.bench.rows() == rows


def test_a_repair_that_dies_before_its_publish(shop: ReconciledShop, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = shop.bench.rows()
    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "drop", lambda self: None)
        patched.setattr(Attempt, "publish", killed)
        with pytest.raises(Killed):
            repaired(shop)
    assert_all_is_left_to_do(shop, rows)


@pytest.mark.long
@pytest.mark.parametrize("step", ["delete_matching", "publish"])
def test_a_process_that_is_killed(shop: ReconciledShop, step: str) -> None:
    """It has published nothing, or all; the next one does what is left to do."""
    rows, given = shop.bench.rows(), same_lake(shop.bench)
    program = "lake_assets_tests.helpers.reconcile.repair_process"
    done = run_python("-m", program, json.dumps({**given, "kill_before": step}), timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    assert_all_is_left_to_do(shop, rows)


def assert_all_is_left_to_do(shop: ReconciledShop, rows: list[str]) -> None:
    """The table has these rows and a dead attempt's branch, and a repair does its work."""
    assert shop.bench.rows() == rows
    assert len(shop.bench.table().metadata.refs) == 2, "the dead attempt's branch, which maintenance drops"
    assert repaired(shop).rows == 5
    assert shop.bench.rows() == shop.bench.truth()


def test_the_command_line(shop: ReconciledShop) -> None:
    def call(*arguments: str) -> tuple[int, str]:
        with pytest.MonkeyPatch.context() as patched:
            config = shop.bench.lake.config
            patched.setattr("lake_assets.commands.run.opening.on_running_server", lambda path: config)
            done = CliRunner().invoke(cli.app, [*arguments])
        return done.exit_code, done.stdout

    code, text = call("rebuild", ITEMS, "--check", "--slice", "all")
    assert code == 1
    assert f"{TABLE}: 7 of 7 slices, 58 rows: 5 rows differ from its files" in text
    assert "id=30: price is 30.51, the files give 30.50" in text
    code, text = call("replay", ITEMS, "--slice", "different")
    assert (code, "5 rows replaced by what the files give" in text) == (0, True)
    code, text = call("replay", ITEMS, "--slice", "different")
    assert (code, "no slice differed when it was compared last" in text) == (0, True)
    code, text = call("rebuild", ITEMS, "--check", "--slice", "next")
    assert (code, "slice 1 of 7, id below" in text, "equal to its files" in text) == (0, True, True)
    assert call("rebuild", ITEMS, "--slice", "next")[0] == 2
    assert call("replay", ITEMS)[0] == 2
    assert shop.bench.rows() == shop.bench.truth()
