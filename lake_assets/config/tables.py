"""A table's contract: columns and types, key, shape, partitions, limits.

Not here: the source (`lake_config.py`), or the use of the settings.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from lake_assets.config.base import UNDECIDED, Duration, Mistake, Model, did_you_mean, refuse
from lake_assets.config.checks import (
    CHECK_NAME,
    FOR_BRONZE,
    FOR_SILVER,
    OF_BATCHES,
    TableCheck,
    check_mistakes,
)
from lake_assets.config.columns import Column, Mask, Masks, TableColumns, mask_mistakes, partition_mistake
from lake_assets.config.dms import DmsSettings, DmsTask, OwnSettings
from lake_assets.config.evolution import EarlierLayout, QuarantineLimits, SchemaChanges
from lake_assets.local_times import AmbiguousTimes, LocalClock


class Mode(StrEnum):
    """The shape of a silver table."""

    CURRENT = "current"
    SOFT_DELETE = "soft_delete"
    HISTORY = "history"
    FULL_ROW = "full_row"
    APPEND_LOG = "append_log"
    CHANGE_LOG = "change_log"


ICEBERG_COLUMNS = frozenset(
    ("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number")
)
"""Iceberg's metadata columns: a table may have a column of such a name, but Spark cannot read that table."""
RENAME_ADVICE = "give it another name, and set its name in the files in renamed_from"
OnVanished = Literal["keep", "truncate", "drop"]
KEYED_MODES = frozenset({Mode.CURRENT, Mode.SOFT_DELETE, Mode.HISTORY})
"""Shapes that need a key, and the order of its changes."""
TIMED_MODES = frozenset({Mode.SOFT_DELETE, Mode.HISTORY, Mode.CHANGE_LOG})
"""Shapes whose rows have commit times."""
LOGS = frozenset({Mode.CHANGE_LOG, Mode.APPEND_LOG})
"""Shapes to which rows are only added."""
FURTHER_SHAPES = {Mode.CHANGE_LOG: "_changes", Mode.HISTORY: "_history"}
"""The shapes that `also` may name, with the suffix of the table's name."""
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
"""The columns that a shape adds to the source's."""
SHAPE_COMMENTS = {
    "_op": "I, U or D for a row that was inserted, updated or deleted; I for a row of a full load",
    "_commit_ts": "When the source committed the change, UTC; of a row of a full load, when DMS read it",
    "_sequence": "Orders the changes; empty for a row of a full load",
    "_valid_from": "From when on the row was as it is here, UTC",
    "_valid_to": "Until when, UTC, itself not included; NULL for the current version",
    "_is_current": "Whether this is the current version of a row that is not deleted",
    "_is_deleted": "Whether the row is deleted at the source",
    "_deleted_at": "When the row was deleted, UTC; NULL while it lives",
}
"""What these columns mean, for Iceberg and Dagster."""


def name_mistake(name: str, others: Iterable[str], shapes: Iterable[Mode]) -> str | None:
    """Why a table of these shapes with the columns `others` cannot have a column of this name, as the end of a
    sentence; None if it can."""
    folded = name.lower()
    if not name:
        return "has an empty name, which silver does not allow"
    if folded in ICEBERG_COLUMNS:
        return "is a name that Iceberg reserves"
    for shape in shapes:
        if any(column.name == folded for column in SHAPE_COLUMNS.get(shape, ())):
            return f"has the name of a column that {shape} adds"
    if (other := next((o for o in others if o != name and o.lower() == folded), None)) is not None:
        return f"differs from {other} only in case, which Spark does not distinguish"
    return None


class FullLoadComplete(Model):
    """When all parts of a full load count as arrived."""

    when: Literal["first_cdc", "quiet_period", "immediately", "dms"] = "first_cdc"
    """dms: when DMS reports it, see `dms_task`."""
    quiet: Duration = timedelta(minutes=5)
    """How long no new LOAD file must have arrived, for quiet_period; first_cdc falls back to it for a table that never
    changes."""

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
    """The check fails if a file was logged longer ago than this and has not been applied."""
    max_source_lag: Duration | None = None
    """The largest age of the newest applied source commit; None where a quiet source is normal."""
    max_quiet: Duration | None = None
    """The longest time without a new file of the table in the bucket; None where a quiet source is normal."""


def _decided_filter(value: str) -> str:
    if value == UNDECIDED:
        raise ValueError(
            "is undecided: a filter of the task's mapping could not be translated; write the SQL condition, in the "
            "source's dialect, of the rows that DMS reads"
        )
    if not value.strip():
        raise ValueError("is empty: write a SQL condition, or remove the key")
    return value


