"""A lake that an earlier release has written goes on with today's code, as if today's code had written it.

Here: a stored lake and the commands on it, compared with the oracle. Not here: a lake of a newer release
(`iceberg/test_lake_format.py`), what single columns of earlier releases lack (the tests of their modules).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from pyspark.sql import SparkSession

from lake_assets.config import LakeConfig
from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.iceberg.lake_format import FORMAT, FORMAT_VERSION
from lake_assets_tests.helpers.files.dms_files import DmsFile
from lake_assets_tests.helpers.lakes.bench import comparable
from lake_assets_tests.helpers.lakes.command_lake import call, rows_of
from lake_assets_tests.helpers.lakes.small_lakes import SPARK, UNSYNCED
from lake_assets_tests.helpers.oracles import oracle, oracle_shapes
from lake_assets_tests.upgrade.shop import ADDED, BAD_ROW, SCANNED, TABLES, steps, with_columns, write
from lake_assets_tests.upgrade.stored import unpacked

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SILVER = ("items", "items_history", "items_changes", "notes", "readings", "visits", "grown")


class StoredLake:
    """A stored lake with the files that have arrived so far."""

    def __init__(self, name: str, folder: Path) -> None:
        self.catalog = f"lake_{uuid4().hex[:8]}"
        self.folder = unpacked(name, folder, self.catalog)
        self.arrivals = list(steps())
        self.arrived: list[DmsFile] = []
        self.configure(ADDED[:1])

    def configure(self, added: Sequence[str]) -> None:
        """lake.yaml, with these columns of `public.grown`."""
        path = self.folder / "lake.yaml"
        config: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        for name, table in with_columns(added).items():
            config["sources"]["shop"]["tables"][name]["columns"] = dict(table["columns"])
        config["catalog"] |= {"name": self.catalog, **UNSYNCED}
        config["gold"]["marts"] = ["lake_assets_tests.upgrade.visits_by_day"]
        config["spark"] |= SPARK
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        self.columns = {
            name.partition(".")[2]: list(table["columns"]) for name, table in with_columns(added).items()
        }

    @property
    def config(self) -> LakeConfig:
        return load_lake(self.folder / "lake.yaml")

    def arrive(self, steps: int, *, there: bool = False) -> None:
        """The files of the next steps; `there`: they are in the bucket already."""
        for files in self.arrivals[:steps]:
            self.arrived += files
            if not there:
                write(self.folder / "bronze", files)
        self.arrivals = self.arrivals[steps:]

    def truth(self, name: str) -> list[str]:
        """The oracle's rows of a silver table."""
        table = name.removesuffix("_history").removesuffix("_changes")
        files = [file for file in self.arrived if file.key.startswith(f"public/{table}/")]
        columns, mode = self.columns[table], TABLES[f"public.{table}"].get("mode")
        if name.endswith("_history") or mode == "soft_delete":
            shape = oracle_shapes.soft_delete if mode else oracle_shapes.history
            return comparable(shape([files], columns, ["id"]))
        if name.endswith("_changes"):
            return comparable(oracle.change_log(files, columns))
        if mode is None:
            return comparable(oracle.current(files, columns, ["id"]))
        shapes: Mapping[str, Callable[..., Any]] = {
            "full_row": oracle.full_row,
            "append_log": oracle.append_log,
        }
        return comparable(shapes[mode](files, columns))

    def check(self, *, but: str | None = None) -> None:
        """Every silver table has the oracle's rows, `but` one, and the mart their days."""
        for name in SILVER:
            if name == but:
                continue
            assert comparable(rows_of(self.config, f"silver_shop.{name}")) == self.truth(name), name
        visits = rows_of(self.config, "silver_shop.visits")
        days = [row["at"].date() for row in visits]
        expected = {(day, days.count(day)) for day in days}
        found: set[tuple[date, int]] = {
            (row["day"], row["visits"]) for row in rows_of(self.config, "gold.visits_by_day")
        }
        assert found == expected

    def summaries(self, name: str) -> list[dict[str, str]]:
        """Those of the table's snapshots, the newest first."""
        table = open_catalog(self.config.catalog).load_table(f"silver_shop.{name}")
        found = sorted(table.snapshots(), key=lambda snapshot: snapshot.sequence_number or 0, reverse=True)
        return [dict(each.summary.additional_properties) for each in found if each.summary is not None]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> StoredLake:
    found = StoredLake("0.1.0", tmp_path)
    found.arrive(SCANNED, there=True)
    return found


def states(lake: StoredLake, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    """What `status` says of each silver table."""
    capsys.readouterr()
    call(lake.folder, "status", "--json")
    return {line["table"].partition(".")[2]: line for line in json.loads(capsys.readouterr().out)}


def test_the_stored_files_are_those_of_the_oracle(tmp_path: Path) -> None:
    """Else the comparisons show nothing."""
    found = StoredLake("0.1.0", tmp_path)
    write(tmp_path / "again", [file for files in islice(steps(), SCANNED + 1) for file in files])
    again = {str(file.relative_to(tmp_path / "again")): file for file in (tmp_path / "again").rglob("*.csv")}
    stored = {
        str(file.relative_to(found.folder / "bronze")): file
        for file in (found.folder / "bronze").rglob("*.csv")
    }
    assert stored.keys() == again.keys() | {BAD_ROW[0]}
    assert {key: stored[key].read_bytes() for key in again} == {key: again[key].read_bytes() for key in again}


def test_a_lake_of_an_earlier_release_goes_on(lake: StoredLake, capsys: pytest.CaptureFixture[str]) -> None:
    assert all(FORMAT not in each for name in SILVER for each in lake.summaries(name)), "it has no versions"
    lake.check()

    shown = states(lake, capsys)
    assert {name: line["pending_files"] for name, line in shown.items()} == dict.fromkeys(shown, 1)
    assert {name for name, line in shown.items() if line["quarantined"]} == {*SILVER[:3]}

    # What the release had logged is applied, but for a table that stops at a column that lake.yaml lacks.
    assert call(lake.folder, "sync") == 1
    lake.arrive(1, there=True)
    lake.check(but="grown")
    stopped = {name: line["reason"] for name, line in states(lake, capsys).items() if line["reason"]}
    assert [*stopped] == ["grown"]
    assert "has the column size" in stopped["grown"]

    lake.configure(ADDED)
    lake.arrive(1)
    assert call(lake.folder, "sync") == 0, capsys.readouterr().err
    lake.check()
    assert all(int(lake.summaries(name)[0][FORMAT]) == FORMAT_VERSION for name in SILVER)

    assert call(lake.folder, "maintain") == 0, capsys.readouterr().err
    lake.check()
    for name in SILVER:
        assert call(lake.folder, "rebuild", "--check", f"silver_shop.{name}") == 0, capsys.readouterr()
    assert {line["state"] for line in states(lake, capsys).values()} == {"up to date"}
    assert call(lake.folder, "quarantine", "list", "--json") == 0
    assert [row["key"] for row in json.loads(capsys.readouterr().out)] == [BAD_ROW[0]] * 3
