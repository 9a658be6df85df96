"""References in lake.yaml to values in AWS Secrets Manager: `${secret:NAME}` and `${secret:NAME:key}`.

Here: finding them, where they may be, and replacing them. Not here: the values (`storage/secret_values.py`). The
configuration has only the references, so no repr of it shows a secret, and a rotated secret is read again.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast
from urllib.parse import quote

from pydantic import BaseModel, SecretStr

# A name may be an ARN, which has colons of its own.
_REFERENCE = re.compile(
    r"\$\{secret:(?P<name>arn:(?:[^:{}]*:){5}[^:{}]+|(?!arn:)[^:{}]+)(?::(?P<key>[^:{}]+))?\}"
)
_KEYS = ("access_key_id", "secret_access_key", "session_token")
WRITE = "write ${secret:NAME} or ${secret:NAME:key} for a value in AWS Secrets Manager"
PLACES = (
    "catalog.uri and further keys of a catalog that is not sqlite, spark.remote, spark.conf, alarms.webhook, "
    "connect and open_catalog.client_secret of warehouses.snowflake, a source's database, and "
    f"{', '.join(_KEYS)} of its s3, dms_task and notifications"
)
Value = Callable[[str, str | None], str]
"""The value of a secret, by its name and the key in its JSON."""
M = TypeVar("M", bound=BaseModel)


def mistake(text: str, keys: Sequence[str | int]) -> str | None:
    """What is wrong with a `${secret:…}` in the value of these keys of lake.yaml, if anything."""
    if _REFERENCE.fullmatch(text) is None:
        return WRITE
    return None if _allowed(keys) else f"cannot be a secret; a secret may be in {PLACES}"


def _allowed(keys: Sequence[str | int]) -> bool:
    match keys:
        case ["catalog", key]:
            return key not in ("name", "type", "warehouse")
        case ["spark", "remote"] | ["spark", "conf", _] | ["sources", _, "database"] | ["alarms", "webhook"]:
            return True
        case ["warehouses", "snowflake", "connect", _] | ["warehouses", _, "open_catalog", "client_secret"]:
            return True
        case ["sources", _, "s3" | "dms_task" | "notifications", key]:
            return key in _KEYS
        case ["sources", _, "tables", _, "dms_task", key]:
            return key in _KEYS
    return False


def has_reference(text: str) -> bool:
    """Whether the text refers to a secret."""
    return "${secret:" in text and _REFERENCE.search(text) is not None


def with_value(text: str, value: Value) -> str:
    """The text with values instead of references. In an address they are percent-encoded, as its parts must be."""
    address = "://" in _REFERENCE.sub("", text)

    def found(match: re.Match[str]) -> str:
        given = value(match["name"], match["key"])
        return quote(given, safe="") if address else given

    return _REFERENCE.sub(found, text) if has_reference(text) else text


def with_values(model: M, value: Value) -> M:
    """A copy of the model with values instead of references; the model itself if it has none."""
    given = dict(model)
    filled = {name: _filled(each, value) for name, each in given.items()}
    changed = {name: each for name, each in filled.items() if each is not given[name]}
    return model.model_copy(update=changed) if changed else model


def _filled(given: Any, value: Value) -> Any:
    """The object with values instead of references; the same object if it has none."""
    if isinstance(given, str):
        return with_value(given, value)
    if isinstance(given, SecretStr):
        text = given.get_secret_value()
        return SecretStr(with_value(text, value)) if has_reference(text) else given
    if isinstance(given, BaseModel):
        return with_values(given, value)
    if isinstance(given, dict):
        filled = {name: _filled(each, value) for name, each in given.items()}
        return filled if any(filled[name] is not each for name, each in given.items()) else given
    return given


def refers(model: BaseModel) -> bool:
    """Whether a value of the model refers to a secret."""

    def placeholder(name: str, key: str | None) -> str:
        return ""

    return with_values(model, placeholder) is not cast(Any, model)
