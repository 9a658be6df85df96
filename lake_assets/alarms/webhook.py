"""The request to the webhook.

Here: what is sent, how often it is tried, and messages without the address. Not here: which alarms are sent
(`send_alarms.py`).
"""

import logging
from datetime import UTC, datetime, timedelta
from typing import Self
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError, MaxRetryError
from urllib3.util import Retry, Timeout

from lake_assets.alarms.due_alarms import Alarm
from lake_assets.config import LakeConfig
from lake_assets.config.aws.secret_references import has_reference
from lake_assets.config.outputs.alarms import refuse_no_webhook
from lake_assets.config.secrets import hidden_in, keep_webhook_hidden
from lake_assets.errors import LakeError
from lake_assets.storage.secret_values import Secrets

TIMEOUT = timedelta(seconds=5)
"""How long one attempt may take to connect, and then to answer."""
RETRIES = Retry(
    total=2,
    backoff_factor=0.2,
    status_forcelist=(429, 500, 502, 503, 504),
    allowed_methods=None,
    redirect=False,
    respect_retry_after_header=False,
    raise_on_status=False,
)
"""The attempts of one round; the next round tries again. A server that asks to wait for minutes must not hold up the
round."""
PAUSES = timedelta(seconds=1)
"""An upper bound of the pauses between these attempts."""


class Refused(Exception):
    """The webhook has answered that it does not want this alarm; it may want the next one."""


class Denied(Refused):
    """The webhook does not know this address, or its token: the secret may have been rotated."""


class Unreachable(Exception):
    """The webhook has not answered, or has a fault of its own."""


class Webhook:
    """The webhook of lake.yaml, inside of a `with` block."""

    def __init__(self, config: LakeConfig, secrets: Secrets) -> None:
        assert config.alarms.webhook is not None
        self._config, self._secrets = config, secrets
        self._written = config.alarms.webhook.get_secret_value()
        seconds = TIMEOUT.total_seconds()
        self._pool = urllib3.PoolManager(timeout=Timeout(connect=seconds, read=seconds), retries=RETRIES)
        self._logs = [logging.getLogger(f"urllib3.{name}") for name in ("connectionpool", "util.retry")]

    def __enter__(self) -> Self:
        for log in self._logs:
            log.addFilter(self._hide)
        return self

    def __exit__(self, *error: object) -> None:
        for log in self._logs:
            log.removeFilter(self._hide)
        self._pool.clear()

    @property
    def longest(self) -> timedelta:
        """How long a call of `post` may take."""
        attempts = 1 + int(RETRIES.total or 0)
        return attempts * 2 * TIMEOUT + PAUSES

    def post(self, alarm: Alarm) -> None:
        """Returns if the webhook has accepted the alarm. Raises Refused or Unreachable."""
        rotated = Denied if has_reference(self._written) else ()
        try:
            self._secrets.use(self._address, lambda address: self._post(address, alarm), rotated)
        except LakeError as error:
            # The secret cannot be read, or the address with it is not valid.
            raise Unreachable(str(error).rstrip(".")) from None

    def _address(self) -> str:
        """The present address, with the present secret."""
        if not has_reference(self._written):
            return self._written
        address = self._secrets.filled(self._written).strip()
        keep_webhook_hidden(address)
        try:
            refuse_no_webhook(address)
        except ValueError as error:
            raise LakeError(
                f"alarms.webhook: with its secret it {error}; correct the secret or lake.yaml"
            ) from None
        return address

    def _post(self, address: str, alarm: Alarm) -> None:
        body = {
            "id": alarm.id,
            "mart": alarm.mart,
            "text": alarm.text,
            "row": dict(alarm.row),
            "sent_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        # Only the host is shown: the rest of the address may be a token.
        name = f"the webhook at {urlsplit(address).hostname}"
        try:
            answer = self._pool.request("POST", address, json=body, headers={"Idempotency-Key": alarm.id})
        except HTTPError as error:
            reason = error.reason if isinstance(error, MaxRetryError) else error
            # The error's own message would have the whole address.
            raise Unreachable(f"{name} did not answer ({type(reason).__name__})") from None
        if not 200 <= answer.status < 300:
            raise _fault(answer.status)(f"{name} answered {answer.status}")

    def _hide(self, record: logging.LogRecord) -> bool:
        """Hides the address: urllib3 logs its path at each attempt, and in warnings about a dead server."""
        record.msg, record.args = hidden_in(self._config, record.getMessage()), ()
        return True


def _fault(status: int) -> type[Exception]:
    if status in (401, 403, 404, 410):
        return Denied
    return Refused if 400 <= status < 500 and status != 429 else Unreachable
