"""Endpoint settings in force for a table, and the combinations that are refused, by the fact that forbids them."""

from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.config import DmsSettings, SourceConfig, TableConfig
from lake_assets.config.config_file import ConfigError, load_lake
from lake_assets.config.dms_rules import conflicts

COLUMNS = {"id": "long not null", "at": "timestamptz"}
ORDERED = {"timestamp_column_name": "commit_ts", "change_sequence_column": "change_seq"}


def found(dms: dict[str, Any], **table: Any) -> list[tuple[str, str]]:
    """The setting to blame, and why, of every conflict of one table."""
    config = TableConfig.model_validate({"columns": COLUMNS, "primary_key": ["id"], **table})
    return [(settings[0], text) for settings, text in conflicts(config, DmsSettings.model_validate(dms))]


REFUSED = [
    ("batch apply loses data", {"batch_apply_enabled": True}, "batch_apply_enabled", "loses data"),
    (
        "transactions with date partitions",
        {"preserve_transactions": True, "cdc_path": "cdc", "date_partition_enabled": True},
        "preserve_transactions",
        "cannot be combined with date_partition_enabled: DMS refuses it",
    ),
    (
        "transactions with a header",
        {"preserve_transactions": True, "cdc_path": "cdc", "add_column_name": True},
        "preserve_transactions",
        "cannot be combined with add_column_name: DMS refuses it",
    ),
    ("transactions nowhere", {"preserve_transactions": True}, "preserve_transactions", "needs cdc_path"),
    (
        "transactions at the root",
        {"preserve_transactions": True, "cdc_path": "/"},
        "preserve_transactions",
        "needs cdc_path",
    ),
    (
        "both kinds of inserts",
        {"cdc_inserts_only": True, "cdc_inserts_and_updates": True},
        "cdc_inserts_and_updates",
        "exclude each other: DMS refuses both",
    ),
    (
        "deletes and updates that never arrive",
        {"cdc_inserts_only": True},
        "cdc_inserts_only",
        "updated or deleted",
    ),
    (
        "deletes that never arrive",
        {"cdc_inserts_and_updates": True, "include_op_for_full_load": True},
        "cdc_inserts_and_updates",
        "rows that are deleted at the source would stay",
    ),
    ("full LOB mode", {"lob_mode": "full"}, "lob_mode", "does not support full LOB mode"),
    ("a LOB limit of unknown effect", {"lob_mode": "limited"}, "lob_mode", "cuts values after 32 KB"),
    (
        "a LOB limit that truncates",
        {"lob_mode": "limited", "lob_max_size": 64, "longest_lob": 65},
        "lob_max_size",
        "cuts values after 64 KB, and the longest has 65 KB",
    ),
    (
        "validation of CSV",
        {"validation_enabled": True},
        "validation_enabled",
        "needs data_format: parquet, date_partition_enabled: true: DMS validates",
    ),
    (
        "validation without date partitions",
        {"validation_enabled": True, "data_format": "parquet"},
        "validation_enabled",
        "needs date_partition_enabled: true",
    ),
    ("one end for rows and fields", {"csv_delimiter": "\n"}, "csv_row_delimiter", "contains csv_delimiter"),
    ("a quote between fields", {"csv_delimiter": '"'}, "csv_delimiter", "must not contain the quote"),
    ("NULL of two fields", {"csv_null_value": "a,b"}, "csv_null_value", "contains a delimiter"),
    ("NULL over two lines", {"csv_null_value": "a\nb"}, "csv_null_value", "contains a delimiter"),
    ("not logged or NULL", {"csv_no_sup_value": "NULL"}, "csv_no_sup_value", "would become NULL"),
    (
        "time and sequence in one column",
        {"change_sequence_column": "commit_ts"},
        "change_sequence_column",
        "names commit_ts, which is timestamp_column_name too",
    ),
    ("an added column twice", {"added_columns": ["x", "x"]}, "added_columns", "which it names before"),
    (
        "an added column of the table",
        {"added_columns": ["at"]},
        "added_columns",
        "one of the table's columns",
    ),
    (
        "deletes without an operation",
        {"op_in_cdc": False},
        "op_in_cdc",
        "a delete cannot be distinguished from an insert",
    ),
]


@pytest.mark.parametrize(("fact", "dms", "setting", "reason"), REFUSED, ids=[case[0] for case in REFUSED])
def test_refused(fact: str, dms: dict[str, Any], setting: str, reason: str) -> None:
    ((blamed, text),) = found(ORDERED | dms)
    assert blamed == setting
    assert reason in text


ORDER = [
    (
        "local commit times of an hour that comes twice",
        {"timestamp_column_name": "t", "timestamp_zone": "Europe/London"},
        "timestamp_zone",
    ),
    (
        "local file names of an hour that comes twice",
        {"date_partition_enabled": True, "date_partition_timezone": "America/New_York"},
        "date_partition_timezone",
    ),
    (
        "folders that do not sort by date",
        {"date_partition_enabled": True, "date_partition_sequence": "DDMMYYYY"},
        "date_partition_sequence",
    ),
]


