"""Reading lake.yaml: variables, relative paths, and what a person reads who made mistakes in it."""

from pathlib import Path

import pytest

from lake_assets.config.config_file import ConfigError, lake_path, load_lake
from lake_assets_tests.helpers.texts.lake_text import GOOD, table

# --- a good file


def test_defaults_and_values_arrive(load):
    lake = load(GOOD)
    trips = lake.sources["bikeshare"].tables["public.trips"]
    assert [(c.name, c.type, c.required) for c in trips.columns] == [
        ("trip_id", "long", True),
        ("fare", "decimal(10, 2)", False),
    ]
    assert lake.sources["bikeshare"].dms.csv_null_value == "NULL"
    assert lake.gold.start_date.isoformat() == "2026-01-01"


def test_catalog_keeps_keys_for_the_clients(load):
    lake = load(GOOD.replace("type: sqlite", "type: sqlite\n  s3.path-style-access: true\n  pool_size: 3"))
    assert lake.catalog.properties == {"s3.path-style-access": "true", "pool_size": "3"}


def test_byte_order_mark_is_no_mistake(load):
    assert load(b"\xef\xbb\xbf" + GOOD.encode())


def test_values_are_yaml_1_2_and_keys_are_names(load):
    lake = load(
        GOOD.replace("fare: decimal(10, 2)", "no: string\n          on: date\n          2024: int").replace(
            "gold:",
            "gold:\n  settings: {at: 12:30, country: no, n: 0o17, h: 0xff, z: 010, f: 1e3, t: true, q: '1'}",
        )
    )
    columns = lake.sources["bikeshare"].tables["public.trips"].columns
    assert [c.name for c in columns] == ["trip_id", "no", "on", "2024"]
    expected = {"at": "12:30", "country": "no", "n": 15, "h": 255, "z": 10, "f": 1000.0, "t": True, "q": "1"}
    assert lake.gold.settings == expected


def test_aliases_and_merges(load):
    lake = load(
        table(
            """        &trips
        primary_key: [trip_id]
        columns: {trip_id: long}
        owners: [team:rides]
      public.rides:
        <<: *trips
        owners: [team:other]
"""
        ).replace("public.trips:\n        &trips", "public.trips: &trips")
    )
    rides = lake.sources["bikeshare"].tables["public.rides"]
    assert rides.primary_key == ("trip_id",)
    assert rides.owners == ("team:other",)


def test_the_first_of_several_merged_mappings_wins(load):
    lake = load(GOOD + "  settings: {a: &a {x: 1, y: 1}, b: &b {x: 2, z: 2}, c: {<<: [*a, *b], y: 3}}\n")
    assert lake.gold.settings["c"] == {"x": 1, "y": 3, "z": 2}


# --- which file


def test_path_then_variable_then_working_directory():
    assert lake_path(Path("a.yaml"), environ={"LAKE_CONFIG": "b.yaml"}) == Path("a.yaml")
    assert lake_path(environ={"LAKE_CONFIG": "b.yaml"}) == Path("b.yaml")
    assert lake_path(environ={"LAKE_CONFIG": ""}) == Path("lake.yaml")


def test_variable_of_the_process_is_used(tmp_path, monkeypatch):
    (tmp_path / "other.yaml").write_text(GOOD)
    monkeypatch.setenv("LAKE_CONFIG", str(tmp_path / "other.yaml"))
    monkeypatch.setenv("LAKE_HOME", "/somewhere")
    assert load_lake().catalog.warehouse == "/somewhere/warehouse"


# --- variables


@pytest.mark.parametrize(
    ("written", "environ", "expected"),
    [
        ("${A}", {"A": "x"}, "x"),
        ("${A}${B:-y}", {"A": "x"}, "xy"),
        ("${A:-y}", {"A": ""}, "y"),
        ("${A:-a:b/$c}", {}, "a:b/$c"),
        ("$${A}", {"A": "x"}, "${A}"),
        ("$A $ 5$", {"A": "x"}, "$A $ 5$"),
        ("${A}", {"A": "${B}", "B": "not again"}, "${B}"),
        ("${A}", {"A": "x\nfoo: bar # [no] {yaml}"}, "x\nfoo: bar # [no] {yaml}"),
        ("${A:-}", {}, None),
        ("${A:-}", {"A": "x"}, "x"),
        ("x${A:-}", {}, "x"),
    ],
)
def test_substitution(load, written, environ, expected):
    lake = load(GOOD.replace("start_date", f"settings: {{value: '{written}'}}\n  start_date"), **environ)
    assert lake.gold.settings["value"] == expected


def test_substituted_numbers_and_booleans_are_understood(load):
    text = GOOD + "automation: {apply_threads: '${THREADS}', poll_interval: '${WINDOW:-2s}'}\n"
    assert load(text, THREADS="7").automation.apply_threads == 7


def test_missing_variable_is_named_with_its_key(refusal):
    text = GOOD.replace("${LAKE_HOME:-.lake}/catalog.db", "${LAKE_DB}")
    expected = "environment variable LAKE_DB is not set; export it, or write ${LAKE_DB:-a default}"
    assert refusal(text) == [f"catalog.uri: {expected}"]


