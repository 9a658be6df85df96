"""What DMS must be set to, and how its documents differ: each setting that is planned is read back, and compared."""

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from lake_assets.cli import app
from lake_assets.config import DmsSettings, S3Config, SourceConfig
from lake_assets.errors import DocumentError, LakeError
from lake_assets.onboarding.endpoint_import.documents import read_documents
from lake_assets.onboarding.endpoint_plan.dms_plan import Plan, plan
from lake_assets.onboarding.endpoint_plan.setting_differences import differences, target_of
from lake_assets_tests.helpers.servers.s3 import ACCESS, client

COLUMNS = {"id": "long not null", "v": "string"}
TABLE: dict[str, Any] = {"columns": COLUMNS, "primary_key": ["id"]}
TABLES = {"public.items": TABLE, "Sales.order_lines": TABLE, 'public."a.b c"': TABLE | {"name": "abc"}}
SEQUENCE = {"timestamp_column_name": "ts", "change_sequence_column": "seq", "before_image_prefix": "BI_"}
KINESIS = {"kinesis": {"name": "shop", "region": "eu-west-1"}, "engine": "postgresql"}
KAFKA = {"kafka": {"bootstrap_servers": "b:9096", "topic": "shop"}, "engine": "postgresql"}
STREAMED = {
    "include_transaction_details": True,
    "include_null_and_empty": True,
    "partition_include_schema_table": True,
    "include_control_details": True,
    "include_table_alter_operations": True,
    "use_large_integer_value": True,
    "before_image_settings": {"enable_before_image": True},
}


def source(
    dms: Mapping[str, Any] = SEQUENCE, tables: Mapping[str, Any] = TABLES, **more: Any
) -> SourceConfig:
    given = {"location": "s3://lake-bucket/raw/shop", "dms": dict(dms), "tables": dict(tables)} | more
    return SourceConfig.model_validate(given)


def found(config: SourceConfig, planned: Plan) -> list[str]:
    texts = {"endpoint": planned.endpoint, "mappings": planned.mappings, "task": planned.task}
    documents = read_documents({name: json.dumps(document) for name, document in texts.items()})
    return differences(config, target_of("shop", config, documents), documents)


def random_settings(rng: Random) -> dict[str, Any]:
    """Settings of an endpoint and a task, of which DmsSettings takes any combination."""
    values: dict[str, list[Any]] = {
        "data_format": ["csv", "parquet"],
        "compression_type": ["none", "gzip"],
        "csv_delimiter": [",", ";", "\t"],
        "csv_row_delimiter": ["\n", "\r\n"],
        "csv_null_value": ["NULL", "", "\\N"],
        "csv_no_sup_value": [None, "-"],
        "rfc_4180": [True, False],
        "add_column_name": [True, False],
        "cdc_inserts_and_updates": [False, True],
        "timestamp_column_name": ["ts", None],
        "parquet_timestamp_in_millisecond": [False, True],
        "change_sequence_column": ["seq", None],
        "before_image_prefix": ["BI_", "before-", None],
        "before_image_columns": ["pk_only", "all"],
        "date_partition_enabled": [False, True],
        "date_partition_sequence": ["yyyymmdd", "ddmmyyyy"],
        "date_partition_delimiter": ["slash", "none"],
        "date_partition_timezone": [None, "Asia/Seoul"],
        "validation_enabled": [False, True],
        "batch_apply_enabled": [False, True],
        "lob_mode": [None, "none", "limited", "full"],
        "lob_max_size": [32, 64],
    }
    return {name: rng.choice(choices) for name, choices in values.items()}


def unchecked(settings: Mapping[str, Any]) -> SourceConfig:
    """A source with settings that may not go together, since only their documents matter here."""
    return source().model_copy(update={"dms": DmsSettings.model_validate(settings)})


@pytest.mark.parametrize("seed", range(100))
def test_what_is_planned_is_what_is_expected(seed: int) -> None:
    config = unchecked(random_settings(Random(seed)))
    assert found(config, plan("shop", config)) == []


