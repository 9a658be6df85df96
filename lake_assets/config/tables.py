"""A table's contract: columns and types, key, shape, partitions, limits.

Not here: the source it belongs to (`lake_config.py`), or how the engine uses it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from lake_assets.config.base import Duration, Mistake, Model, did_you_mean, refuse
from lake_assets.config.columns import Column, Columns
from lake_assets.config.dms import DmsSettings, DmsTask, OwnSettings
from lake_assets.config.evolution import EarlierLayout, QuarantineLimits, SchemaChanges

_PARTITION = re.compile(
    r"(?P<time>day|month|year|hour)\((?P<of>\w+)\)|(?:bucket|truncate)\([1-9]\d*,\s*(?P<by>\w+)\)|(?P<same>\w+)"
)


def _partition_mistake(entry: str, types: dict[str, str]) -> str | None:
    """What is wrong with an entry of partition_by, by the Iceberg spec's table of transforms and source types."""
    if (match := _PARTITION.fullmatch(entry)) is None:
        cut = "; quote one with a comma" if entry.count("(") != entry.count(")") else ""
        return f"{entry!r} is not a partition transform such as day(started_at) or bucket(16, id){cut}"
    column = match["of"] or match["by"] or match["same"]
    if column not in types:
        return f"{entry} names {column}, which columns does not have{did_you_mean(column, types)}"
    allowed = ("timestamp", "timestamptz") + (() if match["time"] == "hour" else ("date",))
    if match["time"] and types[column] not in allowed:
        return (
            f"{entry} needs a column of type {' or '.join(allowed)}, and {column} is of type {types[column]}"
        )
    return None


class Mode(StrEnum):
    """The shape of a silver table."""

    CURRENT = "current"
    SOFT_DELETE = "soft_delete"
    HISTORY = "history"
    FULL_ROW = "full_row"
    APPEND_LOG = "append_log"
    CHANGE_LOG = "change_log"


ICEBERGS_OWN = frozenset(
    ("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number")
)
"""Its metadata columns: a table may have a column of such a name, and Spark then cannot read it."""
AS_ANOTHER = "give it another name, and say in renamed_from what the files call it"
OnVanished = Literal["keep", "truncate", "drop"]
KEYED_MODES = frozenset({Mode.CURRENT, Mode.SOFT_DELETE, Mode.HISTORY})
"""Shapes that need a key, and the order of its changes."""
TIMED_MODES = frozenset({Mode.SOFT_DELETE, Mode.HISTORY, Mode.CHANGE_LOG})
"""Shapes whose rows tell commit times."""
FURTHER_SHAPES = {Mode.CHANGE_LOG: "_changes", Mode.HISTORY: "_history"}
"""What `also` may name, and what follows the table's name then."""
SHAPE_COLUMNS = {
    Mode.CHANGE_LOG: (
        Column(name="_op", type="string"),
        Column(name="_commit_ts", type="timestamptz"),
        Column(name="_sequence", type="string"),
    ),
    Mode.HISTORY: (
        Column(name="_valid_from", type="timestamptz", required=True),
        Column(name="_valid_to", type="timestamptz"),
        Column(name="_is_current", type="boolean", required=True),
    ),
    Mode.SOFT_DELETE: (
        Column(name="_is_deleted", type="boolean", required=True),
        Column(name="_deleted_at", type="timestamptz"),
    ),
}
"""The columns that a shape has beside the source's."""


def name_mistake(name: str, others: Iterable[str], shapes: Iterable[Mode]) -> str | None:
    """Why a table of these shapes that has the columns `others` cannot have a column of this name, as what follows the
    name; None if it can."""
    folded = name.lower()
    if not name:
        return "has the empty text for a name, which no column of silver can have"
    if folded in ICEBERGS_OWN:
        return "is a name that Iceberg keeps for itself"
    for shape in shapes:
        if any(column.name == folded for column in SHAPE_COLUMNS.get(shape, ())):
            return f"has the name of a column that {shape} adds"
    if (other := next((o for o in others if o != name and o.lower() == folded), None)) is not None:
        return f"differs from {other} only in case, which Spark does not distinguish"
    return None


class FullLoadComplete(Model):
    """When all parts of a full load are taken to have arrived."""

    when: Literal["first_cdc", "quiet_period", "immediately", "dms"] = "first_cdc"
    """dms: when DMS itself says so, see `dms_task`."""
    quiet: Duration = timedelta(minutes=5)
    """Without a newer LOAD file for this long; also the fallback of first_cdc for a table that never changes."""

    short_form: ClassVar[Mapping[str, Any] | None] = {
        "anyOf": [
            {"enum": ["first_cdc", "quiet_period", "immediately", "dms"]},
            {
                "type": "object",
                "required": ["quiet_period"],
                "properties": {"quiet_period": {"type": "string"}},
            },
        ]
    }

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"when": value}
        if isinstance(value, dict) and set(value) == {"quiet_period"}:
            return {"when": "quiet_period", "quiet": value["quiet_period"]}
        return value


