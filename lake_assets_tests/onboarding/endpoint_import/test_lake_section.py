"""What DMS's documents become in lake.yaml: settings, tables, and what is left undecided."""

import json
from pathlib import Path
from typing import Any

import pytest

from lake_assets.config.config_file import ConfigError, load_lake
from lake_assets_tests.helpers.texts.dms_documents import (
    BEFORE,
    ENDPOINT,
    SEQUENCE,
    SOURCE_ENDPOINT,
    TARGET_ARN,
    TASK_SETTINGS,
    dms,
    endpoint,
    lake,
    locator,
    section,
    select,
    task,
    transform,
)


def test_a_task_and_its_endpoints(tmp_path: Path) -> None:
    rules = [select("public", "orders"), select("public", "order[_]lines"), SEQUENCE, BEFORE]
    text = section({"Endpoints": [SOURCE_ENDPOINT, ENDPOINT]}, {"ReplicationTasks": [task(*rules)]})
    sources = lake(text, tmp_path)
    assert list(sources) == ["shop_lake"]
    assert sources["shop_lake"].location == "s3://lake-bucket/raw/shop"
    assert list(sources["shop_lake"].tables) == ["public.orders", "public.order_lines"]
    assert dms(text, tmp_path) == {
        "compression_type": "gzip",
        "add_column_name": True,
        "include_op_for_full_load": True,
        "timestamp_column_name": "commit_ts",
        "date_partition_enabled": True,
        "date_partition_sequence": "yyyymmddhh",
        "date_partition_delimiter": "dash",
        "date_partition_timezone": "Asia/Seoul",
        "csv_null_value": "\\N",
        "change_sequence_column": "change_seq",
        "before_image_prefix": "BI_",
        "lob_mode": "limited",
        "lob_max_size": 64,
        "longest_lob": 1,
    }


def test_what_is_undecided_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "lake.yaml"
    file.write_text("catalog: {uri: c.db, warehouse: w}\n" + section(ENDPOINT, task(select("a", "t"))))
    with pytest.raises(ConfigError) as caught:
        load_lake(file, environ={})
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(
        'sources.shop_lake.tables["a.t"].columns: is undecided: an endpoint does not describe'
    )
    file.write_text(
        file.read_text().replace("columns: undecided", "columns: {id: long}\n        primary_key: [id]")
    )
    with pytest.raises(ConfigError, match="lob_mode: is limited, which cuts values after 64 KB"):
        load_lake(file, environ={})


def test_extra_connection_attributes(tmp_path: Path) -> None:
    extra = (
        "dataformat=parquet; TIMESTAMPCOLUMNNAME=ts ;cdcInsertsOnly=true;datePartitionEnabled=Y;csvDelimiter=;;"
        "UseCsvNoSupValue=true;CsvNoSupValue=NOSUP;parquetTimestampInMillisecond=true"
    )
    text = section(endpoint(extra))
    assert dms(text, tmp_path) == {
        "data_format": "parquet",
        "timestamp_column_name": "ts",
        "cdc_inserts_only": True,
        "date_partition_enabled": True,
        "csv_delimiter": ";",
        "csv_no_sup_value": "NOSUP",
        "parquet_timestamp_in_millisecond": True,
    }


@pytest.mark.parametrize(
    ("settings", "key", "value"),
    [
        ({"CsvDelimiter": "\\t"}, "csv_delimiter", "\t"),
        ({"CsvRowDelimiter": "\\r\\n"}, "csv_row_delimiter", "\r\n"),
        ({"CsvRowDelimiter": "\r\n"}, "csv_row_delimiter", "\r\n"),
        ({"CsvNullValue": ""}, "csv_null_value", ""),
        ({"CsvNullValue": "no"}, "csv_null_value", "no"),
        ({"CsvNullValue": "${HOME}: #"}, "csv_null_value", "${HOME}: #"),
        ({"Rfc4180": False}, "rfc_4180", False),
        ({"CdcPath": "cdc/", "PreserveTransactions": True}, "cdc_path", "cdc"),
        ({"TimestampColumnName": "über ts"}, "timestamp_column_name", "über ts"),
        ({"UseTaskStartTimeForFullLoadTimestamp": True}, "use_task_start_time_for_full_load_timestamp", True),
    ],
)
def test_one_setting(settings: dict[str, Any], key: str, value: Any, tmp_path: Path) -> None:
    assert dms(section(endpoint(**settings)), tmp_path)[key] == value


