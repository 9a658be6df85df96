"""Tables whose schema or name has a dot, through files, the commands and Dagster's assets.

Here: what a user sees of such a table. Not here: its name's text (`test_table_name.py`).
"""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file, transaction_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS_HEADER, write_file
from lake_assets_tests.helpers.lakes.transaction_tables import TRANSACTIONS, minutes

pytestmark = pytest.mark.spark

INVOICES, OTHER = 'public."billing.invoices"', 'public."billing.other"'
APP = '"my.app".items'
TABLE = {"columns": {"id": "long not null", "name": "string"}, "primary_key": ["id"]}


def row(key: int, name: str | None = None) -> dict[str, object]:
    return {"id": key, "name": name}


@pytest.mark.parametrize("transactions", [True, pytest.param(False, marks=pytest.mark.long)])
def test_every_dotted_table_equals_its_source(
    spark: SparkSession, tmp_path: Path, transactions: bool
) -> None:
    bench = Bench(tmp_path, {INVOICES: TABLE, OTHER: TABLE, APP: TABLE}, TRANSACTIONS if transactions else {})
    clock = Clock()
    bench.put(*(load_file(table, [row(1, table), row(2)]) for table in bench.tables))
    for number in (1, 2):
        changes = [
            (table, clock.change(op, row(number if op != "I" else number + 5, f"{op} of {table}")))
            for table in bench.tables
            for op in ("U", "I", "D")[number - 1 :]
        ]
        if transactions:
            bench.put(transaction_file(minutes(number), changes))
        else:
            own = {t: [change for table, change in changes if table == t] for t in bench.tables}
            bench.put(*(cdc_file(table, minutes(number), rows) for table, rows in own.items()))
        bench.apply()
    for table, silver in ((INVOICES, "billing_invoices"), (OTHER, "billing_other"), (APP, "items")):
        assert bench.rows(silver) == bench.truth(table), table
        assert bench.table(silver).properties["lake.source-table"] == f"shop/{table}"


def test_the_commands_take_and_print_the_quoted_name(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    lake = command_lake(tmp_path, [INVOICES, OTHER])
    rows = [f"I,2026-03-01 00:00:00.000000,{n},name {n},1.50,2026-03-01 10:00:00.000000,," for n in (1, 2)]
    write_file(lake, "public/billing.invoices/LOAD00000001.csv", [ITEMS_HEADER, *rows])
    write_file(lake, "public/billing.invoices/20260301-120100000.csv", [ITEMS_HEADER])
    write_file(lake, "public/billing.strange/LOAD00000001.csv", [ITEMS_HEADER, *rows])
    assert call(lake, "sync", "--table", INVOICES) == 0
    assert 'public."billing.strange", which lake.yaml does not configure' in " ".join(caplog.messages)
    capsys.readouterr()
    assert call(lake, "status", "--json") == 0
    found = {line["source_table"]: line for line in json.loads(capsys.readouterr().out)}
    assert found[INVOICES] | {"table": "silver_shop.billing_invoices", "rows": 2} == found[INVOICES]
    assert "under" in found[OTHER]["reason"]
    assert "/bronze/public/billing.other/ yet" in found[OTHER]["reason"]

    write_file(lake, "public/billing.invoices/20260301-120200000.csv", [ITEMS_HEADER, f"X{rows[0][1:]}"])
    assert call(lake, "sync", "--table", "public.billing.invoices") == 1
    capsys.readouterr()
    assert call(lake, "status") == 1
    assert f"lake-assets sync --table '{INVOICES}'" in " ".join(capsys.readouterr().out.split())
    assert call(lake, "sync", "--table", 'public."billing.none"') == 2
    assert INVOICES in capsys.readouterr().err
    assert call(lake, "rebuild", INVOICES, "--check") == 0


def test_dagster_has_assets_for_them(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, {INVOICES: TABLE, APP: TABLE})
    keys = {
        tuple(key.path)
        for key in build_definitions(bench.lake).get_repository_def().asset_graph.get_all_asset_keys()
    }
    for layer in ("bronze", "silver"):
        assert {(layer, "shop", "billing_invoices"), (layer, "shop", "items")} <= keys
