"""`lake-assets remove` and `destroy`: what is dropped, what stays, and what is refused.

Not here: tables that lake.yaml renames (`silver/test_outside_changes.py`).
"""

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.iceberg.table_io import tables_in
from lake_assets.lake import open_lake
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, rows_of, write_items
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS_HEADER, sequence, write_file

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    """A lake with two tables, one of which has a quarantined row."""
    found = command_lake(tmp_path)
    edited(found, quarantine={"max_rows": 5})
    for name in ("items", "others"):
        write_items(found, name)
    bad = f"U,2026-03-01 12:30:00.000000,2,bad,many,2026-03-01 11:00:00.000000,{sequence(2)},"
    write_file(found, "public/others/20260301-123100000.csv", [ITEMS_HEADER, bad])
    assert call(found, "sync") == 0
    return found


def edited(folder: Path, *, without: str | None = None, **settings: object) -> None:
    path = folder / "lake.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    tables = config["sources"]["shop"]["tables"]
    config["sources"]["shop"]["tables"] = {
        name: {**table, **settings} for name, table in tables.items() if name != without
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")


def test_a_table_that_lake_yaml_does_not_have_any_more(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(folder, "remove", "public.others", "--yes") == 1
    assert (
        "silver_shop.others is in lake.yaml, and the next sync would load it again" in capsys.readouterr().err
    )
    edited(folder, without="public.others")
    assert call(folder, "remove", "public.unknown", "--yes") == 1
    assert "Tables that lake.yaml does not have any more: silver_shop.others." in " ".join(
        capsys.readouterr().err.split()
    )
    assert call(folder, "remove", "others") == 1, "it is called by its whole name"
    assert call(folder, "remove", "public.others", "--dry-run") == 0
    assert call(folder, "remove", "public.others") == 1
    assert "Nobody can be asked here: use --yes." in capsys.readouterr().err
    lake = open_lake(load_lake(folder / "lake.yaml"))
    assert lake.runtime.contracts.of("silver_shop.others").versions
    assert lake.runtime.quarantine.all("silver_shop.others")
    assert call(folder, "remove", "public.others", "--yes") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 table was dropped."
    assert not (folder / "warehouse/silver_shop/others").exists()
    lake = open_lake(load_lake(folder / "lake.yaml"))
    assert tables_in(lake.runtime.catalog, "silver_shop") == {"silver_shop.items"}
    assert not lake.runtime.contracts.of("silver_shop.others").versions
    assert lake.runtime.contracts.of("silver_shop.items").versions, "the other table's stay"
    assert not lake.runtime.quarantine.all("silver_shop.others")
    # Added again, it is loaded again from the same files.
    path = folder / "lake.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    tables = config["sources"]["shop"]["tables"]
    tables["public.others"] = tables["public.items"]
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    assert call(folder, "sync") == 0
    config = load_lake(path)
    assert len(rows_of(config, "silver_shop.others")) == 2
    assert len(open_lake(config).runtime.quarantine.open("silver_shop.others")) == 1


def test_the_whole_lake(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted((folder / "bronze").rglob("*.csv"))
    capsys.readouterr()
    assert call(folder, "destroy", "--dry-run") == 0
    listed = [line.partition(" ")[0].rstrip(":") for line in capsys.readouterr().out.splitlines()]
    assert listed[:2] == ["silver_shop.items", "silver_shop.others"]
    assert {"lake_ops.bronze_files", "lake_ops.contracts", "lake_ops.quarantine"} <= {*listed[2:]}
    assert call(folder, "destroy") == 1
    before = rows_of(load_lake(folder / "lake.yaml"), "silver_shop.items")
    assert call(folder, "destroy", "--yes") == 0
    catalog = open_catalog(load_lake(folder / "lake.yaml").catalog)
    assert not tables_in(catalog, "silver_shop") | tables_in(catalog, "lake_ops")
    assert not [path for path in (folder / "warehouse").rglob("*") if path.is_file()]
    assert sorted((folder / "bronze").rglob("*.csv")) == files
    assert call(folder, "destroy", "--yes") == 0
    assert call(folder, "sync") == 0
    assert rows_of(load_lake(folder / "lake.yaml"), "silver_shop.items") == before
