"""What DMS must be set to, and how its documents differ: each setting that is planned is read back, and compared."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from lake_assets.config import DmsSettings, SourceConfig
from lake_assets.errors import DocumentError, LakeError
from lake_assets.onboarding.endpoint_import.documents import read_documents
from lake_assets.onboarding.endpoint_import.lake_section import draft_of
from lake_assets.onboarding.endpoint_plan.dms_plan import Plan, plan
from lake_assets.onboarding.endpoint_plan.setting_differences import differences, target_of

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
    return differences(config, draft_of(target_of("shop", config, documents), documents), documents)


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
    assert differences(source(), draft_of(target_of("shop", source(), documents), documents), documents) == []
    with pytest.raises(
        DocumentError, match=r"none of the described targets x \(s3://other\), shop .* of the source"
    ):
        target_of("shop", source(STREAMED, stream=KAFKA), documents)