def test_missing_variable_is_the_only_complaint_about_its_key(refusal):
    text = GOOD + "automation: {apply_threads: '${THREADS}'}\n"
    assert refusal(text) == [
        "automation.apply_threads: environment variable THREADS is not set; export it, or write ${THREADS:-a default}"
    ]


@pytest.mark.parametrize("written", ["${", "${A", "${A-b}", "${1A}", "${}", "${A:-${B}}", "${A:=b}", "${Ä}"])
def test_malformed_variable(refusal, written):
    (line,) = refusal(GOOD.replace("name: lake", f"name: 'lake{written}'"), A="x", B="y")
    assert line == "catalog.name: write ${NAME} or ${NAME:-default} for a variable, or $${ for a literal ${"


def test_variables_in_lists_have_an_index(refusal):
    (line,) = refusal(GOOD + "  marts: [a, '${MART}']\n")
    assert line.startswith("gold.marts[1]: environment variable MART ")


# --- relative paths


def test_paths_are_relative_to_the_file(load, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    lake = load(GOOD)
    assert lake.catalog.uri is not None
    assert lake.catalog.uri.get_secret_value() == str(tmp_path / ".lake/catalog.db")
    assert lake.catalog.warehouse == str(tmp_path / ".lake/warehouse")
    assert lake.sources["bikeshare"].location == str(tmp_path / ".lake/bronze")


def test_a_relative_file_gives_absolute_paths(tmp_path, monkeypatch):
    (tmp_path / "lake.yaml").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    assert load_lake(environ={"LAKE_HOME": "../x"}).catalog.warehouse == str(tmp_path.parent / "x/warehouse")


def test_a_linked_file_stays_where_the_link_is(tmp_path):
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "lake.yaml").write_text(GOOD)
    (tmp_path / "lake.yaml").symlink_to(tmp_path / "mounted" / "lake.yaml")
    assert load_lake(tmp_path / "lake.yaml", environ={}).catalog.warehouse == str(
        tmp_path / ".lake/warehouse"
    )


@pytest.mark.parametrize("location", ["s3://bucket/prefix", "/srv/lake", "file:///srv/lake"])
def test_addresses_and_absolute_paths_stay(load, location):
    assert (
        load(GOOD.replace("${LAKE_HOME:-.lake}/bronze", location)).sources["bikeshare"].location == location
    )


def test_home_folder(load, monkeypatch):
    monkeypatch.setenv("HOME", "/somebody")
    assert load(GOOD, LAKE_HOME="~/lake").catalog.warehouse == "/somebody/lake/warehouse"


@pytest.mark.parametrize(
    ("kind", "uri", "warehouse", "resolved"),
    [
        ("jdbc", "jdbc:postgresql://db/lake", "wh", True),
        ("rest", "http://catalog:8181", "wh", False),
        ("glue", "arn:x", "wh", False),
    ],
)
def test_identifiers_of_other_catalogs_stay(load, tmp_path, kind, uri, warehouse, resolved):
    head = f"catalog: {{type: {kind}, uri: '{uri}', warehouse: {warehouse}}}\n"
    catalog = load(head + GOOD[GOOD.index("sources:") :]).catalog
    assert catalog.uri is not None
    assert catalog.uri.get_secret_value() == uri
    assert catalog.warehouse == (str(tmp_path / warehouse) if resolved else warehouse)


# --- the file itself is wrong


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty; it needs the keys catalog, sources and gold"),
        ("# only a comment\n", "is empty; it needs the keys catalog, sources and gold"),
        ("- a\n- b\n", "must be a mapping with the keys catalog, sources and gold"),
        ("hello", "must be a mapping with the keys catalog, sources and gold"),
        ("null", "must be a mapping with the keys catalog, sources and gold"),
        (b"a: 1\nb: \xff\n", "line 2: is not UTF-8, save it in that encoding"),
        ("a: 1\nb: \x07\n", "line 2: is not YAML: it contains a control character"),
        ("a: [1,\nb: 2\n", "line 3, column 1: is not YAML: "),
        ("a: b: c\n", "line 1, column 5: is not YAML: mapping values are not allowed here"),
        (
            "a: 1\n\tb: 2\n",
            "line 2, column 1: is not YAML: found character '\\t' that cannot start any token",
        ),
        ("a: 1\n---\nb: 2\n", "line 2, column 1: is not YAML: but found another document"),
    ],
)
def test_unreadable_text(refusal, text, expected):
    (line,) = refusal(text)
    assert line.startswith(expected)


def test_missing_file_says_how_to_name_another(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_lake(tmp_path / "nope.yaml")
    expected = f"{tmp_path / 'nope.yaml'}: does not exist; name another file with --config or LAKE_CONFIG"
    assert str(caught.value) == expected


def test_folder_instead_of_a_file(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_lake(tmp_path)


def test_file_without_permission(tmp_path, monkeypatch):
    def denied(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        load_lake(tmp_path / "lake.yaml")
