"""Tables in files that lake.yaml includes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets.config.config_file import ConfigError, load_lake
from lake_assets_tests.helpers.lakes.command_lake import call
from lake_assets_tests.helpers.lakes.small_lakes import write_file

TABLE = {"primary_key": ["id"], "columns": {"id": "long not null", "v": "string"}}


def lake(folder: Path, include: object, tables: dict[str, Any] | None = None) -> Path:
    """A lake.yaml whose source has these tables and includes these files."""
    source = {"location": "bronze", "dms": {"add_column_name": True}, "include": include}
    if tables is not None:
        source["tables"] = tables
    config = {"catalog": {"uri": "c.db", "warehouse": "w"}, "sources": {"shop": source}}
    (folder / "lake.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (folder / "bronze").mkdir(exist_ok=True)
    (folder / "tables").mkdir(exist_ok=True)
    return folder / "lake.yaml"


def included(folder: Path, name: str, text: str) -> None:
    (folder / "tables" / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("own", [None, {"public.a": TABLE}])
def test_the_tables_are_those_of_all_files(tmp_path: Path, own: dict[str, Any] | None) -> None:
    file = lake(tmp_path, ["tables/crm.yaml", str(tmp_path / "tables/hr.yaml")], own)
    included(tmp_path, "crm.yaml", yaml.safe_dump({"crm.b": TABLE, "crm.c": TABLE}))
    included(tmp_path, "hr.yaml", yaml.safe_dump({"hr.d": TABLE | {"description": "${WHOSE}"}}))
    found = load_lake(file, environ={"WHOSE": "mine"}).sources["shop"].tables
    assert set(found) == {*(own or {}), "crm.b", "crm.c", "hr.d"}
    assert found["hr.d"].description == "mine"


TEXT = """\
crm.b:
  primary_key: [id]
  columns:
    id: long not null
    v: MISTAKE
"""
MISTAKES = {
    "a type": (
        TEXT.replace("MISTAKE", "strin"),
        'tables/crm.yaml, line 5: sources.shop.tables["crm.b"].columns.v: ',
    ),
    "a key": (
        TEXT.replace("MISTAKE", "string") + "  primary_keys: [id]\n",
        'tables/crm.yaml, line 6: sources.shop.tables["crm.b"].primary_keys: is not a known key',
    ),
    "a missing key": (
        "crm.b:\n  columns: {id: long}\n  primary_key: [no]\n",
        'tables/crm.yaml, line 3: sources.shop.tables["crm.b"].primary_key: names no',
    ),
    "a variable": (
        TEXT.replace("MISTAKE", "${NONE_SUCH}"),
        'tables/crm.yaml, line 5: sources.shop.tables["crm.b"].columns.v: environment variable NONE_SUCH is not set',
    ),
    "the syntax": ("crm.b: [\n", "tables/crm.yaml: line 2, column 1: is not YAML"),
    "nothing": ("", "tables/crm.yaml: is empty"),
    "no mapping": ("- crm.b\n", "lake.yaml: sources.shop.include: "),
    "a table twice": (
        "public.a: {columns: {id: long}, primary_key: [id]}\n",
        'sources.shop.tables["public.a"]: is in ',
    ),
    "an include": ("include: [other.yaml]\n", "tables/crm.yaml, line 1: sources.shop.tables.include"),
    "itself": (None, "lake.yaml, line "),
    "no file": (None, "tables/none.yaml: does not exist"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_names_its_file_and_line(tmp_path: Path, kind: str) -> None:
    text, expected = MISTAKES[kind]
    name = {"itself": "lake.yaml", "no file": "tables/none.yaml"}.get(kind, "tables/crm.yaml")
    file = lake(tmp_path, [name], {"public.a": TABLE})
    if text is not None:
        included(tmp_path, "crm.yaml", text)
    with pytest.raises(ConfigError) as refused:
        load_lake(file, environ={})
    assert expected in str(refused.value).replace(f"{tmp_path}/", "")


def test_validate_and_new_know_included_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake(tmp_path, ["tables/crm.yaml"])
    included(tmp_path, "crm.yaml", TEXT.replace("MISTAKE", "string"))
    assert call(tmp_path, "validate") == 0
    write_file(tmp_path, "crm/b/LOAD00000001.csv", ["id,v,w", "1,a,b"])
    capsys.readouterr()
    assert call(tmp_path, "validate") == 2
    told = capsys.readouterr().err
    assert f'{tmp_path}/tables/crm.yaml, line 1: sources.shop.tables["crm.b"]: ' in told
    assert "has the column w" in told
    assert call(tmp_path, "new", "table", "crm.b") == 1
    assert "has crm.b already" in capsys.readouterr().err
    assert call(tmp_path, "new", "table", "crm.n") == 0
    assert "crm.n" in (tmp_path / "lake.yaml").read_text()
    assert set(load_lake(tmp_path / "lake.yaml").sources["shop"].tables) == {"crm.b"}, (
        "its columns are undecided"
    )
