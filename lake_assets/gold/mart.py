"""What a mart is: its inputs, how its partitions follow from theirs, and the function that computes it.

Here: the declaration that every mart module fills in as `MART`. Not here: Dagster
(`orchestration/assets/mart_assets.py`), finding the periods that changed (`changed_periods.py`), writing
(`write/write_mart.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from lake_assets.config import Column
from lake_assets.gold.periods.grain import Grain

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame


class Follow(StrEnum):
    """Which of the mart's partitions a change of an input concerns. DAY stands for the partition, such as the hour for
    a mart by hour. The names with PARTITION mean the same."""

    DAY = "day"
    """A change concerns the day of its `column`: the day in the old image and the day in the new one."""
    DAY_ONWARDS = "day_onwards"
    """As DAY, and also every later day up to the source's last commit: a state lasts until the next change."""
    EVERY_DAY = "every_day"
    """Any change concerns every day, such as that of a dimension whose current rows are read."""
    PARTITION = "day"
    PARTITION_ONWARDS = "day_onwards"
    EVERY_PARTITION = "every_day"


@dataclass(frozen=True, slots=True)
class Input:
    """A silver table that a mart reads."""

    source: str
    table: str
    """Name of the silver table, such as `trips` or `station_status_changes`."""
    follow: Follow = Follow.EVERY_DAY
    column: str | None = None
    """The timestamp or date column for DAY and DAY_ONWARDS."""

    def __post_init__(self) -> None:
        if (self.column is None) != (self.follow is Follow.EVERY_DAY):
            raise ValueError(
                f"{self.source}.{self.table}: {self.follow} and column {self.column} do not go together"
            )

    @property
    def identifier(self) -> str:
        return f"silver_{self.source}.{self.table}"


@dataclass(frozen=True, slots=True)
class MartRequest:
    """What a mart's function computes from."""

    inputs: Mapping[str, "DataFrame"]
    """The inputs under the names the mart gave them, each at one fixed snapshot."""
    now: datetime
    """The source's last commit that the lake has, UTC; for a mart at a cut, the cut."""
    first_day: date | None
    """First and last day to compute, UTC, both included; None for an unpartitioned mart."""
    last_day: date | None
    settings: Mapping[str, Any]
    """`gold.settings` of lake.yaml."""
    hours: tuple[datetime, datetime] | None = None
    """For a mart by hour, the first and the last hour to compute, UTC, both included."""

    @property
    def days(self) -> tuple[date, date]:
        assert self.first_day is not None, "only a partitioned mart has days"
        assert self.last_day is not None, "only a partitioned mart has days"
        return self.first_day, self.last_day

    @property
    def window(self) -> tuple[datetime, datetime]:
        """The first instant to compute, and the exclusive end, UTC."""
        return Grain.DAY.window(*self.days) if self.hours is None else Grain.HOUR.window(*self.hours)

    def within(self, moment: str) -> "SparkColumn":
        """Whether a timestamp column lies in the partitions to compute. The condition is a range of instants, by which
        Iceberg skips partitions and files."""
        # Imported here, because planning a mart needs no Spark.
        from pyspark.sql import functions as F

        start, end = (F.lit(time.isoformat()).cast("timestamp") for time in self.window)
        return (F.col(moment) >= start) & (F.col(moment) < end)


@dataclass(frozen=True, slots=True)
class Mart:
    """A gold table."""

    name: str
    description: str
    inputs: Mapping[str, tuple[Input, ...] | Input]
    """By the name under which `compute` gets the table; several Inputs of one table if partitions follow several
    columns."""
    columns: tuple[Column, ...]
    compute: Callable[[MartRequest], "DataFrame"]
    at_cut: bool = False
    """Whether it reads its inputs at the newest consistent cut of their source. It then sees a transaction over several
    tables whole or not at all, with the delay of `consistent_cut`. Otherwise it reads each input at its head."""
    partition_column: str | None = "day"
    """The column that says in which partition a row is: the first day of the partition as a date, or for a mart by hour
    the hour's beginning as a timestamptz. None for an unpartitioned mart."""
    partitions: Grain = Grain.DAY
    """What one partition is: an hour, a day, a week from Monday on, or a month; UTC."""
    key: tuple[str, ...] = ()
    """The columns that identify a row of an unpartitioned mart: only rows that differ are written. By default all rows
    are replaced."""
    with_silver: bool = True
    """Whether a mart without partitions is computed in each run and round that applies its inputs. False for one that
    takes long, because the next files would wait for it: it has runs of its own, like a mart with partitions."""
    days_per_run: int | None = None
    """The most partitions that one run of a backfill computes; None for all those of a range in one run."""
    recompute_on_new_code: bool = False
    """Whether any change of its module or `.sql` file makes all of its rows stale, a comment included."""
    settings: type[BaseModel] | None = None
    """The keys of `gold.settings` that it reads, for `lake-assets validate`; None if the mart does not declare them."""
    comments: Mapping[str, str] = field(default_factory=dict)
    """By column, what it means, for Iceberg and Dagster."""
    preview: bool = True
    """Whether events in Dagster show some of its rows; see `automation.preview_rows`."""
    owners: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    key_prefix: tuple[str, ...] = ()
    """`LakeConfig.key_prefix`; set when the lake is opened."""

    def __post_init__(self) -> None:
        if self.key and self.partition_column is not None:
            raise ValueError(f"{self.name} has a key, which is for marts with partition_column=None")
        if unknown := set(self.key) - {column.name for column in self.columns}:
            raise ValueError(f"{self.name} has no column {', '.join(sorted(unknown))}, which its key names")
        declared = {column.name: column.type for column in self.columns}
        kind = "timestamptz" if self.partitions is Grain.HOUR else "date"
        if self.partition_column is not None and declared.get(self.partition_column) != kind:
            raise ValueError(
                f"{self.name} has partitions by {self.partitions}: its partition_column, {self.partition_column}, must "
                f"be one of its columns, a {kind}; a mart without partitions has none (None, in SQL null)"
            )

    @property
    def identifier(self) -> str:
        return f"gold.{self.name}"

    @property
    def asset_key(self) -> tuple[str, ...]:
        return (*self.key_prefix, "gold", self.name)

    def silver_key(self, rule: Input) -> tuple[str, ...]:
        """The asset of the silver table that an input reads."""
        return (*self.key_prefix, "silver", rule.source, rule.table)

    @property
    def rules(self) -> tuple[Input, ...]:
        """Every input rule: several for a table if the mart's partitions follow several of its columns."""
        return tuple(
            rule
            for given in self.inputs.values()
            for rule in (given if isinstance(given, tuple) else (given,))
        )

    @property
    def tables(self) -> dict[str, Input]:
        """One Input for each name."""
        return {name: given[0] if isinstance(given, tuple) else given for name, given in self.inputs.items()}

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(sorted({rule.source for rule in self.rules}))
