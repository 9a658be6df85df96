"""What a message says, and the order of its change."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lake_assets.bronze.stream.change_order import change_sequence, commit_time, time_of
from lake_assets.bronze.stream.messages import Change, Control, Unreadable, parse
from lake_assets_tests.helpers.files.dms_messages import control, message


def change(value: bytes, before_image: str = "before-image") -> Change:
    found = parse(value, before_image)
    assert isinstance(found, Change)
    return found


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("12345678901234567890.123456789", "12345678901234567890.123456789"),
        ("36.00", "36.00"),
        ("1.23456789012345E+18", "1.23456789012345E+18"),
        ("-0", "-0"),
        ("true", "true"),
        ('"a \\"quoted\\" \\u00e9\\n"', 'a "quoted" é\n'),
        ('""', ""),
        ("null", None),
        ('{"a": [1, 2.50]}', '{"a": [1, 2.50]}'),
        ("[true, 1.0, null]", "[true, 1.0, null]"),
        ('"\\ud83d\\ude00 \\u0000"', "\U0001f600 \0"),
    ],
)
def test_a_value_is_the_text_of_its_token(token: str, text: str | None) -> None:
    value = message("insert", {"v": "here"}).replace(b'"here"', token.encode())
    assert change(value).values == {"v": text}


def test_an_absent_column_is_not_null() -> None:
    assert change(message("update", {"a": None}, before={})).values == {"a": None}


def test_the_before_image_has_the_name_that_the_endpoint_gives_it() -> None:
    value = message("update", {"id": 1}, before={"id": 2}).replace(b"before-image", b"old")
    assert change(value, "old").before == {"id": "2"}
    assert change(value).before == {}


def test_a_control_record_keeps_all_it_says() -> None:
    found = parse(control("add-column", {"columns": {"v": {"type": "WSTRING"}}, "more": 1}))
    assert isinstance(found, Control)
    assert found.details == {"columns": {"v": {"type": "WSTRING"}}, "more": 1}
    bare = parse(b'{"metadata": {"record-type": "control", "operation": "drop-table"}}')
    assert isinstance(bare, Control)
    assert (bare.metadata.operation, bare.details) == ("drop-table", None)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "no JSON object"),
        (b"\xff", "no JSON object"),
        (b"[1]", "no JSON object"),
        (b'{"data": {"id": 1}}', "no JSON object with DMS's metadata"),
        (b'{"metadata": {"record-type": "data", "operation": "truncate"}}', "'truncate'"),
        (
            b'{"metadata": {"record-type": "data", "operation": "insert"}, "data": {}}',
            "no schema or no table",
        ),
        (message("insert", {}).replace(b'"data": {}', b'"data": [1]'), "no JSON object of columns"),
        (message("insert", {}).replace(b'"data": {},', b""), "it has no data"),
        (message("insert", {"v": "x"}).replace(b'"x"', b'"\\ud800"'), "no JSON object"),
        (message("insert", {"v": "x"}).replace(b'"v"', b'"\\ud800"'), "no JSON object"),
        (message("insert", {"v": "x"}).replace(b"x", b"\xff"), "no JSON object"),
        (message("insert", {"v": "x"}).replace(b"x", b"\0"), "no JSON object"),
        (message("insert", {"v": "x"}).replace(b'"x"', b"NaN"), "no JSON object"),
        (message("insert", {"v": "x"}).replace(b'"x"', b"[" * 100_000 + b"]" * 100_000), "no JSON object"),
        (message("insert", {"v": "x"}).replace(b'"v"', b'"v": 1, "w": 2, "v"'), "it has 'v' twice"),
        (message("insert", {"v": "x"}).replace(b'"v"', b'"v": "x", "\\u0076"'), "it has 'v' twice"),
        (message("insert", {"v": "x"}).replace(b'"x"', b'{"a": 1, "a": 2}'), "it has 'a' twice"),
        (message("update", {}, before={"id": 1}).replace(b'"id"', b'"id": 2, "id"'), "it has 'id' twice"),
        (b"\xf3\x89\x9a\xc2" + message("insert", {}), "Kinesis Producer Library has put several records"),
    ],
)
def test_what_is_no_message_of_dms_says_why(value: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        parse(value)


def test_the_order_of_mysql_is_the_place_in_its_binary_log() -> None:
    """The commit's time may be earlier than that of a transaction before: it is that of the statement's start."""
    late = datetime(2026, 3, 1, 13, tzinfo=UTC)
    places: list[tuple[dict[str, Any], datetime]] = [
        ({"transaction-id": (157832 << 32) + 1808, "transaction-record-id": 1}, late),
        ({"transaction-id": (157832 << 32) + 1808, "transaction-record-id": 12}, late),
        (
            {"transaction-id": (157832 << 32) + 2002, "transaction-record-id": 1},
            datetime(2026, 3, 1, 12, tzinfo=UTC),
        ),
        (
            {"transaction-id": (157833 << 32) + 4, "transaction-record-id": 1},
            datetime(2026, 3, 1, 11, tzinfo=UTC),
        ),
    ]
    found = [
        change_sequence("mysql", None, change(message("insert", {}, at=at, **said))) for said, at in places
    ]
    assert found == sorted(found)
    assert found[0] == "157832" + "0000001808" + "0000000000000000001"
    assert {len(one) for one in found} == {35}


def test_the_order_of_postgresql_is_the_time_of_the_commit_and_the_record() -> None:
    at = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
    found = change_sequence("postgresql", None, change(message("insert", {}, at=at, record=7)))
    assert found == "2026030112000012" + "3456" + "000000000000007"
    assert time_of(found) == datetime(2026, 3, 1, 12, 0, 0, 120000, tzinfo=UTC)


def test_a_column_with_dms_own_sequence_wins() -> None:
    own = "20260301120000000000000000000000123"
    assert change_sequence("oracle", "seq", change(message("insert", {"seq": own}))) == own
    for wrong in ({"seq": "1"}, {"seq": ""}, {}, {"seq": 12}):
        with pytest.raises(Unreadable, match="35 digits"):
            change_sequence("oracle", "seq", change(message("insert", wrong)))


@pytest.mark.parametrize(
    ("engine", "said", "why"),
    [
        ("mysql", {"transaction-id": None}, "IncludeTransactionDetails"),
        ("mysql", {"transaction-id": 0}, "orders nothing"),
        ("mysql", {"transaction-id": 1 << 62}, "no place in a binary log"),
        ("postgresql", {"transaction-record-id": None}, "IncludeTransactionDetails"),
        ("postgresql", {"commit-timestamp": None}, "commit-timestamp"),
        ("postgresql", {"commit-timestamp": "yesterday"}, "no time"),
        ("oracle", {}, "AR_H_CHANGE_SEQ"),
        ("sqlserver", {}, "AR_H_CHANGE_SEQ"),
    ],
)
def test_a_change_without_an_order_says_why(engine: str, said: dict[str, Any], why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        change_sequence(engine, None, change(message("insert", {"id": 1}, **said)))


def test_a_time_with_a_zone_is_an_instant() -> None:
    said = json.loads(message("insert", {}))["metadata"]["commit-timestamp"]
    assert said.endswith("Z")
    assert commit_time(change(message("insert", {})).metadata) == datetime(2026, 3, 1, 12, tzinfo=UTC)