@pytest.mark.parametrize("seed", range(100))
def test_each_setting_that_matters_is_compared(seed: int) -> None:
    """A source with one other setting does not fit the documents, and its sentence names the setting."""
    rng = Random(seed)
    settings = random_settings(rng) | {
        "data_format": "csv",
        "date_partition_enabled": True,
        "lob_mode": "limited",
    }
    settings |= {"before_image_prefix": "BI_", "add_column_name": False, "lob_max_size": 32}
    documents = plan("shop", unchecked(settings))
    for name in settings.keys() - {"parquet_timestamp_in_millisecond"}:
        others = random_settings(rng)
        # Without LOBs, no mode matters.
        while others[name] == settings[name] or (name == "lob_mode" and others[name] != "full"):
            others = random_settings(rng)
        (first, *more) = found(unchecked(settings | {name: others[name]}), documents)
        assert [first.split()[0], *(sentence.split()[0] for sentence in more)].count(name) == 1, first


@pytest.mark.parametrize("stream", [KINESIS, KAFKA])
def test_a_stream(stream: dict[str, Any]) -> None:
    config = source(STREAMED, stream=stream)
    documents = plan("shop", config)
    assert found(config, documents) == []
    for name, value in STREAMED.items():
        if isinstance(value, bool) and name != "include_null_and_empty":
            other = config.model_copy(update={"dms": config.dms.model_copy(update={name: False})})
            assert found(other, documents) == [f"{name} is false in lake.yaml, and true at the endpoint shop"]
    bare = config.model_copy(
        update={"dms": DmsSettings.model_validate(STREAMED | {"before_image_settings": {}})}
    )
    (sentence,) = found(bare, documents)
    assert sentence.startswith("before_image_settings of all tables is {")
    elsewhere = {"kinesis": {"name": "other", "region": "eu-west-1"}, "engine": "postgresql"}
    with_other = source(STREAMED, stream=elsewhere)
    if "kinesis" in stream:
        assert found(with_other, documents) == [
            "lake.yaml expects the stream other, and the endpoint shop writes to the stream shop"
        ]


def test_settings_of_tables() -> None:
    tables = {
        "public.items": TABLE | {"dms": {"lob_mode": "limited", "lob_max_size": 100, "longest_lob": 90}},
        "public.notes": TABLE | {"dms": {"before_image_prefix": "OLD_"}},
        "public.sales": TABLE
        | {"folders": ["sales_*", "old[ab]?"], "dms": {"lob_mode": "limited", "longest_lob": 5}},
    }
    config = source(tables=tables)
    planned = plan("shop", config)
    assert found(config, planned) == []
    rules = planned.mappings["rules"]
    assert [rule["rule-id"] for rule in rules] == [str(number) for number in range(1, len(rules) + 1)]
    selected = [rule["object-locator"]["table-name"] for rule in rules if rule["rule-type"] == "selection"]
    assert selected == ["items", "notes", "sales[_]%", "old[ab]_"], "of a partitioned table, the partitions"
    other = source(tables=tables | {"public.notes": TABLE})
    assert found(other, planned) == [
        'before_image_prefix of public.notes is "BI_" in lake.yaml, and "OLD_" by the task'
    ]


def test_tables_of_one_side_only_and_filters() -> None:
    planned = plan("shop", source())
    fewer = source(tables={"public.items": TABLE, "public.new": TABLE | {"source_filter": "id > 5"}})
    assert found(fewer, planned) == [
        "the mapping selects Sales.order_lines, which lake.yaml does not have",
        'the mapping selects public."a.b c", which lake.yaml does not have',
        "the mapping does not select public.new",
    ]
    filtered = source(tables=TABLES | {"public.items": TABLE | {"source_filter": "id > 5"}})
    assert found(filtered, planned) == [
        "lake.yaml has a filter of public.items (id > 5), and the mapping has none"
    ]
    assert (
        "public.items has a source_filter: add it to its selection rule as filters"
        in plan("s", filtered).notes
    )
    rule = planned.mappings["rules"][0]
    rule["filters"] = [
        {
            "filter-type": "source",
            "column-name": "id",
            "filter-conditions": [{"filter-operator": "gte", "value": "5"}],
        }
    ]
    (sentence,) = found(source(), planned)
    assert sentence.startswith("the mapping has a filter of public.items (")


