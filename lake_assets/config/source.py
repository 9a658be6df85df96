"""A source of lake.yaml: where its files are, who writes them, its tables.

Not here: a table (`tables.py`), the endpoint's settings (`dms.py`), finding a consistent cut (`silver/plan/cut.py`).
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator

from lake_assets.config.aws.listing import Location, NotificationsConfig
from lake_assets.config.aws.streams import StreamConfig
from lake_assets.config.base import UNDECIDED, Duration, Mistake, Model, Switched, did_you_mean, refuse
from lake_assets.config.dms import LANDED, DmsSettings, DmsTask, S3Config
from lake_assets.config.dms_rules import conflicts, stream_mistakes
from lake_assets.config.evolution import SchemaChanges
from lake_assets.config.tables import (
    FURTHER_SHAPES,
    KEYED_MODES,
    TIMED_MODES,
    Freshness,
    Mode,
    TableConfig,
)
from lake_assets.folder_rule import FolderRule
from lake_assets.table_name import TableName, table_mistake

SILVER_NAME = r"[a-z_][a-z0-9_]*"
"""The names of sources and of silver tables."""


class ConsistentCut(Switched):
    """Whole transactions over all tables of the source, or none of them: how long after a commit all of its rows are in
    the bucket, in the files of all tables. A stream shows it by itself, while changes arrive."""

    interval: Duration = timedelta(seconds=60)
    """The endpoint's CdcMaxBatchInterval: how long DMS may hold a change before it writes it to a file. The default is
    DMS's. A stream has none."""
    margin: Duration = timedelta(seconds=10)
    """The sum of DMS's lag behind the source, the difference of their clocks, and the time of an upload."""
    every: Duration = timedelta(seconds=10)
    """The shortest interval between two cuts: each is a tag on every table of the source."""
    keep: int = Field(default=20, ge=1)
    """The number of earlier cuts whose tags stay on a table."""

    @model_validator(mode="after")
    def _whole_seconds(self) -> "ConsistentCut":
        if self.every < timedelta(seconds=1) or self.every % timedelta(seconds=1):
            raise ValueError(
                "every must be a whole number of seconds, at least 1s: cuts are named by the second"
            )
        return self

    @property
    def delay(self) -> timedelta:
        """From a commit to the moment when all its rows count as arrived."""
        return self.interval + self.margin


_UNDECIDED = {
    "location": "an endpoint for a stream does not say where the lake puts its messages; name a prefix of a bucket, or "
    "a folder, that has nothing else",
    "tables": "the task's mapping selects tables by pattern; name them by hand, or have `lake-assets init "
    "--from-database` read them from the source",
}
"""By key, why `import-endpoint` could not decide, and what to do."""


