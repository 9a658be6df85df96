"""The models of lake.yaml: what is accepted, what it becomes, what is refused and in which words."""

from datetime import date, timedelta

import pytest
from pydantic import TypeAdapter, ValidationError

from lake_assets.config import (
    AutomationConfig,
    CatalogConfig,
    Column,
    Duration,
    FullLoadComplete,
    GoldConfig,
    LakeConfig,
    MaintenanceConfig,
    SparkConfig,
    TableConfig,
    did_you_mean,
    parse_column,
)
from lake_assets_tests.helpers.texts.sections import COLUMNS, table

DURATION = TypeAdapter(Duration)


# --- durations


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("2h", 7200),
        ("1d", 86400),
        ("250ms", 0.25),
        ("0.5s", 0.5),
        (" 5 m ", 300),
        (7, 7),
    ],
)
def test_duration(written, seconds):
    assert DURATION.validate_python(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "written", ["", "5", "m", "5 minutes", "-5m", "1h30m", "PT5M", -1, True, float("inf"), None]
)
def test_no_duration(written):
    with pytest.raises(ValidationError):
        DURATION.validate_python(written)


# --- columns


@pytest.mark.parametrize(
    ("declared", "type_name", "required"),
    [
        ("long", "long", False),
        ("LONG NOT NULL", "long", True),
        ("  timestamptz   not  null ", "timestamptz", True),
        ("decimal(10,2)", "decimal(10, 2)", False),
        ("Decimal( 38 , 38 ) not null", "decimal(38, 38)", True),
    ],
)
def test_column(declared, type_name, required):
    assert parse_column("x", declared) == Column(name="x", type=type_name, required=required)


@pytest.mark.parametrize(
    "declared",
    [
        "",
        "bigint",
        "varchar(20)",
        "decimal",
        "decimal(0, 0)",
        "decimal(39, 0)",
        "decimal(4, 5)",
        "long null",
        None,
        7,
    ],
)
def test_no_column(declared):
    with pytest.raises(ValueError, match=r"is not a type|needs 1 to 38 digits"):
        parse_column("x", declared)


def test_columns_keep_the_order_of_the_source():
    assert [column.name for column in table().columns] == ["id", "at", "day", "name"]


def test_columns_survive_a_round_trip():
    assert TableConfig.model_validate(table().model_dump()) == table()


# --- tables

PARTITIONED = {**COLUMNS, "price": "decimal(9, 2)", "active": "boolean", "ratio": "double"}


