"""One message of a stream that AWS DMS writes to: a row's change, a control record, or neither.

Here: the envelope and the tokens of its values. Not here: the order of changes (`change_order.py`), files
(`landed_files.py`), reading a stream (`clients/`). Pure.

A value is the text of its JSON token: a number of any length keeps each of its digits, because no float is in between.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
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
    commit_timestamp: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A row of a table: of its full load, or changed."""

    metadata: Metadata
    values: Values
    before: Values = field(default_factory=dict)
    """The before image: nothing, only the key, or more columns, by the endpoint's settings."""

    @property
    def is_load(self) -> bool:
        return self.metadata.operation == "load"

    @property
    def operation(self) -> str:
        """I, U or D."""
        return OPERATIONS[self.metadata.operation]


@dataclass(frozen=True, slots=True)
class Control:
    """A change of a table's definition, as DMS reports it."""

    metadata: Metadata
    details: Any
    """What the record says beside its metadata: None without IncludeControlDetails."""


def parse(value: bytes, before_image: str = "before-image") -> Change | Control:
    """The message. `before_image`: the FieldName of BeforeImageSettings. Raises Unreadable."""
    try:
        message = _decoder(before_image).decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
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


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text = msgspec.json.Decoder(str)


def _values(raw: msgspec.Raw, name: str) -> Values:
    if not bytes(raw):
        return {}
    try:
        return {column: _value(bytes(token)) for column, token in _members.decode(raw).items()}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"its {name} is no JSON object of columns ({error})") from error


def _value(token: bytes) -> str | None:
    if token.startswith(b'"'):
        return _text.decode(token)
    return None if token == b"null" else token.decode()


def _plain(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw) if bytes(raw) else None
