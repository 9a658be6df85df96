"""A mart whose file raises: commands that do not need it go on, and the others name it.

Not here: what `validate` finds besides (`test_validate.py`).
"""

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from lake_assets.config.config_file import load_lake
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, rows_of, write_items
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS_HEADER, sequence, write_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return command_lake(tmp_path)


BROKEN = """from lake_assets.gold.mart import Mart
RATE = 1 / 0
"""


def test_the_tables_are_shown_beside_a_mart_that_is_broken(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands that need it say where it fails, with nothing else."""
    (folder / "rates.py").write_text(BROKEN, encoding="utf-8")
    config = yaml.safe_load((folder / "lake.yaml").read_text(encoding="utf-8"))
    config["gold"] |= {
        "marts": [str(folder / "rates.py"), "lake_assets.demo.marts.station_daily"],
        "checks": {"rates": {"known": "rate > 0"}},
    }
    (folder / "lake.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    reason = (
        f"{folder}/rates.py cannot be used as a mart: {folder}/rates.py, line 2: ZeroDivisionError: division by zero. "
        "It must define MART: correct it, or take it out of gold.marts."
    )
    elsewhere = "gold.station_daily reads silver_bikeshare.trips, which lake.yaml does not have."
    for command, code, shown in (
        (("status", "--all"), 1, "silver_shop.items"),
        (("status", "--json"), 1, '"table": "silver_shop.items"'),
        (("latency",), 0, ""),
        (("quarantine", "list"), 0, "Nothing is quarantined."),
    ):
        assert call(folder, *command) == code, command
        told = capsys.readouterr()
        assert shown in told.out
        assert told.err.splitlines() == [f"gold.marts: {reason}", elsewhere], command
    assert call(folder, "validate") == 2
    place = folder / "lake.yaml"
    assert capsys.readouterr().err.splitlines() == [f"{place}: gold.marts: {reason}", f"{place}: {elsewhere}"]
    for line in ("maintain", "backfill rates 2026-03-01 2026-03-01"):
        assert call(folder, *line.split()) == 1
        assert capsys.readouterr().err.splitlines() == [f"gold.marts: {reason}"], line


NAMED = """from lake_assets.config import parse_column
from lake_assets.gold.mart import Follow, Input, Mart


def compute(request):
    return request.inputs["items"].filter(request.within("at")).selectExpr("to_date(at) AS day", "id", "name")


MART = Mart(
    name="rates",
    description="Items by day.",
    inputs={"items": Input("shop", "items", Follow.DAY, "at")},
    columns=(parse_column("day", "date not null"), parse_column("id", "long"), parse_column("name", "string")),
    compute=compute,
)
"""


@pytest.mark.spark
def test_silver_goes_on_while_a_mart_is_broken(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mart = folder / "rates.py"
    config = yaml.safe_load((folder / "lake.yaml").read_text(encoding="utf-8"))
    config["gold"] |= {"marts": [str(mart)], "checks": {"rates": {"known": "name IS NOT NULL"}}}
    (folder / "lake.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    mart.write_text(NAMED, encoding="utf-8")
    write_items(folder)
    assert call(folder, "sync") == 0
    lake = load_lake(folder / "lake.yaml")

    def names(table: str) -> dict[int, str]:
        return {row["id"]: row["name"] for row in rows_of(lake, table)}

    before = {1: "name 1", 2: "changed"}
    assert names("gold.rates") == names("silver_shop.items") == before
    mart.write_text(BROKEN, encoding="utf-8")
    change = f"U,2026-03-02 12:00:00.000000,1,later,2.00,2026-03-02 11:00:00.000000,{sequence(2)},"
    write_file(folder, "public/items/20260302-120100000.csv", [ITEMS_HEADER, change])
    capsys.readouterr()
    assert call(folder, "sync") == 1
    assert "rates.py, line 2: ZeroDivisionError" in (told := capsys.readouterr().err)
    assert told.endswith("No mart is computed before that is corrected.\n")
    assert names("silver_shop.items") == before | {1: "later"}
    assert names("gold.rates") == before
    mart.write_text(NAMED, encoding="utf-8")
    assert call(folder, "sync") == 0
    assert names("gold.rates") == before | {1: "later"}, "and no row of its former day"
    assert len(rows_of(lake, "gold.rates")) == 2