@pytest.mark.parametrize(
    "entry",
    [
        "day(at)",
        "hour(at)",
        "month(day)",
        "year(at)",
        "bucket(16, id)",
        "bucket(4,name)",
        "truncate(3, name)",
        "truncate(10, price)",
        "name",
        "active",
    ],
)
def test_partition(entry):
    assert table(columns=PARTITIONED, partition_by=[entry]).partition_by == (entry,)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("days(at)", "is not a partition transform"),
        ("bucket(id, 16)", "is not a partition transform"),
        ("bucket(0, id)", "is not a partition transform"),
        ("bucket(16", "; quote one with a comma"),
        ("day(att)", "names att, which columns does not have; did you mean at?"),
        ("other", "names other, which columns does not have"),
        ("day(name)", "needs a column of type timestamp or timestamptz or date, and name is of type string"),
        ("hour(day)", "needs a column of type timestamp or timestamptz, and day is of type date"),
        ("ratio", "and ratio is of type double"),
        ("bucket(4, ratio)", "and ratio is of type double"),
        ("bucket(4, active)", "and active is of type boolean"),
        ("truncate(3, at)", "and at is of type timestamp"),
    ],
)
def test_no_partition(entry, reason):
    with pytest.raises(ValidationError, match="partition") as caught:
        table(columns=PARTITIONED, partition_by=[entry])
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "append_log", "primary_key": []},
        {"mode": "change_log", "primary_key": []},
        {"mode": "current", "also": ["change_log"]},
        {"mode": "append_log", "also": ["change_log"]},
        {"primary_key": ["id", "name"]},
        {"format_version": 2},
        {"mode": "soft_delete", "also": ["history", "change_log"]},
        {"mode": "change_log", "also": ["history"]},
    ],
)
def test_table(settings):
    assert [column.name for column in table(**settings).columns] == list(COLUMNS)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"primary_key": []}, "a table without one cannot be kept current"),
        (
            {"primary_key": [], "mode": "append_log", "also": ["history"]},
            "a table without one cannot be kept as history",
        ),
        ({"primary_key": [], "mode": "soft_delete"}, "cannot be kept as soft_delete"),
        ({"keep_history": "400d"}, "the table has no history and no change_log: add one to also"),
        ({"also": ["soft_delete"]}, "soft_delete is no further shape of a table with mode: current"),
        (
            {"mode": "history", "also": ["history"]},
            "history is no further shape of a table with mode: history",
        ),
        (
            {"columns": {"id": "long", "_Valid_to": "string"}, "also": ["history"]},
            "has the name of a column that history adds",
        ),
        ({"primary_key": ["ID"]}, "names ID, which columns does not have; did you mean id?"),
        ({"primary_key": ["id", "id"]}, "names the same thing twice"),
        ({"also": ["append_log"]}, "append_log is no further shape of a table with mode: current"),
        (
            {"mode": "change_log", "also": ["change_log"]},
            "change_log is no further shape of a table with mode: change_log",
        ),
        ({"also": ["change_log", "change_log"]}, "names the same thing twice"),
        ({"columns": {}}, "names no column"),
        ({"columns": {"id": "long", "ID": "long"}}, "differs from id only in case"),
        ({"columns": {"id": "long", "_Deleted": "int"}}, "a name that Iceberg reserves"),
        ({"columns": {"id": "long", "": "long"}}, "at least 1 character"),
        ({"mode": "upsert"}, "'current', 'soft_delete', 'history', 'full_row', 'append_log' or 'change_log'"),
        ({"format_version": 1}, "2 or 3"),
        ({"primary_kye": ["id"]}, "Extra inputs are not permitted"),
    ],
)
def test_no_table(settings, reason):
    with pytest.raises(ValidationError) as caught:
        table(**settings)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("written", "when", "quiet"),
    [
        ("first_cdc", "first_cdc", 300),
        ("immediately", "immediately", 300),
        ({"quiet_period": "90s"}, "quiet_period", 90),
        ({"when": "first_cdc", "quiet": "1h"}, "first_cdc", 3600),
        ("dms", "dms", 300),
    ],
)
def test_full_load_complete(written, when, quiet):
    found = FullLoadComplete.model_validate(written)
    assert (found.when, found.quiet) == (when, timedelta(seconds=quiet))


@pytest.mark.parametrize(
    "written", ["soon", {"quiet_period": "soon"}, {"quiet_period": "5m", "when": "dms"}, 5]
)
def test_no_full_load_complete(written):
    with pytest.raises(ValidationError):
        FullLoadComplete.model_validate(written)


# --- catalog


def test_catalog_hides_what_may_be_secret():
    catalog = CatalogConfig.model_validate(
        {
            "type": "jdbc",
            "uri": "jdbc:x?password=hunter2",
            "warehouse": "w",
            "token": "hunter3",
            "cache": False,
        }
    )
    assert catalog.properties == {"token": "hunter3", "cache": "false"}
    assert "hunter" not in repr(catalog) + str(catalog)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"warehouse": "w"}, "uri: is missing; a catalog of type sqlite needs it"),
        ({"warehouse": "w", "type": "rest"}, "uri: is missing; a catalog of type rest needs it"),
        ({"warehouse": "w", "type": "hive"}, "'sqlite', 'jdbc', 'glue' or 'rest'"),
        ({"warehouse": "w", "type": "glue", "name": "my-lake"}, "'my-lake' is part of table names in SQL"),
        ({"warehouse": "w", "type": "glue", "conf": {"a": 1}}, "valid string"),
        ({"warehouse": "", "uri": "u"}, "at least 1 character"),
    ],
)
def test_no_catalog(settings, reason):
    with pytest.raises(ValidationError) as caught:
        CatalogConfig.model_validate(settings)
    assert reason in str(caught.value)


def test_glue_needs_no_uri():
    assert CatalogConfig.model_validate({"type": "glue", "warehouse": "s3://b/w"}).uri is None


def test_no_model_quotes_its_input():
    with pytest.raises(ValidationError) as caught:
        LakeConfig.model_validate({"catalog": {"uri": ["hunter2"], "type": "hunter3"}, "sources": "hunter4"})
    assert "hunter" not in str(caught.value)


# --- the rest


