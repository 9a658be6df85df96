"""A whole lake.yaml: catalog, Spark, sources, marts, automation, maintenance.

Not here: reading the file and the environment (`config_file.py`), or using a setting.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SecretStr,
    field_validator,
    model_validator,
)

from lake_assets.config.automation import ContinuousConfig, MaintenanceConfig
from lake_assets.config.aws.access import SecretsConfig
from lake_assets.config.aws.jobs import JobsConfig
from lake_assets.config.aws.listing import (
    Location,
    below,
    place_mistakes,
)
from lake_assets.config.aws.secret_references import has_reference
from lake_assets.config.base import (
    CENTURY,
    Duration,
    Model,
    matching,
    refuse,
    setting_text,
)
from lake_assets.config.checks import FOR_GOLD, ChecksConfig, TableCheck, check_mistakes
from lake_assets.config.columns import FROM_DATABASE, Mask, MaskingConfig
from lake_assets.config.outputs.alarms import AlarmsConfig
from lake_assets.config.outputs.warehouses import WarehousesConfig
from lake_assets.config.source import SILVER_NAME, SourceConfig
from lake_assets.config.spark import SparkConfig
from lake_assets.config.tables import TableConfig

Reader = Literal[
    "athena",
    "clickhouse",
    "daft",
    "databricks",
    "duckdb",
    "polars",
    "pyiceberg",
    "redshift",
    "snowflake",
    "spark",
    "trino",
]
READERS_OF_VERSION_2: frozenset[Reader] = frozenset(("athena", "clickhouse", "daft", "duckdb", "trino"))
"""Readers that refuse tables of format version 3, or return wrong rows of them: Athena's engine 3 by its documentation,
and ClickHouse, Daft, DuckDB 1.5.5 and Trino 476 as tried with deletion vectors."""


class CatalogConfig(BaseModel):
    """The Iceberg catalog; other keys than the named ones go to Spark and PyIceberg unchanged."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    __pydantic_extra__: dict[str, str | int | float | bool] = Field(init=False)

    name: Annotated[
        str, matching(SILVER_NAME, "is part of table names in SQL: use lower case letters, digits and _")
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
        return {key: setting_text(value) for key, value in extra}

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # A REST catalog's `token` or `credential` is such a key: show its name, and hide its value.
        for key, value in super().__repr_args__():
            yield key, SecretStr("hidden") if key in self.properties else value


class GoldConfig(Model):
    start_date: date = date(2000, 1, 1)
    """The earliest day of bronze and of the marts: the marts leave earlier rows out. In Dagster, partitions begin at
    the first day of the data, but not before this day. At most a century ago: earlier times in a row count as markers
    such as 1900-01-01."""
    marts: tuple[str, ...] = ()
    """`.sql` files beside lake.yaml, and Python modules or `.py` files that define a `MART`: one mart each."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the marts, such as the empty-rack limit; passed to them unchanged."""
    format_version: Literal[2, 3] | None = None
    """Iceberg's format in which the tables of marts and of own assets are created; by default, that of the lake."""
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
    """The pause between two evaluations in a sensor's tick: each of the file sensor lists the bucket."""
    preview_rows: int = Field(default=10, ge=0, le=100)
    """How many of a commit's rows its event shows in Dagster. With 0, no value gets into Dagster's storage. See also
    `preview` of a table."""
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

    @field_validator("poll_interval")
    @classmethod
    def _pauses(cls, interval: timedelta) -> timedelta:
        if not interval:
            raise ValueError("must be above 0s, or a tick lists the bucket without a pause")
        return interval


class LakeConfig(Model):
    """A whole `lake.yaml`."""

    catalog: CatalogConfig
    spark: SparkConfig = SparkConfig()
    sources: dict[str, SourceConfig] = Field(min_length=1)
    gold: GoldConfig = GoldConfig()
    automation: AutomationConfig = AutomationConfig()
    jobs: JobsConfig | None = None
    """The jobs of EMR Serverless or Glue that apply tables and compute marts for Dagster's runs; without them, each run
    does it in its own process. Commands such as `lake-assets sync` always do."""
    maintenance: MaintenanceConfig = MaintenanceConfig()
    checks: ChecksConfig = ChecksConfig()
    alarms: AlarmsConfig = AlarmsConfig()
    secrets: SecretsConfig = SecretsConfig()
    masking: MaskingConfig = MaskingConfig()
    warehouses: WarehousesConfig = WarehousesConfig()
    """The warehouses that show the tables of silver and gold."""
    format_version: Literal[2, 3] = 3
    """Iceberg's format in which tables are created. In version 3, a batch writes less; not every engine reads it. A
    table keeps the version that it has: nothing changes it in place, because some warehouses can then no longer refresh
    it."""
    readers: tuple[Reader, ...] = ()
    """The engines that read silver and the marts: `lake-assets validate` names the tables that one of them cannot
    read."""
    asset_key_prefix: str | None = None
    """What the keys of the lake's assets in Dagster begin with, and the names of its sensors and jobs. It is for lakes
    that share one Dagster instance, such as code locations of staging and production: Dagster identifies an asset by
    its key, whichever code location it is in."""

    _given: Any = PrivateAttr(default=None)
    """What was validated, if the source database has the columns of a table."""

    @model_validator(mode="wrap")
    @classmethod
    def _opened(cls, value: Any, handler: ModelWrapValidatorHandler["LakeConfig"]) -> "LakeConfig":
        lake = handler(value)
        if lake.open_tables and isinstance(value, dict):
            lake._given = value
        refuse(
            (("sources", source, "tables", table, "columns"), f"{FROM_DATABASE} {wrong}")
            for source, table in lake.open_tables
            if (wrong := lake.sources[source].why_not_open(table)) is not None
        )
        return lake

    @property
    def open_tables(self) -> list[tuple[str, str]]:
        """The sources and tables (`schema.table`) whose columns the source database has."""
        return [
            (name, table)
            for name, source in self.sources.items()
            for table, config in source.tables.items()
            if config.is_open
        ]

    def given_with(self, found: Mapping[tuple[str, str], Mapping[str, Any] | None]) -> dict[str, Any]:
        """What was validated, with further keys of tables that are open, by source and table; None leaves a table
        out."""
        given: dict[str, Any] = copy.deepcopy(self._given)
        for (source, table), keys in found.items():
            tables = given["sources"][source]["tables"]
            if keys is None:
                del tables[table]
            else:
                tables[table] = {**tables[table], **keys}  # two tables may share theirs, by an alias of YAML
        given["sources"] = {name: source for name, source in given["sources"].items() if source["tables"]}
        return given

    def silver_version(self, table: TableConfig) -> int:
        """Iceberg's format in which a table of silver is created."""
        return table.format_version or self.format_version

    @property
    def gold_version(self) -> int:
        """Iceberg's format in which the tables of marts and own assets are created."""
        return self.gold.format_version or self.format_version

    @property
    def glue_region(self) -> str | None:
        """The region of the Glue catalog."""
        known, snowflake = self.catalog.properties, self.warehouses.snowflake
        named = snowflake.region if snowflake is not None else None
        return named or known.get("glue.region") or known.get("client.region")

    @property
    def glue_account(self) -> str | None:
        """The account of the Glue catalog: the one that `glue.id` names, or that of the role of Snowflake."""
        snowflake = self.warehouses.snowflake
        role = snowflake.role_arn if snowflake is not None else None
        return self.catalog.properties.get("glue.id") or (role.split(":")[4] if role is not None else None)

    @property
    def key_prefix(self) -> tuple[str, ...]:
        """The first part of the keys of assets; empty without a prefix."""
        return (self.asset_key_prefix,) if self.asset_key_prefix else ()

    @model_validator(mode="after")
    def _served(self) -> "LakeConfig":
        """Snowflake reads the catalog of the lake, so it must be one that it can read."""
        if (snowflake := self.warehouses.snowflake) is not None:
            needed = "rest" if snowflake.catalog == "open_catalog" else "glue"
            if self.catalog.type != needed:
                text = f"needs a catalog of type {needed}, and that of this lake is {self.catalog.type}"
                refuse([(("warehouses", "snowflake", "catalog"), f"{snowflake.catalog} {text}")])
            if needed == "glue" and self.glue_region is None:
                text = "is missing; name it here, or as glue.region or client.region of the catalog"
                refuse([(("warehouses", "snowflake", "region"), text)])
        return self

    @model_validator(mode="after")
    def _jobs(self) -> "LakeConfig":
        if self.jobs is not None and self.automation.continuous is not None:
            text = "is for runs that apply tables themselves: remove it, or the section `jobs`"
            refuse([(("automation", "continuous"), text)])
        return self

    @model_validator(mode="after")
    def _prefix(self) -> "LakeConfig":
        if self.asset_key_prefix and not re.fullmatch(SILVER_NAME, self.asset_key_prefix):
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
        wrong = (name for name in self.sources if not re.fullmatch(SILVER_NAME, name))
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