def test_what_lake_yaml_does_not_say() -> None:
    own = TABLE | {"dms": {"added_columns": ["region"], "csv_delimiter": ";"}}
    notes = plan(
        "shop", source(SEQUENCE | {"lob_mode": "limited", "longest_lob": 5}, {"public.items": own})
    ).notes
    assert notes == (
        "add the role with which DMS writes to the bucket: S3Settings.ServiceAccessRoleArn",
        "limited LOB mode cuts longer values: compare LobMaxSize with the longest value at the source",
        "public.items has the added columns region: add a rule for each, in the order of lake.yaml",
        "public.items has csv_delimiter of its own: that needs an endpoint of its own",
    )
    with pytest.raises(LakeError, match=r"/data is a folder, and DMS writes to a bucket"):
        plan("shop", source(location="/data"))


def test_a_stream_that_is_ordered_by_the_change_sequence() -> None:
    oracle = KINESIS | {"engine": "oracle"}
    config = source(STREAMED | {"change_sequence_column": "seq"}, stream=oracle)
    planned = plan("shop", config)
    assert [rule["value"] for rule in planned.mappings["rules"] if "expression" in rule] == ["seq"]
    assert found(config, planned) == []
    planned.mappings["rules"] = [rule for rule in planned.mappings["rules"] if "expression" not in rule]
    assert found(config, planned) == [
        'change_sequence_column of all tables is "seq" in lake.yaml, and not set by the task'
    ]


def test_settings_that_one_table_has_and_the_endpoint_has_not() -> None:
    own = TABLE | {"dms": {"csv_delimiter": ";"}}
    config = source(tables=TABLES | {"public.items": own})
    assert found(config, plan("shop", config)) == [
        'csv_delimiter of public.items is ";" in lake.yaml, and "," at the endpoint shop'
    ]


def test_an_endpoint_that_holds_changes_for_longer_than_a_cut_waits() -> None:
    config = source(consistent_cut={"interval": "20s"})
    planned = plan("shop", config)
    assert planned.endpoint["S3Settings"]["CdcMaxBatchInterval"] == 20
    assert found(config, planned) == []
    planned.endpoint["S3Settings"]["CdcMaxBatchInterval"] = 30
    assert found(config, planned) == [
        "consistent_cut.interval is 20 s in lake.yaml, and CdcMaxBatchInterval 30 at the endpoint"
    ]
    del planned.endpoint["S3Settings"]["CdcMaxBatchInterval"]
    assert "CdcMaxBatchInterval 60" in found(config, planned)[0], "DMS's default"


def mapped(schema: str, table: str, *renaming: dict[str, Any]) -> Plan:
    """A plan whose mapping selects this pattern, and renames what it selects."""
    planned = plan("shop", source(tables={"public.items": TABLE}))
    where = {"schema-name": schema, "table-name": table}
    kept = [rule for rule in planned.mappings["rules"] if rule["rule-type"] != "selection"]
    rules = [{"rule-type": "selection", "rule-action": "include"}]
    rules += [{"rule-type": "transformation"} | rule for rule in renaming]
    planned.mappings["rules"] = [rule | {"object-locator": where} for rule in rules] + kept
    return planned


LOWER = [{"rule-target": target, "rule-action": "convert-lowercase"} for target in ("schema", "table")]
TO_DWH = {"rule-target": "schema", "rule-action": "rename", "value": "dwh"}
OLD = {"rule-target": "table", "rule-action": "add-prefix", "value": "old_"}