def test_a_timestamp_column_without_a_name_is_none(tmp_path: Path) -> None:
    assert dms(section(endpoint(TimestampColumnName="", CsvNullValue="NULL")), tmp_path) == {}


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([endpoint()], "CsvNullValue is not set"),
        ([endpoint()], "no task is described"),
        ([endpoint(TimestampColumnName="t")], "the zone of its commit times"),
        ([endpoint(UseCsvNoSupValue=True)], "without CsvNoSupValue"),
        ([endpoint(AddTrailingPaddingCharacter=True)], "the padding of their source columns"),
        ([endpoint(ShinyNewSetting=1)], "ShinyNewSetting of S3Settings is not known to lake_assets"),
        ([endpoint("compressionType=GZIP", CompressionType="NONE")], "disagree about CompressionType"),
        (
            [endpoint(), task(BEFORE, BeforeImageSettings={"EnableBeforeImage": True})],
            "has no effect on an S3",
        ),
        (
            [endpoint(), task(FullLoadSettings={"TargetTablePrepMode": "DO_NOTHING"})],
            "empty the table's folder",
        ),
        ([endpoint(), task() | {"MigrationType": "cdc"}], "the task has no full load"),
        ([endpoint(), {"rules": []}], "its LOB mode and BatchApplyEnabled are not known"),
        ([endpoint(), task(TargetMetadata={"TargetSchema": "x"})], "TargetSchema is x"),
        ([endpoint(), task(select("a", "t")), task(select("a", "t"), name="other")], "selected twice"),
    ],
)
def test_what_could_not_be_decided_is_a_comment(documents: list[Any], said: str, tmp_path: Path) -> None:
    text = section(*documents)
    comments = " ".join(
        line.strip().lstrip("# ") for line in text.splitlines() if line.strip().startswith("#")
    )
    assert said in comments
    assert lake(text, tmp_path)


@pytest.mark.parametrize(
    ("rules", "tables"),
    [
        ([select("a", "t")], ["a.t"]),
        ([select("a", "t"), select("a", "u"), select("a", "u", "exclude")], ["a.t"]),
        ([select("a", "t", "explicit")], ["a.t"]),
        ([select("a", "t"), transform("rename", "a", "t", "table", value="v")], ["a.v"]),
        ([select("A", "T"), transform("convert-lowercase", "%", "%", "table")], ["A.t"]),
        (
            [
                select("A", "T"),
                transform("convert-lowercase", "%", "%", "table"),
                {
                    **transform("convert-lowercase", "%", "%", "schema"),
                    "object-locator": {"schema-name": "%"},
                },
            ],
            ["a.t"],
        ),
        ([select("a", "t"), transform("convert-uppercase", "a", "%", "schema")], ["A.t"]),
        ([select("a", "t"), transform("add-prefix", "a", "%", "table", value="x_")], ["a.x_t"]),
        ([select("a", "t"), transform("add-suffix", "b", "%", "table", value="_x")], ["a.t"]),
        ([select("a", "tmp_t"), transform("remove-prefix", "a", "tmp[_]%", "table", value="tmp_")], ["a.t"]),
        (
            [
                select("a", "t_old"),
                transform("replace-suffix", "a", "%", "table", **{"value": "_new", "old-value": "_old"}),
            ],
            ["a.t_new"],
        ),
        # a rule that names one of the tables that a pattern selects
        ([select("a", "%"), transform("rename", "a", "t", "table", value="v")], ["a.v"]),
        (
            [
                select("a", "%"),
                select("a", "t", "exclude"),
                transform("rename", "a", "t", "table", value="v"),
            ],
            [],
        ),
        ([select("a", "t__"), select("b", "%")], ["a.t__"]),
    ],
)
def test_tables_of_a_mapping(rules: list[dict[str, Any]], tables: list[str], tmp_path: Path) -> None:
    (source,) = lake(section(endpoint(), {"rules": rules}), tmp_path).values()
    assert list(source.tables) == (tables or ["any.table"])


def test_patterns_are_told_and_no_table_is_invented(tmp_path: Path) -> None:
    text = section(endpoint(), task(select("public", "%"), select("public", "tmp%", "exclude"), SEQUENCE))
    assert "# the mapping selects public.% (without public.tmp%): name each of these tables" in text
    assert "tables: undecided" in text
    assert dms(text, tmp_path)["change_sequence_column"] == "change_seq", "which holds for all of them"


