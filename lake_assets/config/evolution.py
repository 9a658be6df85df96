"""What a table does when its source's columns change, and what it knows of layouts that are gone.

Here: policies, earlier layouts, limits of the quarantine. Not here: what a policy means for a change
(`schema/evolve.py`).
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
"""What may have been otherwise: the columns that DMS adds, and what values mean. How a file is taken apart may not."""


class Policy(StrEnum):
    """Of one kind of change."""

    EVOLVE = "evolve"
    IGNORE = "ignore"
    STOP = "stop"


class SchemaChanges(Model):
    """What becomes of a column that the source adds, drops or widens. One word stands for all three."""

    added: Policy = Policy.EVOLVE
    """evolve: silver gets it (Parquet says its type; a CSV column needs its type in lake.yaml). ignore: not read."""
    dropped: Policy | Literal["drop"] = Policy.EVOLVE
    """evolve: silver keeps it, NULL from then on. drop: silver drops it once lake.yaml no longer has it. ignore: as
    evolve, untold."""
    widened: Policy = Policy.EVOLVE
    """evolve: silver's column is promoted. ignore: it stays, and a value that does not fit is a bad row."""

    short_form: ClassVar[Mapping[str, Any] | None] = {"enum": [policy.value for policy in Policy]}

    @model_validator(mode="before")
    @classmethod
    def _one_word(cls, value: Any) -> Any:
        return {"added": value, "dropped": value, "widened": value} if isinstance(value, str) else value


class EarlierLayout(Model):
    """What files were before a change of the source or of the endpoint, where nothing in the files says it, as in CSV
    without a header. What an entry leaves out is as in the next one, after the last one as in the table."""

    parts: ClassVar[Mapping[str, type[Model]]] = {"dms": DmsSettings}

    until_file: _FlushTime | None = None
    """`YYYYMMDD-HHMMSSmmm`, as in the name of the first file of the next layout."""
    until_sequence: _ChangeSequence | None = None
    """35 digits: the change sequence of the first change of the next layout."""
    columns: Columns | None = None
    """The source's columns."""
    dms: OwnSettings = Field(default_factory=dict)
    """Endpoint settings, of EARLIER_SETTINGS."""

    @field_validator("dms")
    @classmethod
    def _settings(cls, value: dict[str, Any]) -> dict[str, Any]:
        refuse(_fixed(value))
        return value

    @model_validator(mode="after")
    def _one_end(self) -> "EarlierLayout":
        if (self.until_file is None) == (self.until_sequence is None):
            raise ValueError("an earlier layout ends with until_file or with until_sequence, one of them")
        if self.columns is None and not self.dms:
            raise ValueError("an earlier layout says what was otherwise: columns, dms, or both")
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
            yield (name,), f"cannot have been otherwise; what can: {', '.join(EARLIER_SETTINGS)}"


class QuarantineLimits(Model):
    """How much of a batch may be set aside before its table stops instead."""

    max_rows: int = Field(default=100, ge=0)
    max_share: float = Field(default=0.1, ge=0, le=1)
    """Of the batch's rows, from twenty rows on."""
    max_files: int = Field(default=3, ge=0)
    """CDC files that cannot be read at all. A part of a full load is never set aside: its table would lack rows."""
