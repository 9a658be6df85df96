"""The values of secrets in AWS Secrets Manager.

Here: reading, and keeping for a while. Not here: where lake.yaml may refer to one (`config/aws/secret_references.py`),
the client (`aws_client.py`). No message has a value; every value that was read is hidden in all messages.
"""

import json
import logging
import time
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

from lake_assets.config.aws.secret_references import with_value
from lake_assets.config.secrets import keep_hidden
from lake_assets.errors import LakeError
from lake_assets.storage.aws_faults import aws_errors, explained

KEPT = 300.0
"""For how many seconds a value is used before it is read again. A value that a database refuses is read again at
once."""
_ADVICE = {
    "ResourceNotFoundException": "correct its name, or secrets.region",
    "AccessDeniedException": "grant secretsmanager:GetSecretValue on it, and kms:Decrypt on its key",
    "DecryptionFailure": "grant kms:Decrypt on its key",
    "UnrecognizedClientException": "renew the credentials",
    "ExpiredTokenException": "renew the credentials",
    "InvalidRequestException": "see that it is not about to be deleted",
}

G = TypeVar("G")
T = TypeVar("T")
Refusals = type[Exception] | tuple[type[Exception], ...]

logger = logging.getLogger(__name__)


class SecretUnavailable(LakeError):
    """A secret of lake.yaml cannot be read. The message is one sentence: which secret, what is wrong, what to do."""


class Secrets:
    """Reads secrets, and keeps each for KEPT seconds. Threads may share it."""

    def __init__(self, client: Callable[[], Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._lock = Lock()
        self._kept: dict[str, tuple[float, str]] = {}

    def value(self, name: str, key: str | None = None) -> str:
        """The secret's text, or the value of a key in its JSON. Raises SecretUnavailable."""
        with self._lock:
            text = self._text(name)
        value = text if key is None else _entry(name, key, text)
        keep_hidden(value)
        return value

    def filled(self, text: str) -> str:
        """The text with values instead of references. Raises SecretUnavailable."""
        return with_value(text, self.value)

    def use(self, filled: Callable[[], G], use: Callable[[G], T], refused: Refusals) -> T:
        """The result of `use` with what `filled` makes of the values. If it raises one of `refused`, and a value has
        been rotated since it was read, `use` is called once more."""
        given = filled()
        try:
            return use(given)
        except refused:
            self.forget()
            if (again := filled()) == given:
                raise
        return use(again)

    def forget(self) -> None:
        """Makes each secret be read again before its next use: a service has refused a value, which may have been
        rotated."""
        with self._lock:
            self._kept = {name: (float("-inf"), text) for name, (_, text) in self._kept.items()}

    def _text(self, name: str) -> str:
        at, known = self._kept.get(name, (float("-inf"), None))
        if known is not None and self._clock() - at < KEPT:
            return known
        try:
            found = self._client().get_secret_value(SecretId=name).get("SecretString")
        except aws_errors() as error:
            message = explained(
                error,
                "Secrets Manager",
                f"the secret {name}",
                f"the secret {name}: Secrets Manager",
                _ADVICE,
                "secrets.endpoint",
            )
            if known is None:
                raise SecretUnavailable(message[0].upper() + message[1:]) from error
            # A service that is down for a moment must not stop what has worked so far.
            logger.warning("%s The value of before is used.", message)
            found = known
        if found is None:
            raise SecretUnavailable(f"The secret {name} is binary: store it as text or JSON.")
        self._kept[name] = self._clock(), found
        return str(found)


def _entry(name: str, key: str, text: str) -> str:
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise SecretUnavailable(
            f"The secret {name} is no JSON object: write ${{secret:{name}}} for its whole text, or store it as "
            f'{{"{key}": …}}.'
        )
    if key not in content or isinstance(content[key], dict | list | None):
        known = ", ".join(sorted(content)) or "no keys"
        raise SecretUnavailable(f"The secret {name} has no value {key}; it has {known}: correct lake.yaml.")
    return str(content[key])