@pytest.mark.parametrize(("fact", "dms", "setting"), ORDER, ids=[case[0] for case in ORDER])
def test_no_order(fact: str, dms: dict[str, Any], setting: str) -> None:
    ((blamed, text),) = found(dms)
    assert (blamed, "AR_H_CHANGE_SEQ" in text) == (setting, True)
    assert found(dms | {"change_sequence_column": "seq"}) == [], "the sequence orders them"
    assert found(dms, mode="change_log", also=["history"]), "a history has an order, too"
    assert found(dms, mode="append_log") == [], "rows that are only ever added have no order to get wrong"


def test_a_setting_decides_for_values_and_not_for_their_order() -> None:
    """Without it, a log has no row of the hour that comes twice; with it, such a row needs a sequence."""
    dms = {"timestamp_column_name": "t", "timestamp_zone": "Europe/London"}
    for mode in ("change_log", "full_row"):
        log = {"mode": mode, "primary_key": [], "never": ["updated"]}
        assert found(dms, **log) == []
        ((blamed, text),) = found(dms, **log, ambiguous_times="later")
        assert (blamed, "AR_H_CHANGE_SEQ" in text) == ("timestamp_zone", True)
        assert found(dms | {"change_sequence_column": "seq"}, **log, ambiguous_times="later") == []
    assert found(dms, mode="append_log", ambiguous_times="later") == []


ACCEPTED = [
    ("nothing said", {}, {}),
    ("transactions in a folder", {"preserve_transactions": True, "cdc_path": "/a/cdc/"}, {}),
    ("inserts only, into a log of inserts", {"cdc_inserts_only": True}, {"mode": "append_log"}),
    (
        "inserts only, of a source that only inserts",
        {"cdc_inserts_only": True},
        {"never": ["updated", "deleted"]},
    ),
    (
        "no deletes, of a source that never deletes",
        {"cdc_inserts_and_updates": True, "add_column_name": True},
        {"never": ["deleted"]},
    ),
    (
        "a LOB limit above the longest",
        {"lob_mode": "limited", "lob_max_size": 64, "longest_lob": 64},
        {},
    ),
    ("no LOBs", {"lob_mode": "none"}, {}),
    (
        "validation",
        {"validation_enabled": True, "data_format": "parquet", "date_partition_enabled": True},
        {},
    ),
    ("the sequence's place among added columns", {"added_columns": ["x", "change_seq"]}, {}),
    ("CRLF", {"csv_row_delimiter": "\r\n", "csv_delimiter": "\t"}, {}),
]


@pytest.mark.parametrize(("fact", "dms", "table"), ACCEPTED, ids=[case[0] for case in ACCEPTED])
def test_accepted(fact: str, dms: dict[str, Any], table: dict[str, Any]) -> None:
    assert found(ORDERED | dms, **table) == []


def test_a_further_shape_misses_what_is_left_out_too() -> None:
    log = {"mode": "append_log", "also": ["change_log"]}
    ((setting, text),) = found(ORDERED | {"cdc_inserts_only": True}, **log)
    assert (setting, "mode change_log" in text) == ("cdc_inserts_only", True)


@pytest.mark.parametrize(
    ("table", "said", "refused"),
    [
        ({"never": ["deleted"]}, {}, True),
        ({"never": ["deleted"]}, {"op_in_cdc": True}, False),
        ({"never": ["deleted"]}, {"op_in_cdc": False}, False),
        ({"never": ["deleted"]}, {"include_op_for_full_load": True}, False),
        ({"mode": "append_log"}, {"op_in_cdc": False}, True),
        ({"also": ["change_log"], "never": ["deleted"]}, {"op_in_cdc": False}, True),
    ],
)
def test_the_guide_disagrees_about_the_operation_of_inserts_and_updates(
    table: dict[str, Any], said: dict[str, Any], refused: bool
) -> None:
    assert bool(found(ORDERED | {"cdc_inserts_and_updates": True} | said, **table)) is refused


# --- settings of one table above the source's


def source(dms: dict[str, Any], **tables: dict[str, Any]) -> SourceConfig:
    filled = {
        f"public.{name}": {"columns": COLUMNS, "primary_key": ["id"], **given}
        for name, given in tables.items()
    }
    return SourceConfig.model_validate({"location": "b", "dms": dms, "tables": filled})


def test_settings_in_force() -> None:
    config = source(
        ORDERED | {"csv_delimiter": ";"},
        plain={},
        own={"dms": {"change_sequence_column": None, "date_partition_sequence": "YYYYMM"}},
    )
    assert config.settings("public.plain") is config.dms
    assert config.settings("public.never_heard_of") is config.dms
    own = config.settings("public.own")
    assert (own.csv_delimiter, own.timestamp_column_name) == (";", "commit_ts"), "what is not said stays"
    assert (own.change_sequence_column, own.date_partition_sequence) == (None, "yyyymm")
    moved = config.model_copy(update={"dms": config.dms.model_copy(update={"csv_delimiter": "|"})})
    assert moved.settings("public.own").csv_delimiter == "|"


