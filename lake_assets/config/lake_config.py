"""A whole lake.yaml: catalog, Spark, sources, marts, automation, maintenance.

Not here: reading the file and the environment (`config_file.py`), or using a setting.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from lake_assets.config.automation import AlarmsConfig, ContinuousConfig, MaintenanceConfig
from lake_assets.config.aws.access import SecretsConfig
from lake_assets.config.aws.listing import (
    ListingConfig,
    Location,
    NotificationsConfig,
    below,
    place_mistakes,
)
from lake_assets.config.aws.secret_references import has_reference
from lake_assets.config.base import (
    CENTURY,
    UNDECIDED,
    Duration,
    Mistake,
    Model,
    did_you_mean,
    matching,
    refuse,
)
from lake_assets.config.checks import FOR_GOLD, ChecksConfig, TableCheck, check_mistakes
from lake_assets.config.columns import Mask, MaskingConfig
from lake_assets.config.consistent_cut import ConsistentCut
from lake_assets.config.dms import DmsSettings, DmsTask, S3Config
from lake_assets.config.dms_rules import conflicts
from lake_assets.config.evolution import SchemaChanges
from lake_assets.config.spark import SparkConfig
from lake_assets.config.tables import (
    FURTHER_SHAPES,
    KEYED_MODES,
    TIMED_MODES,
    Freshness,
    Mode,
    TableConfig,
)
from lake_assets.table_name import TableName, table_mistake

_NAME = r"[a-z_][a-z0-9_]*"


class CatalogConfig(BaseModel):
    """The Iceberg catalog; other keys than the named ones go to Spark and PyIceberg unchanged."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    __pydantic_extra__: dict[str, str | int | float | bool] = Field(init=False)

    name: Annotated[
        str, matching(_NAME, "is part of table names in SQL: use lower case letters, digits and _")
    ] = "lake"
    type: Literal["sqlite", "jdbc", "glue", "rest"] = "sqlite"
    uri: SecretStr | None = None
    """May contain a password (a JDBC address), so it is never logged."""
    warehouse: Location

    @model_validator(mode="after")
    def _needs_uri(self) -> "CatalogConfig":
        if self.type != "glue" and self.uri is None:
            refuse([(("uri",), f"is missing; a catalog of type {self.type} needs it")])
        if self.type == "sqlite" and self.uri is not None and has_reference(self.uri.get_secret_value()):
            refuse([(("uri",), "is a file, which no secret can name")])
        return self

    @property
    def folder(self) -> str | None:
        """The warehouse; None for an identifier that only the catalog understands."""
        return self.warehouse if self.type in ("sqlite", "jdbc") or "://" in self.warehouse else None

    @property
    def file(self) -> str | None:
        """The catalog's file; None for a server."""
        return self.uri.get_secret_value() if self.type == "sqlite" and self.uri is not None else None

    @property
    def properties(self) -> dict[str, str]:
        """The keys of `catalog` that this model does not name; booleans in lower case, as in Java."""
        extra = (self.__pydantic_extra__ or {}).items()
        return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in extra}

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # A REST catalog's `token` or `credential` is such a key: show its name, and hide its value.
        for key, value in super().__repr_args__():
            yield key, SecretStr("hidden") if key in self.properties else value


