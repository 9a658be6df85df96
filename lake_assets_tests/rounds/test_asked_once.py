"""How often a look, the plan of a round and a table's turn ask the catalog for each table.

A remote catalog takes 20 ms for an answer. Here: the numbers, without a remote catalog. Not here: requests of Spark and
to a bucket, which `benchmarks/requests.py` counts.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from lake_assets.rounds.arrivals import Arrivals
from lake_assets.rounds.round import plan_round
from lake_assets.schema.contract import Contracts
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.silver.plan.plan import State
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.keyed_shop import KEYED, KeyedShop

pytestmark = pytest.mark.spark
LOG, CONTRACTS = "lake_ops.bronze_files", "lake_ops.contracts"
QUARANTINE, FINDINGS = "lake_ops.quarantine", "lake_ops.findings"
ITEMS, OTHERS = "silver_shop.items", "silver_shop.others"


def test_each_step_asks_for_each_table_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = KeyedShop(Bench(tmp_path, {"public.items": KEYED, "public.others": KEYED}))
    lake = shop.bench.lake
    arrivals = Arrivals(lake.runtime, "shop")
    shop.load()
    arrivals.scan()
    shop.bench.apply()
    asked: Counter[str] = Counter()
    load = lake.runtime.catalog.load_table

    def counted(identifier: Any) -> Table:
        asked[identifier if isinstance(identifier, str) else ".".join(identifier)] += 1
        return load(identifier)

    def asked_by(step: Callable[[], object]) -> dict[str, int]:
        asked.clear()
        step()
        return dict(asked)

    monkeypatch.setattr(lake.runtime.catalog, "load_table", counted)
    assert asked_by(arrivals.scan) == {LOG: 1}
    # A look that finds files. The append looks at the log again, and PyIceberg does so for the commit.
    assert asked_by(shop.change) == {LOG: 3}
    assert asked_by(lambda: plan_round(lake.runtime, lake.targets)) == {
        LOG: 1,
        CONTRACTS: 1,
        ITEMS: 1,
        OTHERS: 1,
    }
    # The contracts are read again once a session is there; the quarantine, after the publish; the table, for the row
    # counts on its branch.
    turn = {LOG: 2, CONTRACTS: 4, QUARANTINE: 4, FINDINGS: 2, ITEMS: 2, OTHERS: 2}
    assert asked_by(lambda: list(apply_tables(lake.runtime, lake.targets))) == turn
    assert asked_by(arrivals.scan) == {LOG: 1}
    shop.check()


def test_contracts_that_were_recorded_since_they_were_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has recorded a table's first contract, and applied a batch by it, after this one has read the
    contracts of all tables: they are not lost."""
    bench = Bench(tmp_path, {"public.items": KEYED})
    KeyedShop(bench).load()
    bench.apply()
    runtime, answers = bench.lake.runtime, [dict[str, Contracts]()]
    every = runtime.contracts.every
    monkeypatch.setattr(runtime.contracts, "every", lambda: answers.pop() if answers else every())
    (state,) = plan_round(runtime, bench.lake.targets).states
    assert (answers, state.stop, state.state) == ([], None, State.UP_TO_DATE)
