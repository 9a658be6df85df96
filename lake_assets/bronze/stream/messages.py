"""One message of a stream that AWS DMS writes to: a row's change, a control record, or neither.

Here: the envelope and the tokens of its values. Not here: the order of changes (`change_order.py`), files
(`landed_files.py`), reading a stream (`clients/`). Pure.

A value is the text of its JSON token: a number of any length keeps each of its digits, because no float is in between.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from types import NoneType
from typing import Any

import msgspec

Values = Mapping[str, str | None]
"""By column, its text; None for JSON's null. A column that is absent has no entry."""

OPERATIONS = {"load": "I", "insert": "I", "update": "U", "delete": "D"}
"""By the operation in a data record, that of a file's row."""
CONTROLS = frozenset(
    {
        "create-table",
        "rename-table",
        "drop-table",
        "change-columns",
        "add-column",
        "drop-column",
        "rename-column",
        "column-type-change",
    }
)
DATA, CONTROL = "data", "control"
MARK = b'"control"'
"""In each control record, and in few other messages."""
LOAD = b'"load"'
"""In each row of a full load, and in few other messages."""
AGGREGATED = b"\xf3\x89\x9a\xc2"
"""The first bytes of a record in which the Kinesis Producer Library has put several together."""


class Unreadable(Exception):
    """Why a message is no message of DMS."""


class Metadata(msgspec.Struct, frozen=True, rename="kebab"):
    """What DMS says of a record. Names that are unknown here are ignored."""

    record_type: str
    operation: str
    timestamp: str | None = None
    """When DMS built the message, which is no commit time: a message that is sent again has a new one."""
    schema_name: str = ""
    table_name: str = ""
    transaction_id: int | None = None
    transaction_record_id: int | None = None
    prev_transaction_id: int | None = None
    prev_transaction_record_id: int | None = None
    commit_timestamp: str | None = None

    @property
    def table(self) -> tuple[str, str]:
        """Schema and table; empty texts in a record of the task."""
        return self.schema_name, self.table_name


class Change(msgspec.Struct, frozen=True):
    """A row of a table: of its full load, or changed."""

    metadata: Metadata
    values: Values
    before: Values = {}
    """The before image: nothing, only the key, or more columns, by the endpoint's settings."""

    @property
    def is_load(self) -> bool:
        return self.metadata.operation == "load"

    @property
    def operation(self) -> str:
        """I, U or D."""
        return OPERATIONS[self.metadata.operation]


class Control(msgspec.Struct, frozen=True):
    """A change of a table's definition, as DMS reports it."""

    metadata: Metadata
    details: Any
    """What the record says beside its metadata: None without IncludeControlDetails."""


def parse(value: bytes, before_image: str = "before-image") -> Change | Control:
    """The message. `before_image`: the FieldName of BeforeImageSettings. Raises Unreadable."""
    if value.startswith(AGGREGATED):
        raise Unreadable(
            "the Kinesis Producer Library has put several records together in it, which DMS never does: have the "
            "program that writes it use another stream"
        )
    try:
        message = _decoder(before_image).decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"it is no JSON object with DMS's metadata ({error})") from error
    metadata: Metadata = message.metadata
    if metadata.record_type == CONTROL and metadata.operation in CONTROLS:
        return Control(metadata, _plain(message.control))
    if metadata.record_type != DATA or metadata.operation not in OPERATIONS:
        raise Unreadable(
            f"its record-type is {metadata.record_type!r} and its operation {metadata.operation!r}, which DMS does not "
            "document"
        )
    if not metadata.schema_name or not metadata.table_name:
        raise Unreadable("its metadata names no schema or no table")
    if not bytes(message.data).strip():
        raise Unreadable("it has no data")
    return Change(metadata, _values(message.data, "data"), _values(message.before, before_image))


@lru_cache(maxsize=16)
def _decoder(before_image: str) -> "msgspec.json.Decoder[Any]":
    raw = msgspec.Raw()
    fields: list[Any] = [
        ("metadata", Metadata),
        ("data", msgspec.Raw, raw),
        ("control", msgspec.Raw, raw),
        ("before", msgspec.Raw, raw),
    ]
    envelope = msgspec.defstruct("Envelope", fields, rename={"before": before_image})
    return msgspec.json.Decoder(envelope)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unreadable(f"it has {twice!r} twice in one JSON object, and which of the two counts is unknown")
    return found


_members = json.JSONDecoder(object_pairs_hook=_once, parse_int=str, parse_float=str)
_tokens = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXTS = {str, NoneType}


def _values(raw: msgspec.Raw, name: str) -> Values:
    if not (token := bytes(raw)):
        return {}
    try:
        found = _members.decode(token.decode())
        if not isinstance(found, dict):
            raise ValueError("it is something else")
        if not {*map(type, found.values())} <= _TEXTS:
            tokens = _tokens.decode(token)
            found = {
                column: value if type(value) in _TEXTS else bytes(tokens[column]).decode()
                for column, value in found.items()
            }
        if b"\\u" in token:
            # Half of a surrogate pair is no character.
            "".join([*found, *filter(None, found.values())]).encode()
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"its {name} is no JSON object of columns ({error})") from error
    return found


def _plain(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw) if bytes(raw) else None
