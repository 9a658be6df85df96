"""The silver tables of a source: one for each of its tables, and one for each further shape of `also:`.

Here: names and contract of each silver table. Not here: its state, or how it is written.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import SecretStr

from lake_assets.config import (
    FURTHER_SHAPES,
    SHAPE_COLUMNS,
    SHAPE_COMMENTS,
    Column,
    DmsSettings,
    FolderRule,
    Freshness,
    LakeConfig,
    Mode,
    SchemaChanges,
    SourceConfig,
    TableConfig,
    TableName,
    is_called,
)
from lake_assets.schema.contract import Contracts
from lake_assets.silver.table.change_events import key_columns
from lake_assets.spark.sql import Sql, joined, quoted, sql


@dataclass(frozen=True, slots=True)
class Tracked:
    """Columns of a silver table whose touched days or hours each commit must name, because a mart's partitions follow
    them."""

    days: tuple[str, ...] = ()
    hours: tuple[str, ...] = ()
    by_partition: bool = False
    """Whether a mart follows a column by which the table is partitioned, so that Iceberg names the periods: a commit
    should touch only the partitions that have changed."""


UNTRACKED = Tracked()


@dataclass(frozen=True, slots=True)
class Target:
    """One silver table, computed from one source table's DMS files."""

    source: str
    table: str
    """`schema.table` at the source, as in lake.yaml."""
    name: str
    """Name of the Iceberg table within its namespace."""
    mode: Mode
    config: TableConfig
    dms: DmsSettings
    freshness: Freshness
    schema_changes: SchemaChanges
    kept: tuple[Column, ...] = ()
    """Columns that were dropped at the source, and that the silver table keeps."""
    before_images: bool = False
    """Whether some of its files may have before images."""
    may_be_partial: bool = False
    """Whether updates in some of its files may lack columns, which `_unsupplied` names."""
    kept_when_null: frozenset[str] = frozenset()
    """The columns of `kept_when_null` in any of its contracts, by their present names."""
    ignore_case: bool = False
    """Whether names in the bucket belong to the table that differ from its own only by case."""
    salt: SecretStr | None = None
    """The salt of columns with `mask: hash`."""
    tracked: Tracked = UNTRACKED
    key_prefix: tuple[str, ...] = ()
    """`LakeConfig.key_prefix`"""

    @property
    def namespace(self) -> str:
        return f"silver_{self.source}"

    @property
    def identifier(self) -> str:
        """`namespace.table`, as PyIceberg and Iceberg's procedures take it."""
        return f"{self.namespace}.{self.name}"

    def is_called(self, name: str) -> bool:
        """Whether a user's name for a table means this one: `schema.table` of the source, or the silver table's name,
        with or without its namespace."""
        return name in (self.name, self.identifier) or is_called(self.table, name)

    @property
    def argument(self) -> str:
        """The source table's name as an argument of a command, quoted for the shell."""
        return shlex.quote(self.table)

    @property
    def folder_rule(self) -> FolderRule:
        """Which folders, and names in transaction files, belong to its source table."""
        return FolderRule(TableName.parse(self.table), self.config.folders, self.ignore_case)

    @property
    def asset_key(self) -> tuple[str, ...]:
        return (*self.key_prefix, "silver", self.source, self.name)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The silver table's columns: the source's own, and those of the shape."""
        return (*self._own_columns(self.config.columns), *self.kept)

    def _own_columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        if self.mode is Mode.CHANGE_LOG:
            # A delete has its key only, so no column of a change log can be required.
            return SHAPE_COLUMNS[self.mode] + tuple(Column(name=c.name, type=c.type) for c in columns)
        return (*columns, *SHAPE_COLUMNS.get(self.mode, ()))

    @property
    def comments(self) -> dict[str, str]:
        """By column, what it means: as lake.yaml says, and of the shape's columns."""
        added = {column.name: SHAPE_COMMENTS[column.name] for column in SHAPE_COLUMNS.get(self.mode, ())}
        return {**self.config.comments, **added}

    @property
    def image_columns(self) -> tuple[Column, ...]:
        """The source's columns in silver, the kept ones included."""
        return (*self.config.columns, *self.kept)

    def under(self, contracts: Contracts) -> "Target":
        """The target by the newest of these contracts, instead of by lake.yaml."""
        newest = contracts.versions[-1].contract
        settings = [dms for version in contracts.versions for dms in version.contract.all_settings]
        return replace(
            self,
            config=newest.table(self.config),
            dms=newest.dms,
            kept=contracts.kept(drops=self.schema_changes.dropped == "drop"),
            before_images=any(dms.before_image_prefix is not None for dms in settings),
            may_be_partial=any(v.contract.has_partial_updates for v in contracts.versions),
            kept_when_null=self._kept_when_null(contracts),
        )

    def _kept_when_null(self, contracts: Contracts) -> frozenset[str]:
        found: set[str] = set()
        for version in contracts.versions:
            today = contracts.names_today(version.number, drops=self.schema_changes.dropped == "drop")
            found |= {today[name] for name in version.contract.kept_when_null if name in today}
        return frozenset(found)

    def created_with(self, contracts: Contracts) -> tuple[Column, ...]:
        """The columns with which the table is created: its first contract's, so that a table that is created again gets
        the same field ids."""
        return self._own_columns(contracts.versions[0].contract.columns)

    @property
    def key(self) -> tuple[str, ...]:
        return self.config.primary_key

    @property
    def may_stay_null(self) -> frozenset[str]:
        """Columns that are NULL if an update lacks them and no former value is known."""
        return self.kept_when_null - {column.name for column in self.config.columns if column.required}

    @property
    def has_number_key(self) -> bool:
        """Whether the first column of the key is of whole numbers."""
        return any(column.name == self.key[0] and column.type in ("int", "long") for column in self.columns)

    @property
    def matched_by(self) -> tuple[str, ...]:
        """The columns by which a change finds its row, in the order of the table's columns, as files have them."""
        every = self.config.mode is Mode.FULL_ROW
        return tuple(column.name for column in self.image_columns if every or column.name in self.key)

    def key_matches(self, state: str, table: str) -> Sql:
        """The SQL condition that a key of the changes and a row of the silver table, by their aliases, share a key."""
        pairs = zip(key_columns(self.key), self.key, strict=True)
        return joined(
            " AND ",
            (
                sql("{held} = {column}", held=quoted(state, held), column=quoted(table, name))
                for held, name in pairs
            ),
        )

    @property
    def partition_by(self) -> tuple[str, ...]:
        return ("day(_commit_ts)",) if self.mode is Mode.CHANGE_LOG else self.config.partition_by