@pytest.mark.parametrize(
    ("table", "planned"),
    [
        ("public.items", mapped("PUBLIC", "%", *LOWER)),
        ("dwh.items", mapped("public", "%", TO_DWH)),
        ("public.old_items", mapped("public", "%", OLD)),
        ("dwh.old_items", mapped("public", "items", TO_DWH, OLD)),
    ],
)
def test_tables_that_the_mapping_renames(table: str, planned: Plan) -> None:
    assert found(source(tables={table: TABLE}), planned) == []
    wrong = "public.items" if table != "public.items" else "PUBLIC.items"
    missing = found(source(tables={wrong: TABLE | {"name": "items"}}), planned)
    assert f"the mapping does not select {wrong}" in missing


def test_a_source_that_ignores_case() -> None:
    planned = plan("shop", source(tables={"HR.EMPLOYEES": TABLE | {"name": "employees"}}))
    assert found(source(tables={"hr.employees": TABLE}, ignore_case=True), planned) == []
    assert "the mapping does not select hr.employees" in found(
        source(tables={"hr.employees": TABLE}), planned
    )


def test_globs_as_patterns() -> None:
    def selected(*globs: str) -> list[tuple[str, str]]:
        config = source(tables={"public.sales": TABLE | {"folders": list(globs)}})
        rules = plan("shop", config).mappings["rules"]
        return [
            (rule["rule-action"], rule["object-locator"]["table-name"])
            for rule in rules
            if rule["rule-type"] == "selection"
        ]

    assert selected("sales_*") == [("include", "sales[_]%")]
    assert selected("sales*", "old[ab]?") == [
        ("include", "sales%"),
        ("include", "old[ab]_"),
        ("exclude", "sales"),
    ], "a load of the table itself has the partitions' rows once more"
    for wrong in ("sales[!a]*", "s[?]x*"):
        with pytest.raises(
            LakeError, match=r"public\.sales: folders has \[.*, which no selection rule of DMS can say"
        ):
            selected(wrong)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("shop", "shop"), ("a__b", "a-b"), ("_1", "dms-1"), ("_", "dms"), ("shop_", "shop")],
)
def test_identifiers(name: str, expected: str) -> None:
    assert plan(name, source()).endpoint["EndpointIdentifier"] == expected


def test_switches_that_are_none() -> None:
    planned = plan("shop", source())
    planned.endpoint["S3Settings"] |= {"UseCsvNoSupValue": None, "AddTrailingPaddingCharacter": None}
    assert found(source(), planned) == []
    planned.endpoint["S3Settings"]["UseCsvNoSupValue"] = "maybe"
    with pytest.raises(
        DocumentError, match="the endpoint shop: UseCsvNoSupValue is 'maybe', expected true or false"
    ):
        found(source(), planned)


def test_which_target_is_the_sources() -> None:
    here, there = plan("shop", source()).endpoint, plan("x", source(location="s3://other")).endpoint
    documents = read_documents({"a": json.dumps({"Endpoints": [there, here]})})
    assert target_of("shop", source(), documents).name == "shop"
    assert differences(source(), target_of("shop", source(), documents), documents) == []
    with pytest.raises(
        DocumentError, match=r"none of the described targets x \(s3://other\), shop .* of the source"
    ):
        target_of("shop", source(STREAMED, stream=KAFKA), documents)