def test_spark_shows_instants_in_utc_only():
    zone = "spark.sql.session.timeZone"
    assert SparkConfig.model_validate({"conf": {zone: "UTC"}}).conf == {zone: "UTC"}
    with pytest.raises(
        ValidationError, match="the days of silver's partitions and of the marts are UTC days"
    ):
        SparkConfig.model_validate({"conf": {zone: "Europe/Berlin"}})


@pytest.mark.parametrize(
    "settings",
    [
        {"poll_interval": "0s"},
        {"max_files_per_batch": 0},
        {"apply_threads": 0},
    ],
)
def test_no_automation(settings):
    with pytest.raises(ValidationError):
        AutomationConfig.model_validate(settings)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"remove_orphan_files_after": "23h"}, "must be at least 1d: what a running batch has written"),
        ({"keep_superseded_files": "23h"}, "must be at least 1d: a late part of a full load"),
        ({"keep_snapshot": "1h"}, "Extra inputs are not permitted"),
    ],
)
def test_no_maintenance(given, told):
    with pytest.raises(ValidationError, match=told):
        MaintenanceConfig.model_validate(given)


def test_maintenance():
    assert MaintenanceConfig().remove_orphan_files_after == timedelta(days=3)
    assert (
        MaintenanceConfig.model_validate({"remove_orphan_files_after": None}).remove_orphan_files_after
        is None
    )
    found = MaintenanceConfig.model_validate({"keep_snapshots": "1h", "remove_orphan_files_after": "1d"})
    assert (found.keep_snapshots, found.remove_orphan_files_after) == (timedelta(hours=1), timedelta(days=1))
    assert MaintenanceConfig().keep_superseded_files is None, "off unless asked for"
    found = MaintenanceConfig.model_validate({"keep_superseded_files": "1d"})
    assert found.keep_superseded_files == timedelta(days=1)


def test_gold_takes_dates_as_text():
    assert GoldConfig.model_validate({"start_date": "2026-01-31"}).start_date == date(2026, 1, 31)


@pytest.mark.parametrize(
    ("name", "accepted"),
    [("bikeshare", True), ("_x1", True), ("Bike", False), ("bike-share", False), ("1a", False)],
)
def test_source_names_become_namespaces(name, accepted):
    tables = {"a.t": {"columns": {"id": "long"}, "primary_key": ["id"]}}
    lake = {
        "catalog": {"uri": "u", "warehouse": "w"},
        "sources": {name: {"location": "b", "tables": tables}},
        "gold": {"start_date": "2026-01-01"},
    }
    if accepted:
        assert list(LakeConfig.model_validate(lake).sources) == [name]
    else:
        with pytest.raises(ValidationError, match="lower case letters, digits and _ only"):
            LakeConfig.model_validate(lake)


def test_models_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        table().name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("primary_kye", ["primary_key", "mode"], "; did you mean primary_key?"),
        ("TRIP_ID", ["trip_id"], "; did you mean trip_id?"),
        ("xyz", ["primary_key"], ""),
        ("x", [], ""),
    ],
)
def test_suggestions(name, known, expected):
    assert did_you_mean(name, known) == expected


def test_the_catalog_and_its_sources_are_enough():
    lake = LakeConfig.model_validate(
        {
            "catalog": {"name": "lake", "type": "sqlite", "uri": "catalog.db", "warehouse": "warehouse"},
            "spark": {
                "mode": "embedded",
                "remote": "sc://localhost:15002",
                "conf": {"spark.driver.memory": "4g"},
            },
            "sources": {
                "bikeshare": {
                    "location": "bronze",
                    "dms": {
                        "preserve_transactions": False,
                        "date_partition_enabled": False,
                        "timestamp_zone": "UTC",
                    },
                    "tables": {"public.trips": {"primary_key": ["id"], "columns": {"id": "long not null"}}},
                }
            },
        }
    )
    assert lake.gold.marts == ()
    assert lake.gold.start_date <= date(2024, 1, 1)


def test_what_of_spark_may_be_secret_is_hidden():
    remote = "sc://spark.example:443/;use_ssl=true;token=hush"
    spark = SparkConfig.model_validate({"remote": remote, "conf": {"spark.hadoop.fs.s3a.secret.key": "hush"}})
    assert spark.address == "sc://spark.example:443"
    assert "hush" not in repr(spark)
    assert "spark.hadoop.fs.s3a.secret.key" in repr(spark)
    assert spark.conf == {"spark.hadoop.fs.s3a.secret.key": "hush"}