def source_targets(
    name: str,
    source: SourceConfig,
    tracked: Mapping[str, Tracked] | None = None,
    salt: SecretStr | None = None,
) -> list[Target]:
    """The silver tables of one source; `tracked` maps a silver table's name to its columns to track. `salt`: the
    lake's, for those that are written."""
    wanted = tracked or {}
    targets = []
    for table, config in source.tables.items():
        base = source.silver_name(table)
        for shape in (config.mode, *config.also):
            silver = base if shape is config.mode else base + FURTHER_SHAPES[shape]
            targets.append(
                Target(
                    source=name,
                    table=table,
                    name=silver,
                    mode=shape,
                    config=config,
                    dms=source.settings(table),
                    freshness=config.freshness or source.freshness,
                    schema_changes=_policies(config, source),
                    ignore_case=source.ignore_case,
                    salt=salt,
                    tracked=wanted.get(silver, UNTRACKED),
                )
            )
    return targets


def _policies(config: TableConfig, source: SourceConfig) -> SchemaChanges:
    policies = config.schema_changes or source.schema_changes
    if config.mode is Mode.FULL_ROW:
        # Changes do not have the dropped column, and could not find rows that have it.
        return policies.model_copy(update={"dropped": "drop"})
    return policies


def lake_targets(lake: LakeConfig, tracked: Mapping[tuple[str, str], Tracked] | None = None) -> list[Target]:
    """Every silver table of the lake; `tracked` maps (source, silver table) to the columns to track."""
    wanted = tracked or {}
    return [
        replace(target, key_prefix=lake.key_prefix)
        for name, source in lake.sources.items()
        for target in source_targets(
            name,
            source,
            {table: columns for (owner, table), columns in wanted.items() if owner == name},
            lake.masking.salt,
        )
    ]
