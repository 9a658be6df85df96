"""Which settings of a stream make its messages exact, and what is refused."""

from typing import Any

import pytest

from lake_assets.config import LANDED, SourceConfig

EXACT = {
    "include_transaction_details": True,
    "include_null_and_empty": True,
    "before_image_settings": {"enable_before_image": True},
}
KINESIS = {"kinesis": {"name": "changes", "region": "eu-central-1"}}
KAFKA = {"kafka": {"bootstrap_servers": "kafka:9092", "topic": "changes"}}


def source(engine: str = "mysql", where: dict[str, Any] = KINESIS, **given: Any) -> SourceConfig:
    stream = {"engine": engine, **where, **given.pop("stream", {})}
    dms = {**EXACT, **given.pop("dms", {})}
    table = {"columns": {"id": "long not null"}, "primary_key": ["id"], **given.pop("table", {})}
    return SourceConfig.model_validate(
        {"location": "landed", "stream": stream, "dms": dms, "tables": {"public.items": table}, **given}
    )


@pytest.mark.parametrize("where", [KINESIS, KAFKA])
@pytest.mark.parametrize("engine", ["mysql", "postgresql"])
def test_a_source_with_a_stream(engine: str, where: dict[str, Any]) -> None:
    assert source(engine, where).settings("public.items") == LANDED


def test_dms_own_sequence_orders_every_engine() -> None:
    for engine in ("oracle", "sqlserver", "mysql"):
        found = source(engine, dms={"change_sequence_column": "seq", "include_transaction_details": False})
        assert found.dms.change_sequence_column == "seq"


def test_a_stated_meaning_of_what_is_left_out() -> None:
    assert source(stream={"absent": "null"}, dms={"include_null_and_empty": False}).stream is not None


def test_a_log_needs_no_before_image() -> None:
    log = {"mode": "append_log", "primary_key": []}
    assert source(dms={"before_image_settings": {}}, table=log).stream is not None


@pytest.mark.parametrize(
    ("given", "place", "why"),
    [
        ({"where": {}}, "stream", "needs either kinesis or kafka"),
        ({"where": {**KINESIS, **KAFKA}}, "stream", "needs either kinesis or kafka"),
        ({"engine": "oracle"}, "dms.change_sequence_column", "changes of oracle have no other order"),
        ({"dms": {"include_transaction_details": False}}, "dms.include_transaction_details", "must be true"),
        (
            {"dms": {"include_null_and_empty": False}},
            "dms.include_null_and_empty",
            "set stream.absent to null",
        ),
        ({"dms": {"before_image_settings": {}}}, "dms.before_image_settings", "former key"),
        ({"dms": {"csv_delimiter": ";"}}, "dms.csv_delimiter", "of an endpoint for S3"),
        (
            {"table": {"dms": {"csv_delimiter": ";"}}},
            "tables.public.items.dms",
            "cannot differ within a stream",
        ),
        ({"ignore_case": True}, "ignore_case", "has a stream"),
        (
            {"consistent_cut": True, "dms": {"include_transaction_details": False}},
            "consistent_cut",
            "show which transactions are whole",
        ),
    ],
)
def test_what_cannot_be_exact_is_refused(given: dict[str, Any], place: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        source(**given)
    assert place in str(refused.value)


def test_settings_of_a_stream_need_one() -> None:
    files = {"location": "b", "dms": {"no_hex_prefix": True}, "tables": {"a.t": {"columns": {"id": "long"}}}}
    with pytest.raises(ValueError, match=r"no_hex_prefix: is a setting of an endpoint for Kinesis or Kafka"):
        SourceConfig.model_validate(
            files | {"tables": {"a.t": {"columns": {"id": "long"}, "mode": "append_log"}}}
        )
