"""Masked values in plain Python.

Here: what a mask makes of a value, by its definition: HMAC-SHA256 of RFC 2104 with the salt as its key, three stars, or
NULL. Shares no code with the package.
"""

import hmac
from collections.abc import Iterable, Mapping
from typing import Any

SALT = "the salt of a small lake"
MASKING: dict[str, Any] = {"masking": {"salt": SALT}}
"""A section of lake.yaml."""


def hashed(value: object, salt: str = SALT) -> str:
    return hmac.new(salt.encode(), str(value).encode(), "sha256").hexdigest()


def masked(
    rows: Iterable[Mapping[str, Any]], mask: Mapping[str, Any], salt: str = SALT
) -> list[dict[str, Any]]:
    """The rows with masked values; `mask` as in lake.yaml."""
    return [
        {name: _value(value, mask.get(name, "plain"), salt) for name, value in row.items()} for row in rows
    ]


def _value(value: Any, mask: str | None, salt: str) -> Any:
    if value is None or mask == "plain":
        return value
    return {"hash": hashed(value, salt), "redact": "***"}.get(mask or "null")
