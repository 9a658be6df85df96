"""The models of a source, its DMS endpoint and its bucket: what is accepted, what is refused in which words."""

import pytest
from pydantic import ValidationError

from lake_assets.config import (
    DmsSettings,
    DmsTask,
    Mode,
    S3Config,
)
from lake_assets_tests.helpers.texts.sections import source

TASK = "arn:aws:dms:eu-central-1:123456789012:task:ABC"


def test_the_task_that_says_when_a_full_load_is_complete():
    tables = {
        "public.a": {"full_load_complete": "dms"},
        "public.b": {"dms_task": {"arn": TASK.replace("ABC", "DEF"), "region": "eu-west-1"}},
    }
    found = source(tables, dms_task=TASK)
    tasks = [found.task(table) for table in ("public.a", "public.b")]
    assert [task and (task.arn[-3:], task.effective_region) for task in tasks] == [
        ("ABC", "eu-central-1"),
        ("DEF", "eu-west-1"),
    ]
    assert source({"public.a": {}}).task("public.a") is None


def test_the_keys_of_a_task_are_secrets():
    task = DmsTask(arn=TASK, access_key_id="an-id", secret_access_key="a-secret")
    assert "a-secret" not in repr(task)
    with pytest.raises(ValidationError, match="go together"):
        DmsTask(arn=TASK, access_key_id="an-id")


@pytest.mark.parametrize(
    ("tables", "settings", "reason"),
    [
        (
            {"public.a": {"full_load_complete": "dms"}},
            {},
            "public.a.full_load_complete: is dms, which needs dms_task",
        ),
        ({"public.a": {}}, {"dms_task": "my-task"}, "'my-task' is not the ARN of a replication task"),
        ({"public.a": {}}, {"dms_task": TASK.replace("task:", "replication-config:")}, "serverless"),
        ({"public.a": {"on_vanished": "delete"}}, {}, "'keep', 'truncate' or 'drop'"),
    ],
)
def test_no_task(tables, settings, reason):
    with pytest.raises(ValidationError) as caught:
        source(tables, **settings)
    assert reason in str(caught.value)


# --- sources


def test_source():
    found = source(
        {"public.Trips": {"also": ["change_log"]}, "sales.trips": {"name": "sold"}},
        dms={"timestamp_column_name": "t"},
    )
    assert list(found.tables) == ["public.Trips", "sales.trips"]
    assert found.tables["public.Trips"].also == (Mode.CHANGE_LOG,)


@pytest.mark.parametrize(
    ("tables", "settings", "reason"),
    [
        ({}, {}, "at least 1 item"),
        ({"trips": {}}, {}, "is not schema.table, as in public.trips"),
        ({"a.b.c": {}}, {}, "is not schema.table, as in public.c"),
        ({".trips": {}}, {}, "is not schema.table"),
        ({"public.": {}}, {}, "is not schema.table"),
        (
            {"public.my trips": {}},
            {},
            "its silver name 'my trips' must be lower case letters, digits and _; set name:",
        ),
        ({"public.trips": {"name": "Trips"}}, {}, "its silver name 'Trips'"),
        ({"a.t": {}, "b.T": {}}, {}, "both this table and a.t become t; give one of them a name:"),
        (
            {"a.t": {"also": ["change_log"]}, "a.t_changes": {}},
            {"dms": {"timestamp_column_name": "c"}},
            "both this table and a.t become t_changes",
        ),
        (
            {"a.t": {"also": ["change_log", "history"]}, "b.t_history": {}},
            {"dms": {"timestamp_column_name": "c"}},
            "both this table and a.t become t_history",
        ),
        (
            {"a.t": {}},
            {"dms": {"timestamp_column_name": "at"}},
            "column at has the name of a column that DMS adds",
        ),
        (
            {"a.t": {}},
            {"dms": {"change_sequence_column": "id"}},
            "column id has the name of a column that DMS adds",
        ),
        (
            {"a.t": {"columns": {"id": "long", "Op": "string"}}},
            {},
            "column Op has the name of a column that DMS adds",
        ),
        ({"a.t": {"also": ["change_log"]}}, {}, "a change log needs dms.timestamp_column_name"),
        ({"a.t": {"mode": "change_log"}}, {}, "a change log needs dms.timestamp_column_name"),
        ({"a.t": {"also": ["history"]}}, {}, "history needs dms.timestamp_column_name"),
        ({"a.t": {"mode": "soft_delete"}}, {}, "soft_delete needs dms.timestamp_column_name"),
        ({"a.t": {}}, {"location": ""}, "at least 1 character"),
    ],
)
def test_no_source(tables, settings, reason):
    with pytest.raises(ValidationError) as caught:
        source(tables, **settings)
    assert reason in str(caught.value)


def test_dms_defaults_are_those_of_dms():
    settings = DmsSettings()
    assert (settings.csv_delimiter, settings.csv_null_value, settings.rfc_4180) == (",", "NULL", True)
    assert not settings.add_column_name
    assert not settings.include_op_for_full_load
    assert settings.timestamp_column_name is None


@pytest.mark.parametrize(
    "settings",
    [
        {"csv_delimiter": "||"},
        {"csv_delimiter": ""},
        {"data_format": "orc"},
        {"compression_type": "zstd"},
        {"timestamp_zone": "Mars/Olympus"},
        {"timestamp_zone": "Europe"},
        {"timestamp_zone": "../etc/passwd"},
        {"timestamp_zone": ""},
        {"timestamp_column_name": ""},
        {"change_sequence_column": ""},
        {"before_image_prefix": ""},
        {"date_partition_delimiter": "dot"},
    ],
)
def test_no_dms_settings(settings):
    with pytest.raises(ValidationError):
        DmsSettings.model_validate(settings)


def test_dms_spells_some_values_in_capitals():
    found = DmsSettings.model_validate(
        {"date_partition_sequence": "YYYYMMDDHH", "date_partition_delimiter": "SLASH"}
    )
    assert (found.date_partition_sequence, found.date_partition_delimiter) == ("yyyymmddhh", "slash")


@pytest.mark.parametrize(
    "settings", [{}, {"access_key_id": "a", "secret_access_key": "b"}, {"region": "eu-west-1"}]
)
def test_s3(settings):
    found = S3Config.model_validate(settings)
    assert found.region == settings.get("region")


@pytest.mark.parametrize(
    "settings", [{"access_key_id": "a"}, {"secret_access_key": "b"}, {"path_style": "maybe"}]
)
def test_no_s3(settings):
    with pytest.raises(ValidationError):
        S3Config.model_validate(settings)