class Freshness(Model):
    """Limits of the freshness check."""

    max_pending_age: Duration = timedelta(minutes=10)
    """A file that has been in the bucket longer than this without being applied fails the check."""
    max_source_lag: Duration | None = None
    """Newest applied source commit against the clock; None where a quiet source is normal."""


class TableConfig(Model):
    parts: ClassVar[Mapping[str, type[Model]]] = {"dms": DmsSettings}

    columns: Columns
    primary_key: tuple[str, ...] = ()
    name: str | None = None
    """Name of the silver table; the source table's by default."""
    mode: Mode = Mode.CURRENT
    also: tuple[Mode, ...] = ()
    partition_by: tuple[str, ...] = ()
    full_load_complete: FullLoadComplete = FullLoadComplete()
    dms_task: DmsTask | None = None
    """The source's by default."""
    on_vanished: OnVanished = "keep"
    """What becomes of the table when DMS deletes all of its files, as it does at a TRUNCATE or DROP of the source's."""
    foreign_commits: Literal["stop", "tolerate"] = "stop"
    """What becomes of the silver table when something else than lake_assets commits rows to it."""
    cdc_only: bool = False
    """The files have no full load, and need none: changes of rows that the table never had are no sign of a gap."""
    freshness: Freshness | None = None
    schema_changes: SchemaChanges | None = None
    """The source's by default."""
    renamed_from: dict[str, str] = Field(default_factory=dict)
    """New name: old name. The silver column keeps its field id and its rows."""
    ignore: tuple[str, ...] = ()
    """Columns of the files that silver does not take, whatever `schema_changes` says of columns that are added."""
    defaults: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Of an added column, what the rows that were there before it say; NULL without one."""
    earlier: tuple[EarlierLayout, ...] = ()
    """Oldest first."""
    quarantine: QuarantineLimits = QuarantineLimits()
    format_version: Literal[2, 3] = 3
    dms: OwnSettings = Field(default_factory=dict)
    """Endpoint settings that differ from the source's; in force is `SourceConfig.settings`."""
    never: tuple[Literal["updated", "deleted"], ...] = ()
    """What never happens to a row at the source, so that an endpoint which does not write it loses nothing."""
    description: str | None = None
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> "TableConfig":
        refuse(self._mistakes())
        return self

    def era(self, when: datetime) -> int:
        """How many entries of `earlier` end after the time, UTC; 0 for files as they are today."""
        return sum(when < entry.until for entry in self.earlier)

    def in_era(self, era: int) -> "TableConfig":
        """The table with the columns that its files had then."""
        for entry in self._since(era):
            if entry.columns is not None:
                return self.model_copy(update={"columns": entry.columns})
        return self

    def settings_in(self, era: int, dms: DmsSettings) -> DmsSettings:
        """The endpoint settings then; `dms` are today's."""
        changes: dict[str, Any] = {}
        for entry in reversed(self._since(era)):
            changes |= entry.dms
        return dms.model_copy(update=changes) if changes else dms

    def _since(self, era: int) -> tuple[EarlierLayout, ...]:
        return self.earlier[len(self.earlier) - era :]

    def _mistakes(self) -> Iterator[Mistake]:
        types = {column.name: column.type for column in self.columns}
        names = list(types)
        for place, name in enumerate(names):
            if wrong := name_mistake(name, names[:place], (self.mode, *self.also)):
                yield ("columns", name), f"{wrong}: {AS_ANOTHER}"
        for name in self.ignore:
            if name in types:
                yield ("ignore",), f"names {name}, which columns has"
        for key, entries in (("primary_key", self.primary_key), ("also", self.also)):
            if len(set(entries)) < len(entries):
                yield (key,), "names the same thing twice"
        for key in self.primary_key:
            if key not in types:
                yield ("primary_key",), f"names {key}, which columns does not have{did_you_mean(key, types)}"
        keyed = [shape for shape in (self.mode, *self.also) if shape in KEYED_MODES]
        if keyed and not self.primary_key:
            kept = {Mode.CURRENT: "kept current"}.get(keyed[0], f"kept as {keyed[0]}")
            yield (
                ("primary_key",),
                f"is missing, and a table without one cannot be {kept}: declare the key, or say "
                "mode: append_log (inserts only), mode: full_row (rows are found by all of their columns) or "
                "mode: change_log",
            )
        if self.mode is Mode.FULL_ROW and self.primary_key:
            yield ("primary_key",), "is what mode: full_row does without: remove it, or say mode: current"
        for entry in self.partition_by:
            if wrong := _partition_mistake(entry, types):
                yield ("partition_by",), wrong
        for new, old in self.renamed_from.items():
            if new not in types:
                yield ("renamed_from", new), f"is not a column{did_you_mean(new, types)}"
            elif old in types:
                yield ("renamed_from", new), f"comes from {old}, which columns still has"
        for name in self.defaults:
            if name not in types:
                yield ("defaults", name), f"is not a column{did_you_mean(name, types)}"
        ends = [layout.until for layout in self.earlier]
        if ends != sorted(set(ends)):
            yield ("earlier",), "must be listed from the oldest to the newest"
        for shape in self.also:
            if shape not in FURTHER_SHAPES or shape is self.mode:
                yield ("also",), f"{shape} is no further shape of a {self.mode} table"