@pytest.fixture
def lake_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake of one source, in the working directory."""
    path = tmp_path / "lake.yaml"
    given = {"location": "s3://lake-bucket/raw/shop", "dms": SEQUENCE, "tables": TABLES}
    lake = {"catalog": {"uri": "c.db", "warehouse": "w"}, "sources": {"shop": given}}
    path.write_text(yaml.safe_dump(lake), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return path


def run(path: Path, *arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["--config", str(path), "dms", *arguments])
    if isinstance(done.exception, LakeError | DocumentError):
        return 1, "", str(done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def test_the_command_line(lake_yaml: Path, tmp_path: Path) -> None:
    code, printed, said = run(lake_yaml, "plan")
    assert (code, {*json.loads(printed)}) == (0, {"endpoint", "table-mappings", "task-settings"})
    assert "note: add the role" in said
    code, printed, _ = run(lake_yaml, "plan", "--output", "out")
    assert "--cli-input-json file://out/endpoint.json" in printed
    files = sorted(map(str, (tmp_path / "out").iterdir()))
    code, printed, _ = run(lake_yaml, "diff", *files)
    assert (code, "as lake.yaml expects" in printed) == (0, True)
    endpoint = Path(files[0])
    endpoint.write_text(endpoint.read_text().replace('"Rfc4180": true', '"Rfc4180": false'))
    code, printed, said = run(lake_yaml, "diff", files[0])
    assert (code, printed) == (1, "rfc_4180 is true in lake.yaml, and false at the endpoint shop\n")
    assert "No task of the endpoint is described" in said
    assert run(lake_yaml, "diff") == (
        1,
        "",
        "shop has no dms_task: set it to the ARN of its task, or name files with what `aws dms describe-endpoints` and "
        "`describe-replication-tasks` print.",
    )
    assert "lake.yaml has no source x: it has shop" in run(lake_yaml, "plan", "--source", "x")[2]


def test_what_dms_itself_says(lake_yaml: Path, s3: S3Config) -> None:
    """moto's server gets the planned documents, and a lake with its task reads them back."""
    planned, dms = plan("shop", source()), client("dms", s3.endpoint)
    target = dms.create_endpoint(**planned.endpoint)["Endpoint"]["EndpointArn"]
    at_source = dms.create_endpoint(EndpointIdentifier="db", EndpointType="source", EngineName="postgres")
    task = dms.create_replication_task(
        ReplicationTaskIdentifier="shop",
        SourceEndpointArn=at_source["Endpoint"]["EndpointArn"],
        TargetEndpointArn=target,
        ReplicationInstanceArn="arn:aws:dms:us-east-1:123456789012:rep:INSTANCE",
        MigrationType="full-load-and-cdc",
        TableMappings=json.dumps(planned.mappings),
        ReplicationTaskSettings=json.dumps(planned.task),
    )["ReplicationTask"]["ReplicationTaskArn"]
    lake = yaml.safe_load(lake_yaml.read_text())
    keys = {name: ACCESS[name] for name in ("access_key_id", "secret_access_key")}
    lake["sources"]["shop"]["dms_task"] = {"arn": task, "endpoint": s3.endpoint, **keys}
    lake_yaml.write_text(yaml.safe_dump(lake), encoding="utf-8")
    try:
        code, printed, said = run(lake_yaml, "diff")
        assert (code, printed) == (0, "shop and shop: as lake.yaml expects\n")
        assert "note: an endpoint does not state the zone" in said
        lake["sources"]["shop"]["dms"] |= {"csv_null_value": ""}
        lake_yaml.write_text(yaml.safe_dump(lake), encoding="utf-8")
        sentence = 'csv_null_value is "" in lake.yaml, and "NULL" at the endpoint shop\n'
        assert run(lake_yaml, "diff")[:2] == (1, sentence)
        # The task of each table, once.
        one = lake["sources"]["shop"].pop("dms_task")
        lake["sources"]["shop"]["tables"] = {n: t | {"dms_task": one} for n, t in TABLES.items()}
        lake_yaml.write_text(yaml.safe_dump(lake), encoding="utf-8")
        assert run(lake_yaml, "diff")[:2] == (1, sentence)
        lake["sources"]["shop"] |= {"dms_task": one, "tables": TABLES}
        lake["sources"]["shop"]["dms_task"]["arn"] = task + "X"
        lake_yaml.write_text(yaml.safe_dump(lake), encoding="utf-8")
        assert "correct dms_task.arn, or its region" in run(lake_yaml, "diff")[2]
    finally:
        dms.delete_replication_task(ReplicationTaskArn=task)
        dms.delete_endpoint(EndpointArn=target)
