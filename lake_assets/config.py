"""The models of `lake.yaml`.

Here: every key a lake may be configured with, its default and what makes it valid. Not here: reading the file and
the environment (`config_file.py`), or acting on a setting.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

_NAME = re.compile(r"^[a-z_][a-z0-9_]*$")
_TYPE = re.compile(
    r"^(boolean|int|long|float|double|date|timestamp|timestamptz|string|binary"
    r"|decimal\(\s*(?P<precision>\d+)\s*,\s*(?P<scale>\d+)\s*\))$"
)
_DURATION = re.compile(r"^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


Mistake = tuple[tuple[str, ...], str]
"""The keys that lead to it from the model that found it, and what is wrong."""


class Mistakes(ValueError):
    """Every mistake that one validator found: pydantic reports a single error for it, `config_file` a line for each."""

    def __init__(self, found: Sequence[Mistake]) -> None:
        self.found = tuple(found)
        super().__init__("; ".join(f"{'.'.join(keys)}: {text}" for keys, text in self.found))


def _refuse(found: Iterable[Mistake]) -> None:
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


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]


class Model(BaseModel):
    """Unknown keys are refused, so that a misspelt setting cannot be silently without effect."""

    # A ValidationError that reaches a log must not quote what was in the file: it may be a password.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class CatalogConfig(BaseModel):
    """The Iceberg catalog; keys beyond the named ones go to Spark and PyIceberg unchanged."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    __pydantic_extra__: dict[str, str | int | float | bool] = Field(init=False)

    name: str = "lake"
    type: Literal["sqlite", "jdbc", "glue", "rest"] = "sqlite"
    uri: SecretStr | None = None
    """May hold a password (a JDBC address); `get_secret_value()` at the moment of use, never in a log."""
    warehouse: str = Field(min_length=1)

    @field_validator("name")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError(f"{value!r} is part of table names in SQL: use lower case letters, digits and _")
        return value

    @model_validator(mode="after")
    def _needs_uri(self) -> "CatalogConfig":
        if self.type != "glue" and self.uri is None:
            _refuse([(("uri",), f"is missing; a catalog of type {self.type} needs it")])
        return self

    @property
    def properties(self) -> dict[str, str]:
        """The keys of `catalog` that this model does not name; booleans in the lower case that Java writes."""
        extra = (self.__pydantic_extra__ or {}).items()
        return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in extra}

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # A REST catalog's `token` or `credential` is such a key: name it, but leave its value out of logs.
        for key, value in super().__repr_args__():
            yield key, SecretStr("hidden") if key in self.properties else value


class SparkConfig(Model):
    mode: Literal["embedded"] = "embedded"
    master: str = "local[*]"
    conf: dict[str, str | int | float | bool] = Field(default_factory=dict)


class S3Config(Model):
    """How `s3://` locations are reached; without it the AWS default chain decides."""

    region: str | None = None
    endpoint: str | None = None
    access_key_id: SecretStr | None = None
    secret_access_key: SecretStr | None = None
    path_style: bool = False

    @model_validator(mode="after")
    def _both_keys(self) -> "S3Config":
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError(
                "access_key_id and secret_access_key go together; without both the AWS default chain decides"
            )
        return self


