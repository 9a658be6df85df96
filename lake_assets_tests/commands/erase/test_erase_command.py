"""`lake-assets erase` on a lake with a mart and Dagster's history, as a user runs it.

Here: what it prints, its report, the mart, the previews, `status` of an unfinished one. Not here: the formats of files
(`test_erase.py`).
"""

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from lake_assets.commands.erase import erase
from lake_assets.config.config_file import load_lake
from lake_assets.errors import LakeError
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, rows_of
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS, ITEMS_HEADER, sequence, write_file

pytestmark = [pytest.mark.spark, pytest.mark.slow]
NAME = b"Zenobia"
MART = """/*
description: The last name of each day.
follow:
  silver_shop.items_history: {day: [_valid_from]}
columns:
  day: date not null
  last_name: string
*/
SELECT to_date(_valid_from) AS day, max(name) AS last_name
FROM silver_shop.items_history
WHERE _valid_from >= :start AND _valid_from < :end
GROUP BY day
"""


def left(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and NAME in path.read_bytes()]


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    """A lake with a mart that shows the person's name, who was deleted at the source since."""
    (tmp_path / "last_names.sql").write_text(MART, encoding="utf-8")
    found = command_lake(
        tmp_path, gold={"start_date": "2026-03-01", "marts": [str(tmp_path / "last_names.sql")]}
    )
    path = found / "lake.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["sources"]["shop"]["tables"] = {"public.items": ITEMS | {"also": ["history", "change_log"]}}
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    rows = [
        f"I,2026-03-01 00:00:00.000000,{n},{name},1.50,2026-03-01 10:00:00.000000,,"
        for n, name in ((1, "Zenobia Quast"), (2, "Abel Moor"))
    ]
    write_file(found, "public/items/LOAD00000001.csv", [ITEMS_HEADER, *rows])
    assert call(found, "sync") == 0
    gone = f"D,2026-03-02 12:00:00.000000,1,Zenobia Quast,1.50,2026-03-01 10:00:00.000000,{sequence(1)},"
    write_file(found, "public/items/20260302-120100000.csv", [ITEMS_HEADER, gone])
    assert call(found, "sync") == 0
    return found


def test_everywhere(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = load_lake(folder / "lake.yaml")
    assert [row["last_name"] for row in rows_of(config, "gold.last_names")] == ["Zenobia Quast"]
    assert any("dagster" in path for path in left(folder)), "an event shows her"
    capsys.readouterr()
    assert call(folder, "erase", "items", "1", "--dry-run") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == [
        "public.items: 1 key, 2 rows in 2 of 2 files",
        "  public/items/LOAD00000001.csv: 1 row",
        "  public/items/20260302-120100000.csv: 1 row",
    ]
    assert call(folder, "erase", "items", "1") == 1
    assert "Nobody can be asked here: use --yes." in capsys.readouterr().err
    report = folder / "report.md"
    keys = folder / "keys.csv"
    keys.write_text("1\n", encoding="utf-8")
    asked = [
        "erase",
        "public.items",
        "--keys",
        str(keys),
        "--yes",
        "--reference",
        "T-1",
        "--report",
        str(report),
    ]
    assert call(folder, *asked) == 0, report.read_text(encoding="utf-8")
    assert left(folder) == []
    assert [row["last_name"] for row in rows_of(config, "gold.last_names")] == ["Abel Moor"]
    text = report.read_text(encoding="utf-8")
    for line in (
        "- reference: T-1",
        "- table: shop/public.items, 1 key",
        "- files of the source: 2 rows removed from 2 files",
        "- silver_shop.items_history: 1 row removed; former commits removed",
        "- gold.last_names: recomputed; former commits removed",
        "searched for 1 value that only the erased rows had; nothing found",
    ):
        assert line in text, text
    # Everything goes on.
    assert call(folder, "sync") == 0
    capsys.readouterr()
    assert call(folder, "status") == 0
    assert "erasure" not in capsys.readouterr().out


def test_one_that_is_not_finished(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tables stay paused, `status` and `doctor` name it, and the same command finishes it."""

    def fails(*arguments: object) -> None:
        raise LakeError("no space")

    with monkeypatch.context() as broken:
        broken.setattr(erase, "_purge", fails)
        assert call(folder, "erase", "items", "1", "--yes") == 1
    capsys.readouterr()
    call(folder, "doctor")
    printed = " ".join(capsys.readouterr().out.split())
    assert "(erasure " in printed
    assert "an erasure of public.items is not finished" in printed
    assert call(folder, "erase", "items", "1", "--yes") == 0
    assert left(folder) == []
    assert call(folder, "doctor") == 0