class SourceConfig(Model):
    location: Location
    dms: DmsSettings = DmsSettings()
    ignore_case: bool = False
    """Whether a folder belongs to a table if their names differ only by case."""
    s3: S3Config = S3Config()
    listing: ListingConfig = ListingConfig()
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
    `${secret:NAME:password}`. The checks `equals_source` and `same_columns` compare silver with this database."""
    consistent_cut: ConsistentCut | None = None
    """Whether all silver tables of the source show the same transactions; see `config/consistent_cut.py`."""
    description: str | None = None
    owners: tuple[str, ...] = ()

    def settings(self, table: str, when: datetime | None = None) -> DmsSettings:
        """The endpoint settings in force for a table (`schema.table`): the source's, overridden by the table's own. For
        a table that is not configured, the source's. `when` (UTC): the settings for files of that time, by
        `earlier`."""
        if table not in self.tables:
            return self.dms
        config = self.tables[table]
        dms = self.dms.model_copy(update=config.dms) if config.dms else self.dms
        return dms if when is None else config.settings_in(config.era(when), dms)

    def silver_name(self, table: str) -> str:
        """The name of a table (`schema.table`) in bronze and silver."""
        return self.tables[table].name or TableName.parse(table).silver

    def tables_of(self, folder: TableName) -> list[str]:
        """The tables (`schema.table`) to which the files in a folder belong, or the rows that name it as their table:
        one or none; several if the globs of several tables match it, which is a mistake."""
        if str(folder) in self.tables:
            return [str(folder)]
        fold = str.casefold if self.ignore_case else str
        same = [name for name in self.tables if fold(name) == fold(str(folder))]
        return same or [
            name
            for name, table in self.tables.items()
            if table.folders
            and fold(TableName.parse(name).schema) == fold(folder.schema)
            and any(fnmatchcase(fold(folder.table), fold(glob)) for glob in table.folders)
        ]

    def task(self, table: str) -> DmsTask | None:
        """The replication task that writes a table's files."""
        return self.tables[table].dms_task or self.dms_task

    @field_validator("tables", mode="before")
    @classmethod
    def _decided(cls, value: Any) -> Any:
        if value == UNDECIDED:
            raise ValueError(
                "is undecided: the task's mapping selects tables by pattern; name them by hand, or have "
                "`lake-assets init --from-database` read them from the source"
            )
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "SourceConfig":
        found = [
            (("tables", name), text) for name, text in (*self._name_mistakes(), *self._column_mistakes())
        ]
        refuse(
            [
                *self._conflicts(),
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
            if not re.fullmatch(_NAME, silver):
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


class GoldConfig(Model):
    start_date: date = date(2000, 1, 1)
    """The earliest day of bronze and of the marts: the marts leave earlier rows out. In Dagster, partitions begin at
    the first day of the data, but not before this day. At most a century ago: earlier times in a row count as markers
    such as 1900-01-01."""
    marts: tuple[str, ...] = ()
    """`.sql` files beside lake.yaml, and Python modules or `.py` files that define a `MART`: one mart each."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the marts, such as the empty-rack limit; passed to them unchanged."""
    checks: dict[str, dict[str, TableCheck]] = Field(default_factory=dict)
    """By mart and name, checks of the mart's rows; see docs/checks.md."""

    @field_validator("start_date")
    @classmethod
    def _within_a_century(cls, start: date) -> date:
        earliest = datetime.now(UTC).date() - CENTURY
        if start < earliest:
            raise ValueError(f"is more than a century ago: name a day from {earliest} on")
        return start

    @model_validator(mode="after")
    def _checks(self) -> "GoldConfig":
        refuse(
            (("checks", mart, *keys), text)
            for mart, checks in self.checks.items()
            for keys, text in check_mistakes(checks, FOR_GOLD)
        )
        return self


class AutomationConfig(Model):
    poll_interval: Duration = timedelta(seconds=0.5)
    poll_window: Duration = timedelta(seconds=4)
    """How long one sensor tick waits for a new file; below the daemon's 5 s loop, so that no tick is late."""
    bronze_every: Duration = timedelta(seconds=30)
    """The shortest interval between two reports of landed files to Dagster. A report is an event for each table, and
    Dagster keeps events for ever."""
    preview_rows: int = Field(default=10, ge=0, le=100)
    """How many of a commit's rows its event shows in Dagster. With 0, no value gets into Dagster's storage. See also
    `preview` of a table."""
    heartbeat_interval: Duration = timedelta(seconds=5)
    heartbeat_timeout: Duration = timedelta(seconds=60)
    backoff_base: Duration = timedelta(seconds=15)
    backoff_max: Duration = timedelta(minutes=15)
    max_files_per_batch: int = Field(default=2000, ge=1)
    apply_threads: int = Field(default=6, ge=1)
    """The number of tables that are applied at a time. Most of a small batch's time is waiting: for Spark to plan, and
    for the bucket. Batches of many rows take memory, so at most a third of this number, but at least two, run at a
    time."""
    rewrite_below_mb: float = Field(default=4, ge=0)
    """A batch may rewrite a table as a whole only if it is smaller than this: that is faster than marking rows of many
    files as deleted. 0: never."""
    marts_in_silver_runs: bool = True
    """Whether a sensor's run that applies tables also computes the marts without days that read them. Set to false if a
    mart takes minutes: it then gets a separate run."""
    continuous: ContinuousConfig | None = None
    """Whether each source has a continuous run, which applies new files at once; see `config/automation.py`."""

    @model_validator(mode="after")
    def _consistent(self) -> "AutomationConfig":
        if self.heartbeat_timeout <= self.heartbeat_interval:
            raise ValueError(
                "heartbeat_timeout must exceed heartbeat_interval: every run would be taken for dead"
            )
        if self.backoff_max < self.backoff_base:
            raise ValueError("backoff_max must not be below backoff_base")
        if not self.poll_interval:
            raise ValueError("poll_interval must be above 0s, or a tick lists the bucket without a pause")
        return self


class LakeConfig(Model):
    """A whole `lake.yaml`."""

    catalog: CatalogConfig
    spark: SparkConfig = SparkConfig()
    sources: dict[str, SourceConfig] = Field(min_length=1)
    gold: GoldConfig = GoldConfig()
    automation: AutomationConfig = AutomationConfig()
    maintenance: MaintenanceConfig = MaintenanceConfig()
    checks: ChecksConfig = ChecksConfig()
    alarms: AlarmsConfig = AlarmsConfig()
    secrets: SecretsConfig = SecretsConfig()
    masking: MaskingConfig = MaskingConfig()
    asset_key_prefix: str | None = None
    """What the keys of the lake's assets in Dagster begin with, and the names of its sensors and jobs. It is for lakes
    that share one Dagster instance, such as code locations of staging and production: Dagster identifies an asset by
    its key, whichever code location it is in."""

    @property
    def key_prefix(self) -> tuple[str, ...]:
        """The first part of the keys of assets; empty without a prefix."""
        return (self.asset_key_prefix,) if self.asset_key_prefix else ()

    @model_validator(mode="after")
    def _prefix(self) -> "LakeConfig":
        if self.asset_key_prefix and not re.fullmatch(_NAME, self.asset_key_prefix):
            refuse([(("asset_key_prefix",), "has lower case letters, digits and _ only")])
        return self

    @model_validator(mode="after")
    def _salted(self) -> "LakeConfig":
        hashed = (
            table
            for source in self.sources.values()
            for table, config in source.tables.items()
            if Mask.HASH in config.mask.values()
        )
        if self.masking.salt is None and (table := next(hashed, None)) is not None:
            text = f"is missing, and {table} has a column with mask: hash; name a secret, as in ${{LAKE_MASK_SALT}}"
            refuse([(("masking", "salt"), text)])
        return self

    @model_validator(mode="after")
    def _source_names(self) -> "LakeConfig":
        wrong = (name for name in self.sources if not re.fullmatch(_NAME, name))
        refuse((("sources", name), "a name has lower case letters, digits and _ only") for name in wrong)
        return self

    @model_validator(mode="after")
    def _apart(self) -> "LakeConfig":
        refuse(
            (("sources", name, *keys), text)
            for name, source in self.sources.items()
            for keys, text in place_mistakes(source, self.catalog.folder, self.not_of(name))
        )
        return self

    def not_of(self, source: str) -> tuple[str, ...]:
        """The beginnings of the keys below a source's location that are of the warehouse, the catalog's file, and other
        sources."""
        others = (other.location for name, other in self.sources.items() if name != source)
        return below(self.sources[source].location, [*others, self.catalog.folder], [self.catalog.file])

    @model_validator(mode="after")
    def _one_sts(self) -> "LakeConfig":
        """All sources must name the same sts_endpoint, because Spark has one for its JVM."""
        found = [(name, source.s3) for name, source in self.sources.items() if source.s3.role_arn]
        if found and (others := [name for name, s3 in found if s3.sts_endpoint != found[0][1].sts_endpoint]):
            text = f"differs from that of {found[0][0]}, and Spark assumes all roles at one address"
            refuse((("sources", name, "s3", "sts_endpoint"), text) for name in others)
        return self