class DmsSettings(Model):
    """The S3 target endpoint's settings under their DMS names in snake case, with DMS's own defaults."""

    data_format: Literal["csv", "parquet"] = "csv"
    compression_type: Literal["none", "gzip"] = "none"
    csv_delimiter: str = Field(default=",", min_length=1, max_length=1)
    csv_null_value: str = "NULL"
    rfc_4180: bool = True
    add_column_name: bool = False
    include_op_for_full_load: bool = False
    timestamp_column_name: str | None = Field(default=None, min_length=1)
    timestamp_zone: str = "UTC"
    change_sequence_column: str | None = Field(default=None, min_length=1)
    before_image_prefix: str | None = Field(default=None, min_length=1)
    date_partition_enabled: bool = False
    date_partition_sequence: Literal["yyyymmdd", "yyyymmddhh", "yyyymm", "mmyyyydd", "ddmmyyyy"] = "yyyymmdd"
    date_partition_delimiter: Literal["slash", "dash", "underscore", "none"] = "slash"

    @field_validator("date_partition_sequence", "date_partition_delimiter", mode="before")
    @classmethod
    def _any_case(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @field_validator("timestamp_zone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError) as error:  # OSError: "Europe" is a folder of the database
            raise ValueError(f"{value!r} is not an IANA time zone such as UTC or Europe/Berlin") from error
        return value


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
    APPEND_LOG = "append_log"
    CHANGE_LOG = "change_log"


class Column(Model):
    """One source column: its Iceberg type name and whether the source declares it NOT NULL."""

    name: str = Field(min_length=1)
    type: str
    required: bool = False

    @model_validator(mode="before")
    @classmethod
    def _declared(cls, value: Any) -> Any:
        return parse_column(*value).model_dump() if isinstance(value, tuple) else value


def parse_column(name: str, declaration: Any) -> Column:
    """`"decimal(10, 2) not null"` as a Column. Raises ValueError for a type that silver does not have."""
    text = re.sub(r"\s+", " ", str(declaration).strip().lower())
    required = text.endswith(" not null")
    type_name = text.removesuffix(" not null").strip()
    match = _TYPE.match(type_name)
    if match is None:
        raise ValueError(
            f"{declaration!r} is not a type; use boolean, int, long, float, double, decimal(p, s), "
            "date, timestamp, timestamptz, string or binary, optionally followed by 'not null'"
        )
    if match["precision"] is not None:
        precision, scale = int(match["precision"]), int(match["scale"])
        if not 1 <= precision <= 38 or scale > precision:
            raise ValueError(f"{declaration!r} needs 1 to 38 digits and no more decimals than digits")
        type_name = f"decimal({precision}, {scale})"
    return Column(name=name, type=type_name, required=required)


class FullLoadComplete(Model):
    """When all parts of a full load are taken to have arrived."""

    when: Literal["first_cdc", "quiet_period", "immediately"] = "first_cdc"
    quiet: Duration = timedelta(minutes=5)
    """Without a newer LOAD file for this long; also the fallback of first_cdc for a table that never changes."""

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
    columns: tuple[Column, ...] = Field(min_length=1)
    primary_key: tuple[str, ...] = ()
    name: str | None = None
    """Name of the silver table; the source table's by default."""
    mode: Mode = Mode.CURRENT
    also: tuple[Mode, ...] = ()
    partition_by: tuple[str, ...] = ()
    full_load_complete: FullLoadComplete = FullLoadComplete()
    freshness: Freshness | None = None
    format_version: Literal[2, 3] = 3
    description: str | None = None
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = Field(default_factory=dict)

    @field_validator("columns", mode="before")
    @classmethod
    def _columns(cls, value: Any) -> Any:
        return tuple(value.items()) if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _consistent(self) -> "TableConfig":
        _refuse(self._mistakes())
        return self

    def _mistakes(self) -> Iterator[Mistake]:
        types = {column.name: column.type for column in self.columns}
        folded: dict[str, str] = {}
        for name in types:
            if (other := folded.setdefault(name.lower(), name)) != name:
                yield ("columns", name), f"differs from {other} only in case, which Spark does not tell apart"
        for key, entries in (("primary_key", self.primary_key), ("also", self.also)):
            if len(set(entries)) < len(entries):
                yield (key,), "names the same thing twice"
        for key in self.primary_key:
            if key not in types:
                yield ("primary_key",), f"names {key}, which columns does not have{did_you_mean(key, types)}"
        if self.mode is Mode.CURRENT and not self.primary_key:
            yield (
                ("primary_key",),
                "is missing, and a table without one cannot be kept current: declare the key, or say "
                "mode: append_log (inserts only) or mode: change_log",
            )
        for entry in self.partition_by:
            if wrong := _partition_mistake(entry, types):
                yield ("partition_by",), wrong
        for shape in self.also:
            if shape is not Mode.CHANGE_LOG or shape is self.mode:
                yield ("also",), f"{shape} is no further shape of a {self.mode} table"


class SourceConfig(Model):
    location: str = Field(min_length=1)
    dms: DmsSettings = DmsSettings()
    s3: S3Config = S3Config()
    tables: dict[str, TableConfig] = Field(min_length=1)
    freshness: Freshness = Freshness()
    description: str | None = None
    owners: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> "SourceConfig":
        _refuse((("tables", name), text) for name, text in (*self._name_mistakes(), *self._column_mistakes()))
        return self

    def _name_mistakes(self) -> Iterator[tuple[str, str]]:
        silver_names: dict[str, str] = {}
        for name, table in self.tables.items():
            if name.count(".") != 1 or not all(name.split(".")):
                yield name, f"is not schema.table, as in public.{name.rsplit('.', 1)[-1] or 'trips'}"
                continue
            silver = table.name or name.split(".")[1].lower()
            if not _NAME.fullmatch(silver):
                yield name, f"its silver name {silver!r} must be lower case letters, digits and _; set name:"
            for shape in (silver, *(f"{silver}_changes" for _ in table.also)):
                if (other := silver_names.setdefault(shape, name)) != name:
                    yield name, f"both this table and {other} become {shape}; give one of them a name:"

    def _column_mistakes(self) -> Iterator[tuple[str, str]]:
        added = {self.dms.timestamp_column_name, self.dms.change_sequence_column, "Op"} - {None}
        for name, table in self.tables.items():
            for column in table.columns:
                if column.name in added:
                    yield name, f"column {column.name} has the name of a column that DMS adds"
            if self.dms.timestamp_column_name is None and (table.mode is Mode.CHANGE_LOG or table.also):
                yield name, "a change log needs dms.timestamp_column_name for its commit times"


class GoldConfig(Model):
    start_date: date
    """First day of the daily partitions of bronze and of the marts."""
    marts: tuple[str, ...] = ()
    """Python modules that each define one `MART`."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Handed to the marts as they are, such as the empty-rack limit."""


class AutomationConfig(Model):
    poll_interval: Duration = timedelta(seconds=0.5)
    poll_window: Duration = timedelta(seconds=4)
    """How long one sensor tick waits for a new file; below the daemon's 5 s loop, so that no tick is late."""
    heartbeat_interval: Duration = timedelta(seconds=5)
    heartbeat_timeout: Duration = timedelta(seconds=60)
    backoff_base: Duration = timedelta(seconds=15)
    backoff_max: Duration = timedelta(minutes=15)
    max_files_per_batch: int = Field(default=2000, ge=1)
    apply_threads: int = Field(default=2, ge=1)

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
    gold: GoldConfig
    automation: AutomationConfig = AutomationConfig()

    @model_validator(mode="after")
    def _source_names(self) -> "LakeConfig":
        wrong = (name for name in self.sources if not _NAME.fullmatch(name))
        _refuse((("sources", name), "a name has lower case letters, digits and _ only") for name in wrong)
        return self
