"""What `lake-assets validate` finds beyond the file itself: Dagster's rules, the marts' settings, the headers there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.metadata_files import SOURCE_TABLE
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets_tests.helpers.lakes.command_lake import call
from lake_assets_tests.helpers.lakes.small_lakes import DMS, ITEMS, ITEMS_HEADER, sequence, write_file

LOAD, CDC = "public/items/LOAD00000001.csv", "public/items/20260301-120100000.csv"
ROW = f"U,2026-03-01 12:00:00.000000,2,changed,2.00,2026-03-01 11:00:00.000000,{sequence(1)},"
Edit = Callable[[dict[str, Any]], None]


def lake(folder: Path, edit: Edit = lambda config: None) -> None:
    config: dict[str, Any] = {
        "catalog": {"uri": "catalog.db", "warehouse": "warehouse"},
        "sources": {
            "shop": {"location": "bronze", "dms": dict(DMS), "tables": {"public.items": dict(ITEMS)}}
        },
        "gold": {"start_date": "2026-03-01", "settings": {}},
    }
    edit(config)
    (folder / "lake.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (folder / "bronze").mkdir(exist_ok=True)


def setting(*keys: str, value: Any) -> Edit:
    def edit(config: dict[str, Any]) -> None:
        *above, last = keys
        for key in above:
            config = config.setdefault(key, {})
        config[last] = value

    return edit


TABLE = ("sources", "shop", "tables", "public.items")
MISTAKES: dict[str, tuple[Edit, str]] = {
    "an owner": (
        setting(*TABLE, "owners", value=["bob"]),
        ".tables[\"public.items\"].owners: Invalid owner 'bob'. ",
    ),
    "an owner of the source": (
        setting("sources", "shop", "owners", value=["bob"]),
        "sources.shop.owners: Invalid owner",
    ),
    "a tag": (
        setting(*TABLE, "tags", value={"a b": "c"}),
        '.tables["public.items"].tags: Found invalid tag keys',
    ),
    "a day": (setting("gold", "start_date", value="2999-01-01"), "gold.start_date: is in the future"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_what_dagster_would_refuse(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    edit, expected = MISTAKES[kind]
    lake(tmp_path, edit)
    assert call(tmp_path, "validate") == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"empty_rack_limit_minutes": "thirty"}, "empty_rack_limit_minutes: expected a whole number"),
        ({"empty_rack_limit_minutes": 0}, "empty_rack_limit_minutes: input should be greater than 0"),
        ({"empty_rack_limit_minuts": 3}, "empty_rack_limit_minuts: is not a setting of a mart; did you mean"),
        ({"mine": "thirty"}, None),
    ],
)
def test_settings_that_a_mart_cannot_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: dict[str, Any], expected: str | None
) -> None:
    def edit(config: dict[str, Any]) -> None:
        table = ITEMS | {"name": "station_status", "also": ["change_log"]}
        config["sources"] = {"bikeshare": config["sources"]["shop"] | {"tables": {"public.items": table}}}
        stations, trips = ITEMS | {"name": "stations"}, ITEMS | {"name": "trips"}
        config["sources"]["bikeshare"]["tables"] |= {"public.stations": stations, "public.trips": trips}
        config["gold"] |= {"marts": ["lake_assets.demo.marts.racks_empty_now"], "settings": given}

    lake(tmp_path, edit)
    code, told = call(tmp_path, "validate"), capsys.readouterr()
    if expected is None:
        assert code == 0, told.err
    else:
        assert code == 2
        assert f"gold.settings.{expected}" in told.err


HEADERS: dict[str, tuple[str, str, str]] = {
    "a sequence": (
        "change_sequence_column",
        "chnage_seq",
        f"names chnage_seq, which {CDC} does not have; did you mean change_seq?",
    ),
    "another sequence": ("change_sequence_column", "zzz", "; lake.yaml does not know its change_seq"),
    "a time": (
        "timestamp_column_name",
        "commit_time",
        f"names commit_time, which {CDC} does not have; did you mean commit_ts?",
    ),
    "an operation": ("operation_column", "Opp", f"is Opp, which {CDC} does not have; did you mean Op?"),
    "a before image": (
        "before_image_prefix",
        "BEFORE_",
        f"is BEFORE_, with which no column of {CDC} begins; did you mean BI_?",
    ),
}


@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("kind", HEADERS)
def test_a_misspelt_column_of_dms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, logged: bool
) -> None:
    name, value, expected = HEADERS[kind]
    lake(tmp_path)
    write_file(tmp_path, CDC, [ITEMS_HEADER, ROW])
    assert call(tmp_path, "validate") == 0, "as it should be"
    if logged:
        log_arrivals(open_lake(load_lake(tmp_path / "lake.yaml")).runtime, "shop")
        assert call(tmp_path, "validate") == 0
    lake(tmp_path, setting("sources", "shop", "dms", name, value=value))
    capsys.readouterr()
    assert call(tmp_path, "validate") == 2
    told = capsys.readouterr().err
    assert f"sources.shop.dms.{name}: " in told
    assert expected in told


def test_a_column_that_is_still_to_come_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The task's mapping adds it from the next file on."""
    lake(tmp_path)
    header = ITEMS_HEADER.replace(",change_seq", "")
    write_file(tmp_path, CDC, [header, "U,2026-03-01 12:00:00.000000,2,x,2.00,2026-03-01 11:00:00.000000,"])
    assert call(tmp_path, "validate") == 0
    assert f"change_sequence_column names change_seq, which {CDC} does not have" in capsys.readouterr().err


