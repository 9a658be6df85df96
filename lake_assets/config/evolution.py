"""The settings for changes of a source's columns, and earlier layouts of its files.

Here: policies, earlier layouts, limits of the quarantine. Not here: applying a policy to a change (`schema/evolve.py`).
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from lake_assets.config.base import Mistake, Model, matching, refuse
from lake_assets.config.columns import Columns
from lake_assets.config.dms import DmsSettings, OwnSettings

_FlushTime = Annotated[
    str,
    matching(r"\d{8}-\d{9,10}", "is not the name of a CDC file without its extension: YYYYMMDD-HHMMSSmmm"),
]
_ChangeSequence = Annotated[str, matching(r"\d{35}", "is not a change sequence of 35 digits")]
EARLIER_SETTINGS = (
    "include_op_for_full_load",
    "op_in_cdc",
    "operation_column",
    "operations",
    "timestamp_column_name",
    "timestamp_zone",
    "change_sequence_column",
    "added_columns",
    "before_image_prefix",
    "before_image_columns",
    "csv_null_value",
)
"""The settings that an earlier layout may change: the columns that DMS adds, and the meaning of values. The settings by
which a file is parsed must stay the same."""


class Policy(StrEnum):
    """The policy for one kind of change."""

    EVOLVE = "evolve"
    IGNORE = "ignore"
    STOP = "stop"


class SchemaChanges(Model):
    """The policy for columns that the source adds, drops or widens. A single word sets all three."""

    added: Policy = Policy.EVOLVE
    """evolve: silver gets the column (Parquet states its type; a CSV column needs its type in lake.yaml). ignore: not
    read."""
    dropped: Policy | Literal["drop"] = Policy.EVOLVE
    """evolve: silver keeps the column, NULL from then on. drop: silver drops it once lake.yaml no longer has it.
    ignore: as evolve, but not reported."""
    widened: Policy = Policy.EVOLVE
    """evolve: silver's column is promoted. ignore: the column stays, and a row with a value that does not fit is
    bad."""

    short_form: ClassVar[Mapping[str, Any] | None] = {"enum": [policy.value for policy in Policy]}

    @model_validator(mode="before")
    @classmethod
    def _one_word(cls, value: Any) -> Any:
        return {"added": value, "dropped": value, "widened": value} if isinstance(value, str) else value


class EarlierLayout(Model):
    """The layout of files before a change of the source or of the endpoint, where the files do not show it, as in CSV
    without a header. Keys that an entry leaves out are as in the next entry; for the last entry, as in the table."""

    parts: ClassVar[Mapping[str, type[Model]]] = {"dms": DmsSettings}

    until_file: _FlushTime | None = None
    """`YYYYMMDD-HHMMSSmmm`, from the name of the first file of the next layout."""
    until_sequence: _ChangeSequence | None = None
    """35 digits: the change sequence of the first change of the next layout."""
    columns: Columns | None = None
    """The source's columns."""
    dms: OwnSettings = Field(default_factory=dict)
    """Endpoint settings that differed then: those of columns that DMS adds, and of the meaning of values."""

    @field_validator("dms")
    @classmethod
    def _settings(cls, value: dict[str, Any]) -> dict[str, Any]:
        refuse(_fixed(value))
        return value

    @model_validator(mode="after")
    def _one_end(self) -> "EarlierLayout":
        if (self.until_file is None) == (self.until_sequence is None):
            raise ValueError("an earlier layout needs either until_file or until_sequence")
        if self.columns is None and not self.dms:
            raise ValueError("an earlier layout needs columns, dms, or both")
        return self

    @property
    def until(self) -> datetime:
        """When the next layout begins, UTC."""
        digits = (self.until_file or self.until_sequence or "").replace("-", "")
        fraction = digits[14:17] if self.until_file else digits[14:16]
        whole = datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        return whole.replace(microsecond=int(fraction.ljust(6, "0")))


def _fixed(settings: Mapping[str, Any]) -> Iterator[Mistake]:
    for name in settings:
        if name not in EARLIER_SETTINGS:
            yield (name,), f"cannot differ in an earlier layout; these can: {', '.join(EARLIER_SETTINGS)}"


class QuarantineLimits(Model):
    """How much of a batch may be quarantined before its table stops instead."""

    max_rows: int = Field(default=100, ge=0)
    max_share: float = Field(default=0.1, ge=0, le=1)
    """Share of the batch's rows, for batches of twenty rows or more."""
    max_files: int = Field(default=3, ge=0)
    """CDC files that cannot be read at all. A part of a full load is never quarantined: its table would lack rows."""