def test_what_concerns_one_table_is_its_own(tmp_path: Path) -> None:
    rules = [
        select("a", "%"),
        SEQUENCE,
        BEFORE,
        transform("add-column", "a", "t", value="region", expression="$SOURCE"),
        {
            "rule-type": "table-settings",
            "rule-id": "9",
            "object-locator": locator("a", "u"),
            "lob-settings": {"mode": "limited", "bulk-max-size": 512},
            "parallel-load": {"type": "partitions-auto"},
        },
        transform(
            "define-primary-key", "a", "u", "table", **{"primary-key-def": {"name": "k", "columns": ["id"]}}
        ),
        transform(
            "remove-column", "a", "u", **{"object-locator": locator("a", "u", **{"column-name": "secret"})}
        ),
    ]
    text = section(endpoint(AddColumnName=True), task(*rules))
    (source,) = lake(text, tmp_path).values()
    assert source.dms.lob_max_size == 64
    assert source.dms.change_sequence_column == "change_seq"
    assert source.tables["a.t"].dms == {"added_columns": ("region",)}
    assert source.tables["a.u"].dms == {"lob_max_size": 512}
    assert source.tables["a.u"].primary_key == ("id",)
    assert "# the mapping has remove-column for column secret" in text
    assert "# loaded in parallel: its full-load files are in a folder for each segment" in text


def test_two_tasks_into_one_endpoint(tmp_path: Path) -> None:
    """Each table has the settings of its own task."""
    text = section(
        endpoint(AddColumnName=True),
        {"ReplicationTasks": [task(select("a", "t"), SEQUENCE), task(select("a", "u"), name="other")]},
    )
    assert dms(text, tmp_path, "a.t")["change_sequence_column"] == "change_seq"
    assert "change_sequence_column" not in dms(text, tmp_path, "a.u")


def test_the_place_of_the_sequence_among_added_columns(tmp_path: Path) -> None:
    region = transform("add-column", "a", "t", value="region", expression="'eu'")
    for rules, added in (([SEQUENCE, region], ("region",)), ([region, SEQUENCE], ("region", "change_seq"))):
        text = section(endpoint(), {"rules": [select("a", "t"), *rules]})
        assert dms(text, tmp_path, "a.t")["added_columns"] == added
        assert "compare it with a file" in text


@pytest.mark.parametrize(
    ("settings", "endpoint_settings", "refused"),
    [
        ({"TargetMetadata": {"BatchApplyEnabled": True}}, {}, "BatchApplyEnabled"),
        ({"TargetMetadata": {"FullLobMode": True}}, {}, "does not support full LOB mode"),
        ({"rules": [], "TargetMetadata": {"FullLobMode": True}}, {}, "does not support full LOB mode"),
        ({"ValidationSettings": {"EnableValidation": True}}, {}, "DMS validates"),
        ({}, {"PreserveTransactions": True}, "needs cdc_path"),
        ({}, {"CdcInsertsOnly": True, "CdcInsertsAndUpdates": True}, "exclude each other"),
    ],
)
def test_what_dms_loses_is_imported_and_refused_by_validate(
    settings: dict[str, Any], endpoint_settings: dict[str, Any], refused: str, tmp_path: Path
) -> None:
    rules = settings.pop("rules", [select("a", "t")])
    text = section(endpoint(**endpoint_settings), task(*rules, **settings))
    with pytest.raises(ConfigError, match=refused):
        lake(text, tmp_path)


def test_a_serverless_replication(tmp_path: Path) -> None:
    config = {
        "ReplicationConfigIdentifier": "serverless",
        "TargetEndpointArn": TARGET_ARN,
        "ReplicationType": "full-load-and-cdc",
        "ReplicationSettings": json.dumps(TASK_SETTINGS),
        "TableMappings": json.dumps({"rules": [select("a", "t")]}),
    }
    (source,) = lake(section(endpoint(), {"ReplicationConfigs": [config]}), tmp_path).values()
    assert (list(source.tables), source.dms.lob_max_size) == (["a.t"], 64)


def test_loose_files_of_mappings_and_settings(tmp_path: Path) -> None:
    (source,) = lake(section(TASK_SETTINGS, {"rules": [select("a", "t")]}, endpoint()), tmp_path).values()
    assert (list(source.tables), source.dms.lob_max_size) == (["a.t"], 64)


def test_several_endpoints(tmp_path: Path) -> None:
    other = endpoint() | {"EndpointIdentifier": "Lake!", "EndpointArn": "arn:other"}
    text = section({"Endpoints": [endpoint(), other]}, task(select("a", "t")))
    sources = lake(text, tmp_path)
    assert {name: list(source.tables) for name, source in sources.items()} == {
        "lake": ["a.t"],
        "lake_2": ["any.table"],
    }