class TableConfig(Model):
    parts: ClassVar[Mapping[str, type[Model]]] = {"dms": DmsSettings}

    columns: TableColumns
    """By name, the type; or `from_database`: the columns and the key are those of the source's `database`."""
    primary_key: tuple[str, ...] = ()
    name: str | None = None
    """Name of the silver table; by default, the source table's name in lower case, with `_` for a dot."""
    keep_history: Duration | None = None
    """Maintenance removes versions of `history` and changes of `change_log` that ended or were made longer ago."""
    folders: tuple[str, ...] = ()
    """Globs of further folders in the table's schema whose files are the table's, such as `sales_*`: the partitions of
    a partitioned table, into whose folders DMS writes its changes. See docs/partitioned_tables.md."""
    mode: Mode = Mode.CURRENT
    also: tuple[Mode, ...] = ()
    partition_by: tuple[str, ...] = ()
    full_load_complete: FullLoadComplete = FullLoadComplete()
    dms_task: DmsTask | None = None
    """By default, the source's."""
    on_vanished: OnVanished = "keep"
    """The effect on the table when DMS deletes all of its files, as it does at a TRUNCATE or DROP of the source
    table."""
    foreign_commits: Literal["stop", "tolerate"] = "stop"
    """Whether the silver table stops when a writer other than lake_assets commits rows to it."""
    cdc_only: bool = False
    """The files have no full load, and need none. Changes of unknown rows are then no sign of missing files."""
    freshness: Freshness | None = None
    schema_changes: SchemaChanges | None = None
    """By default, the source's."""
    renamed_from: dict[str, str] = Field(default_factory=dict)
    """New name: old name. The silver column keeps its field id and its rows."""
    ignore: tuple[str, ...] = ()
    """Columns of the files that silver ignores, whatever the policy for added columns in `schema_changes`."""
    defaults: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """By added column, the value in rows that are older than the column; NULL if not set."""
    ambiguous_times: AmbiguousTimes | None = None
    """Which instant a local time of `timestamp_zone` is that the clocks show twice, when they are set back. If not set,
    a row with such a time is bad."""
    kept_when_null: tuple[str, ...] = ()
    """Large columns of PostgreSQL: in an update that leaves them as they are, the file has NULL. So a NULL in an update
    keeps the row's value, and a real change to NULL is not seen."""
    earlier: tuple[EarlierLayout, ...] = ()
    """The layouts of older files, the oldest first."""
    mask: Masks = Field(default_factory=dict)
    """By column, hash, redact or null: what silver has instead of its values; see docs/masking.md."""
    quarantine: QuarantineLimits = QuarantineLimits()
    checks: dict[str, TableCheck] = Field(default_factory=dict)
    """By name, checks of the silver table's rows; see docs/checks.md."""
    format_version: Literal[2, 3] | None = None
    """Iceberg's format in which silver's table is created; by default, that of the lake."""
    dms: OwnSettings = Field(default_factory=dict)
    """Endpoint settings that differ from the source's; see `SourceConfig.settings`."""
    source_filter: Annotated[str, AfterValidator(_decided_filter)] | None = None
    """The SQL condition, in the source's dialect, of the rows that DMS reads, as by the filters of the table mapping:
    silver has no others. The check `equals_source` compares silver with these rows of the source."""
    never: tuple[Literal["updated", "deleted"], ...] = ()
    """Operations that never happen at the source. An endpoint that does not write them then loses nothing."""
    description: str | None = None
    preview: bool = True
    """Whether events in Dagster show some of the table's rows; see `automation.preview_rows`."""
    comments: dict[str, str] = Field(default_factory=dict)
    """By column, what it means: Iceberg's and Dagster's description of it."""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = Field(default_factory=dict)
    _left_to_source: bool = PrivateAttr(default=False)

    @property
    def is_left_to_source(self) -> bool:
        """Whether the source database says its columns, not lake.yaml."""
        return self.is_open or self._left_to_source

    @property
    def origin(self) -> str:
        """What says its columns."""
        return "lake.yaml, with the columns of the source database" if self.is_left_to_source else "lake.yaml"

    def leave_to_source(self) -> None:
        """Remembers that the source database has said its columns."""
        self._left_to_source = True

    @model_validator(mode="after")
    def _consistent(self) -> "TableConfig":
        if not self.is_open:
            refuse(self._mistakes())
        return self

    @property
    def is_open(self) -> bool:
        """Whether the source database has the columns, and has not been read yet."""
        return not self.columns

    def clock(self, dms: DmsSettings) -> LocalClock:
        """The clock of times without a zone, by the endpoint settings in force."""
        return LocalClock(dms.timestamp_zone, self.ambiguous_times or "single")

    def era(self, when: datetime) -> int:
        """The number of entries of `earlier` that end after the time (UTC); 0 for the present layout."""
        return sum(when < entry.until for entry in self.earlier)

    def in_era(self, era: int) -> "TableConfig":
        """The table with the columns of its files in that era."""
        for entry in self._since(era):
            if entry.columns is not None:
                return self.model_copy(update={"columns": entry.columns})
        return self

    def settings_in(self, era: int, dms: DmsSettings) -> DmsSettings:
        """The endpoint settings in that era; `dms` are the present ones."""
        changes: dict[str, Any] = {}
        for entry in reversed(self._since(era)):
            changes |= entry.dms
        return dms.model_copy(update=changes) if changes else dms

    def _since(self, era: int) -> tuple[EarlierLayout, ...]:
        return self.earlier[len(self.earlier) - era :]

    def _mistakes(self) -> Iterator[Mistake]:
        types = {column.name: column.type for column in self.columns}
        yield from self._name_mistakes(types)
        yield from self._kept_mistakes(types)
        yield from self._key_mistakes(types)
        for entry in self.partition_by:
            if wrong := partition_mistake(entry, types):
                yield ("partition_by",), wrong
        matched: Collection[str] = types if self.mode is Mode.FULL_ROW else self.primary_key
        for keys, text in mask_mistakes(self.mask, self.columns, matched, self.defaults):
            yield ("mask", *keys), text
        yield from self._mistakes_of_checks(types)
        ends = [layout.until for layout in self.earlier]
        if ends != sorted(set(ends)):
            yield ("earlier",), "must be listed from the oldest to the newest"
        if self.keep_history is not None and FURTHER_SHAPES.keys().isdisjoint((self.mode, *self.also)):
            yield ("keep_history",), "the table has no history and no change_log: add one to also"
        for shape in self.also:
            if shape not in FURTHER_SHAPES or shape is self.mode:
                yield ("also",), f"{shape} is no further shape of a table with mode: {self.mode}"

    def _name_mistakes(self, types: Mapping[str, str]) -> Iterator[Mistake]:
        names = list(types)
        for place, name in enumerate(names):
            if wrong := name_mistake(name, names[:place], (self.mode, *self.also)):
                yield ("columns", name), f"{wrong}: {RENAME_ADVICE}"
        for name in self.ignore:
            if name in types:
                yield ("ignore",), f"names {name}, which columns has"
        lists = {"primary_key": self.primary_key, "also": self.also, "kept_when_null": self.kept_when_null}
        for key, entries in lists.items():
            if len(set(entries)) < len(entries):
                yield (key,), "names the same thing twice"
        for key in ("renamed_from", "comments", "defaults"):
            for name in getattr(self, key):
                if name not in types:
                    yield (key, name), f"is not a column{did_you_mean(name, types)}"
        for new, old in self.renamed_from.items():
            if new in types and old in types:
                yield ("renamed_from", new), f"is renamed from {old}, which columns still has"

    def _key_mistakes(self, types: Mapping[str, str]) -> Iterator[Mistake]:
        place = ("primary_key",)
        for key in self.primary_key:
            if key not in types:
                yield place, f"names {key}, which columns does not have{did_you_mean(key, types)}"
        keyed = [shape for shape in (self.mode, *self.also) if shape in KEYED_MODES]
        if keyed and not self.primary_key:
            kept = "kept current" if keyed[0] is Mode.CURRENT else f"kept as {keyed[0]}"
            yield (
                place,
                f"is missing, and a table without one cannot be {kept}: declare the key, or set "
                "mode: append_log (inserts only), mode: full_row (rows are found by all of their columns) or "
                "mode: change_log",
            )
        if self.mode is Mode.FULL_ROW and self.primary_key:
            yield place, "is what mode: full_row does without: remove it, or set mode: current"

    def _kept_mistakes(self, types: Mapping[str, str]) -> Iterator[Mistake]:
        place = ("kept_when_null",)
        if self.kept_when_null and self.mode is Mode.APPEND_LOG:
            yield place, "concerns updates, and mode: append_log has inserts only: remove it"
        if self.kept_when_null and self.mode is Mode.FULL_ROW:
            yield (
                place,
                "cannot be combined with mode: full_row, which finds a row by all of its columns: have the source log "
                "whole rows (REPLICA IDENTITY FULL) and remove it",
            )
        for name in self.kept_when_null:
            if name not in types:
                yield place, f"names {name}, which columns does not have{did_you_mean(name, types)}"
            elif name in self.primary_key:
                yield place, f"names {name}, which is in the primary key, and a key is never NULL"

    def _mistakes_of_checks(self, types: Mapping[str, str]) -> Iterator[Mistake]:
        for keys, text in check_mistakes(self.checks, (*FOR_SILVER, *FOR_BRONZE), OF_BATCHES):
            yield ("checks", *keys), text
        if "equals_files" in self.checks and self.mode is not Mode.CURRENT:
            yield (
                ("checks", "equals_files"),
                f"compares tables of mode: current in slices of keys, and this one has mode: {self.mode}: remove it; "
                "`lake-assets rebuild --check` compares the whole table",
            )
        for name, check in self.checks.items():
            yield from self._check_mistakes(name, check, types)

    def _check_mistakes(self, name: str, check: TableCheck, types: Mapping[str, str]) -> Iterator[Mistake]:
        if re.fullmatch(CHECK_NAME, name) is None:
            yield ("checks", name), "is a name in Dagster: use lower case letters, digits and _"
        if check.of is not None:
            yield ("checks", name), "compares a mart with its input: move it to gold.checks"
        referring = check.references.columns if check.references is not None else ()
        for column in (*check.unique, *referring):
            if column not in types:
                yield (
                    ("checks", name),
                    f"names {column}, which columns does not have{did_you_mean(column, types)}",
                )
            elif self.mask.get(column, Mask.HASH) is not Mask.HASH:
                yield (
                    ("checks", name),
                    f"names {column}, whose values mask replaces: only hash keeps them apart",
                )
