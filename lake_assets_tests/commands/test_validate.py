"""What `lake-assets validate` finds beyond the file itself: Dagster's rules, the marts' settings, the headers there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from lake_assets.config.config_file import load_lake
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
