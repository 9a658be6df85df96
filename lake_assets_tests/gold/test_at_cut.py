"""A mart over several tables that sees whole transactions, while it is computed after every file.

Here: real runs of silver and the mart. Not here: the cut in silver (`silver/test_consistent_cut.py`), which tags are
read (`view/`).
"""

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.errors import LakeError
from lake_assets.gold.mart import Input, Mart, MartRequest
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.orchestration.sync import sync
from lake_assets_tests.helpers.lakes.bank import ACCOUNTS, OPENING, SAVINGS, Bank, bank_lake, in_turns

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def total(request: MartRequest) -> DataFrame:
    accounts = request.inputs["savings"].unionByName(request.inputs["giro"])
    return accounts.agg(F.sum("balance").alias("money"), F.lit(request.now).alias("as_of"))


AT_ANY_TIME = Mart(
    name="money_seen",
    description="What all accounts add up to, each table as new as it is.",
    inputs={"savings": Input("shop", "savings"), "giro": Input("shop", "giro")},
    columns=(parse_column("money", "long"), parse_column("as_of", "timestamptz")),
    compute=total,
    partition_column=None,
)
AT_CUT = replace(AT_ANY_TIME, name="money", at_cut=True)


def test_money_is_neither_made_nor_lost(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(5)
    bank, bench = Bank(random), bank_lake(tmp_path)
    for _ in range(10):
        bank.transfer()
    bench.lake = open_lake(bench.lake.config, marts=(AT_CUT, AT_ANY_TIME))
    instance = dg.DagsterInstance.ephemeral()
    bench.put(*bank.loads())
    waiting = sync(bench.lake, instance).waiting
    assert "waits for a consistent cut" in waiting["gold.money"]
    shown: dict[str, set[tuple[int, datetime]]] = {"money": set(), "money_seen": set()}

    def found(*marts: Mart) -> None:
        catalog = bench.lake.runtime.catalog
        for mart in marts:
            if catalog.table_exists(mart.identifier):
                rows = catalog.load_table(mart.identifier).scan().to_arrow().to_pylist()
                shown[mart.name] |= {(row["money"], row["as_of"]) for row in rows}

    for files in in_turns(random, bank.arrivals()):
        bench.put(*files)
        # One table is ahead of the others for a while, as if these had failed.
        assert not sync(bench.lake, instance, table=SAVINGS).failed
        found(AT_CUT, AT_ANY_TIME)
        assert not sync(bench.lake, instance).failed
        found(AT_CUT, AT_ANY_TIME)
    seen = {name: {money for money, _ in rows} for name, rows in shown.items()}
    assert seen["money"] == {2 * ACCOUNTS * OPENING}
    assert len(shown["money"]) > 1, "it has moved on"
    assert len(seen["money_seen"]) > 1, "without tags, transfers are there by half"


def test_marts_that_have_no_cut_are_refused(tmp_path: Path) -> None:
    config = bank_lake(tmp_path).lake.config
    without = config.sources["shop"].model_copy(update={"consistent_cut": None})
    with pytest.raises(LakeError, match=r"gold\.money reads at the consistent cut of shop, which has none"):
        open_lake(config.model_copy(update={"sources": {"shop": without}}), marts=(AT_CUT,))
    two = replace(AT_CUT, inputs={"savings": Input("shop", "savings"), "other": Input("branch", "giro")})
    with pytest.raises(LakeError, match="two sources have no cut in common"):
        open_lake(config, marts=(two,))
