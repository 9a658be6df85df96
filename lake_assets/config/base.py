"""What the models of lake.yaml share: refusing unknown keys, reporting every mistake, durations.

Not here: any key of lake.yaml.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, WithJsonSchema, model_validator

_DURATION = re.compile(r"^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

UNDECIDED = "undecided"
"""Stands in a generated lake.yaml for what its generator could not know; no lake is opened with it."""

Mistake = tuple[tuple[str | int, ...], str]
"""The keys that lead to it from the model that found it, and what is wrong."""


class Mistakes(ValueError):
    """Every mistake that one validator found: pydantic reports a single error for it, `config_file` a line for each."""

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
    """For a text that the pattern has to match as a whole; `wrong` is what the mistake says after quoting it."""

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
    """Unknown keys are refused, so that a misspelt setting cannot be silently without effect."""

    # A ValidationError that reaches a log must not quote what was in the file: it may be a password.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    parts: ClassVar[Mapping[str, "type[Model]"]] = {}
    """Keys whose value is a mapping with some of another model's keys."""
    short_form: ClassVar[Mapping[str, Any] | None] = None
    """The JSON schema of what may stand in place of the keys."""


class Switched(Model):
    """A part that `true` switches on with all of its defaults."""

    short_form: ClassVar[Mapping[str, Any] | None] = {"const": True}

    @model_validator(mode="before")
    @classmethod
    def _switched_on(cls, value: Any) -> Any:
        return {} if value is True else value