class SourceConfig(Model):
    location: Location
    """Where the files of the source are; of a stream, where the lake puts them."""
    stream: StreamConfig | None = None
    """Where the changes arrive, if DMS does not write files."""
    dms: DmsSettings = DmsSettings()
    ignore_case: bool = False
    """Whether a folder belongs to a table if their names differ only by case."""
    s3: S3Config = S3Config()
    notifications: NotificationsConfig | None = None
    dms_task: DmsTask | None = None
    """The task that writes to the location; if several do, set it for each table."""
    include: tuple[str, ...] = ()
    """Files with further tables, such as one for each schema: each has what stands under `tables` here. Paths are
    relative to lake.yaml."""
    tables: dict[str, TableConfig] = Field(min_length=1)
    freshness: Freshness = Freshness()
    schema_changes: SchemaChanges = SchemaChanges()
    database: SecretStr | None = None
    """The SQLAlchemy URL of the source database, such as `${SHOP_DATABASE_URL}`; its password may be
    `${secret:NAME:password}`. The checks `equals_source` and `same_columns` compare silver with this database, and a
    table's columns follow it where the files leave something open."""
    consistent_cut: ConsistentCut | None = None
    """Whether all silver tables of the source show the same transactions; see `ConsistentCut`."""
    description: str | None = None
    owners: tuple[str, ...] = ()

    def settings(self, table: str, when: datetime | None = None) -> DmsSettings:
        """The endpoint settings in force for a table (`schema.table`): the source's, overridden by the table's own. For
        a table that is not configured, the source's. `when` (UTC): the settings for files of that time, by
        `earlier`. Of a stream: the settings of the files that its messages land in."""
        if self.stream is not None:
            return LANDED
        if table not in self.tables:
            return self.dms
        config = self.tables[table]
        dms = self.dms.model_copy(update=config.dms) if config.dms else self.dms
        return dms if when is None else config.settings_in(config.era(when), dms)

    def why_not_open(self, table: str) -> str | None:
        """Why the columns of a table cannot be left to the source database, as the end of a sentence."""
        settings = self.settings(table)
        if self.database is None:
            return "needs `database` of the source"
        if self.stream is not None:
            return "is for files: a stream lands by the columns; list them"
        if settings.data_format == "csv" and not settings.add_column_name:
            return (
                "needs the names of the columns in the files (dms.add_column_name): the source may have changed since "
                "a file was written, and nothing would show it; list the columns"
            )
        return None

    def silver_name(self, table: str) -> str:
        """The name of a table (`schema.table`) in bronze and silver."""
        return self.tables[table].name or TableName.parse(table).silver

    def tables_of(self, folder: TableName) -> list[str]:
        """The tables (`schema.table`) to which the files in a folder belong, or the rows that name it as their table:
        one or none; several if the globs of several tables match it, which is a mistake."""
        if str(folder) in self.tables:
            return [str(folder)]
        same = [
            name for name in self.tables if self.ignore_case and name.casefold() == str(folder).casefold()
        ]
        return same or [
            name
            for name, table in self.tables.items()
            if table.folders and self.folder_rule(name).joins(folder)
        ]

    def folder_rule(self, table: str) -> FolderRule:
        """Which folders belong to a table (`schema.table`)."""
        return FolderRule(TableName.parse(table), self.tables[table].folders, self.ignore_case)

    def task(self, table: str) -> DmsTask | None:
        """The replication task that writes a table's files."""
        return self.tables[table].dms_task or self.dms_task

    @field_validator("location", "tables", mode="before")
    @classmethod
    def _decided(cls, value: Any, info: ValidationInfo) -> Any:
        if value == UNDECIDED:
            raise ValueError(f"is undecided: {_UNDECIDED[str(info.field_name)]}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "SourceConfig":
        found = [
            (("tables", name), text) for name, text in (*self._name_mistakes(), *self._column_mistakes())
        ]
        refuse(
            [
                *self._conflicts(),
                *self._case_mistakes(),
                *self._stream_mistakes(),
                *found,
                *self._task_mistakes(),
                *self._earlier_mistakes(),
                *self._reference_mistakes(),
            ]
        )
        return self

    def _conflicts(self) -> Iterator[Mistake]:
        """Each conflict at its place in lake.yaml: once under the source's `dms`, however many tables it affects."""
        conflicting: dict[Mistake, None] = {}
        for name, table in self.tables.items():
            for settings, text in conflicts(table, self.settings(name)):
                own = next((setting for setting in settings if setting in table.dms), None)
                conflicting[("dms", settings[0]) if own is None else ("tables", name, "dms", own), text] = (
                    None
                )
        yield from conflicting

    def _stream_mistakes(self) -> Iterator[Mistake]:
        keyed = any(not KEYED_MODES.isdisjoint((t.mode, *t.also)) for t in self.tables.values())
        yield from stream_mistakes(self.stream, self.dms, has_keys=keyed)
        if self.stream is None:
            return
        for name in ("ignore_case", "notifications"):
            if getattr(self, name):
                yield (name,), "is of a source with files, and this one has a stream: remove it"
        if self.consistent_cut is not None and not self.dms.include_transaction_details:
            yield (
                ("consistent_cut",),
                "needs dms.include_transaction_details: they show which transactions are whole",
            )
        for name, table in self.tables.items():
            if table.dms:
                yield ("tables", name, "dms"), "cannot differ within a stream: remove it"

    def _case_mistakes(self) -> Iterator[Mistake]:
        if self.ignore_case and self.dms.preserve_transactions:
            yield (
                ("ignore_case",),
                "cannot be combined with preserve_transactions, whose files name the table in each row: remove it, and "
                "spell each table as its rows do",
            )

    def _earlier_mistakes(self) -> Iterator[Mistake]:
        """Conflicts between the settings of an earlier layout, and ends that its files cannot have."""
        for name, table in self.tables.items():
            today = self.settings(name)
            for place, entry in enumerate(table.earlier):
                era = len(table.earlier) - place
                then = table.settings_in(era, today)
                at = ("tables", name, "earlier", place)
                if entry.until_sequence is not None and then.change_sequence_column is None:
                    yield (
                        (*at, "until_sequence"),
                        "needs files with a change sequence until then: use until_file",
                    )
                known = {text for _, text in conflicts(table, today)}
                for settings, text in conflicts(table.in_era(era), then):
                    own = next((setting for setting in settings if setting in entry.dms), None)
                    if own is not None and text not in known:
                        yield (*at, "dms", own), text

    def _task_mistakes(self) -> Iterator[Mistake]:
        for name, table in self.tables.items():
            if table.full_load_complete.when == "dms" and self.task(name) is None:
                yield (
                    ("tables", name, "full_load_complete"),
                    "is dms, which needs dms_task: the ARN of the replication task, of the source or of the table",
                )

    def _reference_mistakes(self) -> Iterator[Mistake]:
        for name, table in self.tables.items():
            for check, given in table.checks.items():
                if (reference := given.references) is None:
                    continue
                at = ("tables", name, "checks", check)
                if (parent := self.tables.get(reference.table)) is None:
                    near = did_you_mean(reference.table, self.tables)
                    yield at, f"refers to {reference.table}, which the source does not have{near}"
                    continue
                if table.is_open or parent.is_open:
                    continue
                known = {column.name for column in parent.columns}
                for own, column in reference.columns.items():
                    if column not in known:
                        yield at, f"refers to {column}, which {reference.table} does not have"
                    elif table.mask.get(own) is not parent.mask.get(column):
                        yield (
                            at,
                            f"compares {own} with {column} of {reference.table}, and only one of them is masked: "
                            "mask both with hash, or neither",
                        )

    def _name_mistakes(self) -> Iterator[tuple[str, str]]:
        silver_names: dict[str, str] = {}
        folded: dict[str, str] = {}
        for name, table in self.tables.items():
            if (wrong := table_mistake(name)) is not None:
                yield name, wrong
                continue
            if self.ignore_case and (other := folded.setdefault(name.casefold(), name)) != name:
                yield name, f"differs from {other} only by case, which ignore_case: true does not distinguish"
            silver = self.silver_name(name)
            if not re.fullmatch(SILVER_NAME, silver):
                yield name, f"its silver name {silver!r} must be lower case letters, digits and _; set name:"
            yield from ((name, text) for text in self._folder_mistakes(name, table))
            for shape in (silver, *(silver + FURTHER_SHAPES.get(further, "") for further in table.also)):
                if (other := silver_names.setdefault(shape, name)) != name:
                    yield name, f"both this table and {other} become {shape}; give one of them a name:"

    def _folder_mistakes(self, name: str, table: TableConfig) -> Iterator[str]:
        own = TableName.parse(name)
        for glob in table.folders:
            if not glob or "/" in glob or glob.strip("*") == "":
                yield f"folders has {glob!r}: a glob names folders of the schema {own.schema}, as in sales_*"
                continue
            for other in self.tables:
                place = TableName.parse(other) if table_mistake(other) is None else own
                if other != name and place.schema == own.schema and fnmatchcase(place.table, glob):
                    yield f"folders has {glob}, which matches the table {other}: remove one of them"
                elif other != name and place.schema == own.schema and glob in self.tables[other].folders:
                    yield f"folders has {glob}, and so has {other}: a folder belongs to one table"
        if not table.folders:
            return
        for shape in sorted({table.mode, *table.also} & {Mode.SOFT_DELETE, Mode.HISTORY}):
            yield f"folders cannot be joined into {shape}, whose past has no place for the reload of one folder"
        if table.mode in KEYED_MODES and self.settings(name).change_sequence_column is None:
            yield (
                "folders needs dms.change_sequence_column: a row that moves from one partition to another leaves a "
                "delete and an insert in two folders, and only AR_H_CHANGE_SEQ orders them"
            )

    def _column_mistakes(self) -> Iterator[tuple[str, str]]:
        for name, table in self.tables.items():
            dms = self.settings(name)
            added = {dms.timestamp_column_name, dms.change_sequence_column, dms.operation_column} - {None}
            for column in table.columns:
                if column.name in added:
                    yield name, f"column {column.name} has the name of a column that DMS adds"
            if self.consistent_cut is not None and dms.timestamp_column_name is None:
                yield name, "consistent_cut needs dms.timestamp_column_name: a cut is a commit time"
            for shape in (table.mode, *table.also):
                if dms.timestamp_column_name is None and shape in TIMED_MODES:
                    what = {"change_log": "a change log"}.get(shape, str(shape))
                    yield name, f"{what} needs dms.timestamp_column_name for its commit times"