def test_a_tables_own_setting_cures_and_causes_conflicts() -> None:
    lobs = ORDERED | {"lob_mode": "limited"}
    assert source(lobs, t={"dms": {"longest_lob": 20}}).settings("public.t").longest_lob == 20
    with pytest.raises(ValidationError, match=r"tables\.public\.t\.dms\.longest_lob: cuts values"):
        source(lobs, t={"dms": {"longest_lob": 40}})


def test_a_whole_tasks_settings_are_no_tables() -> None:
    whole = ORDERED | {"preserve_transactions": True, "cdc_path": "cdc"}
    for own in ({"cdc_path": "x"}, {"preserve_transactions": False}, {"rfc_4180": False}):
        with pytest.raises(ValidationError, match=r"transactions|all of its tables"):
            source(whole, t={"dms": own})


def test_a_log_needs_the_commit_times_of_its_own_table() -> None:
    with pytest.raises(ValidationError, match="a change log needs"):
        source(ORDERED, t={"mode": "change_log", "dms": {"timestamp_column_name": None}})
    with pytest.raises(ValidationError, match="column at has the name of a column that DMS adds"):
        source(ORDERED, t={"dms": {"operation_column": "at"}})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"operations": {"INSERT": "X"}}, "'I', 'U' or 'D'"),
        ({"operations": {"D": "I"}}, "keeps its meaning"),
        ({"operation_column": ""}, "at least 1 character"),
        ({"csv_row_delimiter": ""}, "at least 1 character"),
        ({"date_partition_timezone": "Mars/Olympus"}, "not an IANA time zone"),
        ({"lob_mode": "inline"}, "'none', 'limited' or 'full'"),
        ({"lob_max_size": 0}, "greater than or equal to 1"),
    ],
)
def test_no_settings(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError) as caught:
        DmsSettings.model_validate(settings)
    assert reason in str(caught.value)


LAKE = """\
catalog: {uri: c.db, warehouse: w}
sources:
  shop:
    location: bronze
    dms: {SOURCE}
    tables:
      public.a: {columns: {id: long}, primary_key: [id]}
      public.b: {columns: {id: long}, primary_key: [id], dms: {TABLE}}
"""


@pytest.mark.parametrize(
    ("of_source", "of_table", "mistakes"),
    [
        (
            "batch_apply_enabled: true",
            "",
            ["sources.shop.dms.batch_apply_enabled: must be false: DMS does not support BatchApplyEnabled"],
        ),
        (
            "",
            "batch_apply_enabled: true",
            ['sources.shop.tables["public.b"].dms.batch_apply_enabled: must be false'],
        ),
        (
            "lob_mode: limited, longest_lob: 5",
            "longest_lob: 50",
            [
                'sources.shop.tables["public.b"].dms.longest_lob: cuts values after 32 KB, and the longest has 50'
            ],
        ),
        (
            "",
            "csv_nul_value: x",
            [
                'sources.shop.tables["public.b"].dms.csv_nul_value: is not a known key; did you mean csv_null_value?'
            ],
        ),
        (
            "",
            "add_column_name: perhaps, timestamp_zone: Mars",
            [
                'sources.shop.tables["public.b"].dms.add_column_name: expected true or false',
                "sources.shop.tables[\"public.b\"].dms.timestamp_zone: 'Mars' is not an IANA time zone",
            ],
        ),
    ],
)
def test_every_mistake_has_its_place(
    tmp_path: Any, of_source: str, of_table: str, mistakes: list[str]
) -> None:
    file = tmp_path / "lake.yaml"
    file.write_text(LAKE.replace("SOURCE", of_source).replace("TABLE", of_table))
    with pytest.raises(ConfigError) as caught:
        load_lake(file, environ={})
    assert len(caught.value.mistakes) == len(mistakes)
    for said, expected in zip(caught.value.mistakes, mistakes, strict=True):
        assert said.startswith(expected), said


def test_what_is_undecided_opens_no_lake(tmp_path: Any) -> None:
    file = tmp_path / "lake.yaml"
    text = LAKE.replace("SOURCE", "").replace("TABLE", "")
    file.write_text(text.replace("columns: {id: long}", "columns: undecided", 1))
    with pytest.raises(
        ConfigError, match=r'tables\["public.a"\].columns: is undecided: an endpoint does not describe'
    ):
        load_lake(file, environ={})
    file.write_text(text[: text.index("tables:")] + "tables: undecided\n")
    with pytest.raises(ConfigError, match=r"shop\.tables: is undecided: the task's mapping selects"):
        load_lake(file, environ={})
