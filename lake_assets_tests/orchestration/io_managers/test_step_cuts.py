"""An own asset that reads several tables at the newest consistent cut sees whole transactions.

Here: assets whose tables are ahead of each other, and one whose tables are tagged while it loads them. Not here: marts
(`gold/test_at_cut.py`), the other metadata of an input (`test_table_values.py`).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from lake_assets.orchestration.io_managers import step_cuts
from lake_assets.orchestration.io_managers.iceberg_io_manager import TableIOManager
from lake_assets.orchestration.io_managers.table_values import CUT
from lake_assets.orchestration.sync import sync
from lake_assets.silver.apply.cut_tags import cut_tags
from lake_assets_tests.helpers.files.dms_files import DmsFile
from lake_assets_tests.helpers.lakes.bank import ACCOUNTS, OPENING, SAVINGS, Bank, bank_lake, in_turns
from lake_assets_tests.helpers.lakes.bench import Bench

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ALL_MONEY = 2 * ACCOUNTS * OPENING


class Between(dg.IOManager):
    """An input whose loading takes its time: meanwhile more has landed."""

    def __init__(self, land: Callable[[], None]) -> None:
        self._land = land

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        raise AssertionError("it is an input")

    def load_input(self, context: dg.InputContext) -> None:
        self._land()


def account(name: str, **metadata: Any) -> dg.AssetIn:
    return dg.AssetIn(["silver", "shop", name], input_manager_key="io", metadata=metadata)


def money(bench: Bench, cut: dict[str, Any], land: Callable[[], None] = lambda: None) -> int:
    """What an asset adds up that reads one account table, waits, and reads the other one."""
    seen: list[int] = []
    waiting = dg.AssetIn(["middle"], input_manager_key="between")

    @dg.asset(ins={"a": account("savings", **cut), "b": waiting, "c": account("giro", **cut)})
    def total(a: pa.Table, b: Any, c: DataFrame) -> None:
        seen.append(pc.sum(a["balance"]).as_py() + sum(row["balance"] for row in c.collect()))

    resources = {"io": TableIOManager(bench.lake.runtime), "between": Between(land)}
    inputs = [dg.AssetSpec(key) for key in total.dependency_keys]
    assert dg.materialize([*inputs, total], resources=resources).success
    return seen[0]


def test_an_own_asset_sees_whole_transactions(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(5)
    bank, bench = Bank(random), bank_lake(tmp_path)
    for _ in range(20):
        bank.transfer()
    instance = dg.DagsterInstance.ephemeral()

    def landed(files: list[DmsFile], table: str | None = None) -> None:
        bench.put(*files)
        assert not sync(bench.lake, instance, table=table).failed

    def next_files(turns: Iterator[list[DmsFile]]) -> list[DmsFile]:
        return next(turns, [])

    landed(bank.loads())
    turns = in_turns(random, bank.arrivals())
    with pytest.raises(dg.DagsterInvariantViolationError, match="have no consistent cut in common"):
        money(bench, {CUT: "newest"})
    landed(next_files(turns))
    landed(next_files(turns))
    at_cut, at_head = set(), set()
    for files in turns:
        # One table is ahead of the other one, as if that had failed; then both move on while the asset loads.
        landed(files, SAVINGS)
        at_head.add(money(bench, {}))
        at_cut.add(money(bench, {CUT: "newest"}))
        at_cut.add(money(bench, {CUT: "newest"}, lambda: landed(next_files(turns))))
    assert at_cut == {ALL_MONEY}
    assert at_head - {ALL_MONEY}, "without a cut, transfers are there by half"


def test_another_dagster_that_does_not_name_the_inputs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One input is read at its own newest cut; several could be at different ones, and are refused."""
    bank, bench = Bank(Random(5)), bank_lake(tmp_path)
    for _ in range(40):
        bank.transfer()
    for files in (bank.loads(), bank.arrivals()):
        bench.put(*files)
        assert not sync(bench.lake, dg.DagsterInstance.ephemeral()).failed
    monkeypatch.setattr(step_cuts, "step_inputs", lambda context: None)
    with pytest.raises(
        dg.DagsterInvariantViolationError, match=r"inputs a and c, .*: name a time instead of 'newest'"
    ):
        money(bench, {CUT: "newest"})
    seen: list[int] = []

    @dg.asset(ins={"a": account("savings", **{CUT: "newest"}), "c": account("giro")})
    def one(a: pa.Table, c: pa.Table) -> None:
        seen.append(a.num_rows)

    inputs = [dg.AssetSpec(key) for key in one.dependency_keys]
    assert dg.materialize([*inputs, one], resources={"io": TableIOManager(bench.lake.runtime)}).success
    assert seen == [ACCOUNTS]
    newest = max(cut_tags(bench.lake.runtime.catalog.load_table("silver_shop.giro")))
    assert money(bench, {CUT: newest.isoformat()}) == ALL_MONEY