@pytest.mark.parametrize("logged", [False, True])
def test_it_refuses_a_column_that_a_run_would_stop_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], logged: bool
) -> None:
    lake(tmp_path)
    path = tmp_path / "bronze" / CDC.replace(".csv", ".parquet")
    path.parent.mkdir(parents=True)
    columns = {
        "Op": "U",
        "commit_ts": "2026-03-01 12:00:00.000000",
        "id": 1,
        "_pos": 1,
        "change_seq": sequence(1),
    }
    pq.write_table(pa.table({name: [value] for name, value in columns.items()}), path)
    if logged:
        log_arrivals(open_lake(load_lake(tmp_path / "lake.yaml")).runtime, "shop")
    assert call(tmp_path, "validate") == 2
    told = capsys.readouterr().err
    assert "has the column _pos, which is a name that Iceberg reserves" in told
    lake(tmp_path, setting(*TABLE, "ignore", value=["_pos"]))
    assert call(tmp_path, "validate") == 0


def test_it_leaves_no_catalog_behind(tmp_path: Path) -> None:
    lake(tmp_path)
    assert call(tmp_path, "validate") == 0
    assert not (tmp_path / "catalog.db").exists()


ODD = {"_pos": "reserves", "ID": "only in case", "": "an empty name", "_op": "that change_log adds"}
"""Columns of Parquet files that silver cannot have, with a part of the reason."""
EARLIER, LATER = "20260301-120000000", "20260302-120000000"


def put_parquet(folder: Path, table: str, name: str, *more: str) -> None:
    """A file with one change, and these further columns."""
    row = {"Op": ["I"], "commit_ts": ["2026-03-01 12:30:00"], "id": [1]} | {column: ["x"] for column in more}
    path = folder / "bronze" / "public" / table / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = [pa.array(values) for values in row.values()]
    pq.write_table(pa.Table.from_arrays(arrays, names=list(row)), path)


def odd_lake(folder: Path) -> None:
    """A table for each of ODD, whose older file has that column, and its newest one does not; and a mart that is
    none."""

    def edit(config: dict[str, Any]) -> None:
        table = {
            "columns": {"id": "long not null"},
            "primary_key": ["id"],
            "full_load_complete": "immediately",
        }
        tables = {f"public.t{place}": table | {"also": ["change_log"]} for place, _ in enumerate(ODD)}
        config["sources"]["shop"]["tables"] = tables
        config["sources"]["shop"]["dms"] = {"data_format": "parquet", "timestamp_column_name": "commit_ts"}
        config["gold"]["marts"] = ["no_mart.py"]

    lake(folder, edit)
    (folder / "no_mart.py").write_text("x = 1\n")
    for place, column in enumerate(ODD):
        put_parquet(folder, f"t{place}", EARLIER, column)
        put_parquet(folder, f"t{place}", LATER)


@pytest.mark.parametrize("logged", [False, True])
def test_all_that_sync_would_refuse_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], logged: bool
) -> None:
    """Columns of all pending files, not of the newest ones only, beside a mart that does not fit."""
    odd_lake(tmp_path)
    if logged:
        config = load_lake(tmp_path / "lake.yaml")
        log_arrivals(open_lake(config, marts=()).runtime, "shop")
    assert call(tmp_path, "validate") == 2
    told = capsys.readouterr().err
    assert "no_mart.py cannot be used as a mart" in told
    for place, (column, reason) in enumerate(ODD.items()):
        (line,) = (line for line in told.splitlines() if f'tables["public.t{place}"]' in line)
        assert f"{EARLIER}.parquet has the column {column or chr(34) * 2}, which" in line
        assert reason in line
    assert (tmp_path / "catalog.db").exists() is logged, "it writes nothing"


def test_changes_that_a_full_load_supersedes_are_not_refused(tmp_path: Path) -> None:
    """As `sync`, which leaves them out."""
    odd_lake(tmp_path)
    config = yaml.safe_load((tmp_path / "lake.yaml").read_text(encoding="utf-8"))
    config["gold"]["marts"] = []
    config["sources"]["shop"]["tables"] = {
        "public.t0": {"columns": {"id": "long not null"}, "primary_key": ["id"]}
    }
    (tmp_path / "lake.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    assert call(tmp_path, "validate") == 2
    put_parquet(tmp_path, "t0", "LOAD00000001")
    assert call(tmp_path, "validate") == 0


def test_names_of_tables_that_are_swapped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def edit(config: dict[str, Any]) -> None:
        tables = config["sources"]["shop"]["tables"]
        tables["public.items"] = tables["public.items"] | {"name": "others"}
        tables["public.others"] = dict(ITEMS) | {"name": "items"}

    lake(tmp_path, edit)
    write_file(tmp_path, CDC, [ITEMS_HEADER, ROW])
    runtime = open_lake(load_lake(tmp_path / "lake.yaml")).runtime
    log_arrivals(runtime, "shop")
    runtime.catalog.create_namespace("silver_shop")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    for name in ("items", "others"):
        owner = {SOURCE_TABLE: f"shop/public.{name}"}
        runtime.catalog.create_table(f"silver_shop.{name}", schema, properties=owner)
    assert call(tmp_path, "validate") == 2
    told = capsys.readouterr().err
    assert "silver_shop.others has the rows of shop/public.others, and lake.yaml gives its name" in told
    assert "silver_shop.items has the rows of shop/public.items, and lake.yaml gives its name" in told
