"""The shared parts of lake.yaml's models: refusing unknown keys, reporting every mistake, durations.

Not here: the keys of lake.yaml.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, WithJsonSchema, model_validator

_DURATION = re.compile(r"^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

CENTURY = timedelta(days=36525)
"""A time that is longer ago is a marker such as 1900-01-01, not a date."""
UNDECIDED = "undecided"
"""The value in a generated lake.yaml where the user has to decide; a lake.yaml that contains it is not valid."""

Keys = tuple[str | int, ...]
"""The path of keys to a place of lake.yaml."""
Mistake = tuple[Keys, str]
"""The path of keys from the validating model, and what is wrong."""


def setting_text(value: object) -> str:
    """The value of a setting of Spark or Iceberg; booleans in lower case, as in Java."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Mistakes(ValueError):
    """Every mistake of one validator: pydantic reports them as a single error, `config_file` as a line for each."""

    def __init__(self, found: Sequence[Mistake]) -> None:
        self.found = tuple(found)
        super().__init__("; ".join(f"{'.'.join(map(str, keys))}: {text}" for keys, text in self.found))


def refuse(found: Iterable[Mistake]) -> None:
    """Raises Mistakes unless there are none."""
    if mistakes := list(found):
        raise Mistakes(mistakes)


def did_you_mean(name: str, known: Collection[str]) -> str:
    """`"; did you mean x?"` for the nearest of the known names, else nothing."""
    by_case = {entry.lower(): entry for entry in known}
    near = difflib.get_close_matches(name.lower(), by_case, n=1, cutoff=0.6)
    return f"; did you mean {by_case[near[0]]}?" if near else ""


def parse_duration(value: Any) -> Any:
    """`"90s"`, `"5m"`, `"2h"`, `"1d"` (or a number of seconds) as a timedelta; anything else is left to pydantic."""
    if isinstance(value, str) and (match := _DURATION.match(value.strip())):
        return timedelta(seconds=float(match[1]) * _UNIT_SECONDS[match[2]])
    if isinstance(value, str | bool) or (isinstance(value, int | float) and not 0 <= value < float("inf")):
        raise ValueError(f"expected a duration such as 30s, 5m, 2h or 1d, found {value!r}")
    return value


def matching(pattern: str, wrong: str) -> AfterValidator:
    """A validator for text that the pattern must match as a whole; `wrong` is the message after the quoted text."""

    def checked(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(f"{value!r} {wrong}")
        return value

    return AfterValidator(checked)


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": ["string", "number"], "pattern": r"^\d+(\.\d+)?\s*(ms|s|m|h|d)$"}),
]


class Model(BaseModel):
    """Refuses unknown keys, so that a misspelt setting is never silently ignored."""

    # A ValidationError in a log must not quote a value of the file: it may be a password.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    parts: ClassVar[Mapping[str, "type[Model]"]] = {}
    """Keys whose value is a mapping with a subset of another model's keys."""
    short_form: ClassVar[Mapping[str, Any] | None] = None
    """The JSON schema of the short form, which may replace the mapping."""


class Switched(Model):
    """A section that `true` switches on with its defaults."""

    short_form: ClassVar[Mapping[str, Any] | None] = {"const": True}

    @model_validator(mode="before")
    @classmethod
    def _switched_on(cls, value: Any) -> Any:
        return {} if value is True else value
