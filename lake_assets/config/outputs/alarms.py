"""Alarms about rows of marts.

Not here: finding and sending them (`alarms/`).
"""

from string import Formatter
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator

from lake_assets.config.aws.secret_references import has_reference
from lake_assets.config.base import Model


class MartAlarm(Model):
    """Which rows of a mart raise an alarm."""

    key: tuple[str, ...] = Field(min_length=1)
    """The columns that name the thing that the alarm is about, such as a rack."""
    spell: str
    """A column that has the same value as long as the cause lasts, such as the time since when a rack is empty. Each
    key raises one alarm for each value. A row with NULL in this column or in the key raises none."""
    where: str | None = None
    """A condition on columns of the mart, such as `state = 'close' OR state = 'breach'`; by default every row raises an
    alarm."""
    text: str | None = None
    """The sentence that is sent, with columns in braces: `Rack {name} is empty since {empty_since}.`"""

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that `text` names."""
        return tuple(name for _, name, _, _ in Formatter().parse(self.text or "") if name is not None)

    @field_validator("text")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        try:
            list(Formatter().parse(value or ""))
        except ValueError as error:
            raise ValueError(f"has braces that do not match ({error}); write {{column}}") from None
        return value


class AlarmsConfig(Model):
    webhook: SecretStr | None = None
    """The address to which alarms are sent by POST, such as `${ALARM_WEBHOOK:-}` or `${secret:NAME:key}`. Without it,
    none are sent. It may contain a token, so it is never logged."""
    marts: dict[str, MartAlarm] = Field(default_factory=dict)
    """By mart, the alarm of its rows."""

    @field_validator("webhook")
    @classmethod
    def _an_address(cls, value: SecretStr | None) -> SecretStr | None:
        address = value.get_secret_value() if value is not None else ""
        if not address:
            return None
        if not has_reference(address):
            refuse_no_webhook(address)
        return value


def refuse_no_webhook(address: str) -> None:
    """Raises ValueError if the address cannot be a webhook's; the error does not contain the address."""
    if not address.startswith(("https://", "http://")) or not urlsplit(address).hostname:
        raise ValueError("is not the address of a webhook, which begins with https:// or http:// and a host")
