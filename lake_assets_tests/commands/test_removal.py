"""What `remove` and `destroy` must not drop: tables of others, shared folders, tables that lake.yaml still has.

Here: tables of PyIceberg, without Spark. Not here: a lake that was applied (`test_remove.py`).
"""

from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from lake_assets.bronze.log import file_log
from lake_assets.commands.remove import removal
from lake_assets.config.config_file import load_lake
from lake_assets.gold.consumption import Consumption
from lake_assets.iceberg import lake_format
from lake_assets.iceberg.catalog import ensure_namespace, open_catalog
from lake_assets.iceberg.lake_format import FORMAT
from lake_assets.iceberg.table_io import tables_in
from lake_assets.lake import open_lake
from lake_assets.silver.table.guard import SOURCE_TABLE
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return command_lake(tmp_path)


@pytest.fixture
def catalog(folder: Path) -> Catalog:
    return open_catalog(load_lake(folder / "lake.yaml").catalog)


def made(catalog: Catalog, identifier: str, of: str = "", **properties: str) -> Table:
    """A table with rows. `of`: the source table that it is of, for one of silver; `properties`: of its commit."""
    ensure_namespace(catalog, identifier.partition(".")[0])
    table = catalog.create_table(identifier, ROWS.schema, properties={SOURCE_TABLE: of} if of else {})
    table.append(ROWS, snapshot_properties=properties)
    return table


def rows(catalog: Catalog, identifier: str) -> int:
    return catalog.load_table(identifier).scan().to_arrow().num_rows


def test_tables_of_gold_that_no_mart_has_written_are_of_others(
    folder: Path, catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    made(catalog, "gold.forecast")
    made(catalog, "gold.former", **Consumption().properties())
    assert call(folder, "remove", "gold.forecast", "--yes") == 1
    assert "gold.forecast is no table of the lake" in capsys.readouterr().err
    assert call(folder, "destroy", "--yes") == 0
    assert tables_in(catalog, "gold") == {"gold.forecast"}
    assert rows(catalog, "gold.forecast") == 2


def test_a_folder_that_a_detached_table_shares(
    folder: Path, catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    """`detach` renames a table; the one that gets its name gets its folder, too."""
    made(catalog, "silver_shop.orders", "shop/public.old_orders")
    catalog.rename_table("silver_shop.orders", "silver_shop.orders_of_public_old_orders")
    location = made(catalog, "silver_shop.orders", "shop/public.orders").location()
    assert catalog.load_table("silver_shop.orders_of_public_old_orders").location() == location
    assert call(folder, "remove", "silver_shop.orders", "--yes") == 0
    assert "silver_shop.orders_of_public_old_orders" in capsys.readouterr().out
    assert tables_in(catalog, "silver_shop") == {"silver_shop.orders_of_public_old_orders"}
    assert rows(catalog, "silver_shop.orders_of_public_old_orders") == 2
    made(catalog, "silver_shop.orders", "shop/public.orders")
    assert call(folder, "destroy", "--yes") == 0
    assert not tables_in(catalog, "silver_shop")


@pytest.mark.parametrize("step", ["forget", "drop"])
def test_killed_between_the_steps(
    folder: Path, catalog: Catalog, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command finishes it."""
    made(catalog, "silver_shop.orders", "shop/public.orders")
    findings = open_lake(load_lake(folder / "lake.yaml")).runtime.findings
    findings.note("a kind", "silver_shop.orders", {"said": "something"})

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if step == "drop":
            patched.setattr(removal, "drop_with_files", killed)
        else:
            patched.setattr("lake_assets.iceberg.findings.Findings.forget", killed)
        call(folder, "remove", "silver_shop.orders", "--yes")
    assert call(folder, "remove", "silver_shop.orders", "--yes") == 0
    assert not tables_in(catalog, "silver_shop")
    assert not open_lake(load_lake(folder / "lake.yaml")).runtime.findings.of("a kind")


def test_a_mart_that_cannot_be_loaded_is_in_lake_yaml(
    folder: Path, catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rates.py").write_text("RATE = 1 / 0\n", encoding="utf-8")
    config = yaml.safe_load((folder / "lake.yaml").read_text(encoding="utf-8"))
    config["gold"]["marts"] = [str(folder / "rates.py")]
    (folder / "lake.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    made(catalog, "gold.rates", **Consumption().properties())
    assert call(folder, "remove", "gold.rates", "--yes") == 1
    assert "lake.yaml" in capsys.readouterr().err
    assert rows(catalog, "gold.rates") == 2


def test_a_lake_of_a_newer_release_is_not_destroyed(
    folder: Path, catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    made(catalog, "silver_shop.orders", "shop/public.orders")
    _ = open_lake(load_lake(folder / "lake.yaml")).runtime.file_log
    with catalog.load_table(file_log.TABLE).transaction() as change:
        change.set_properties({FORMAT: str(lake_format.FORMAT_VERSION + 1)})
    assert call(folder, "destroy", "--yes") == 1
    assert "was written by a newer release" in capsys.readouterr().err
    assert tables_in(catalog, "silver_shop") == {"silver_shop.orders"}
