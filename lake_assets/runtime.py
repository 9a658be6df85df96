"""The shared parts of one lake, created once from its configuration.

Here: the catalog, the file log, the object stores and the Spark sessions. Not here: their use.
"""

import os
from functools import cached_property, lru_cache, partial
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog

from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.log_record import Owner, of_nobody
from lake_assets.bronze.quarantine.quarantine_log import Quarantine
from lake_assets.bronze.scan.scan_failures import ScanFailures
from lake_assets.bronze.scan.strays import StrayLog
from lake_assets.bronze.stream.backlog import Backlogs
from lake_assets.bronze.stream.clients.stream_client import opened_client
from lake_assets.config import LakeConfig, TableName
from lake_assets.config.aws.listing import below
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.iceberg.findings import Findings
from lake_assets.schema.at_source import AtSource
from lake_assets.schema.contract_log import ContractLog
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.dms_tasks import TaskReports
from lake_assets.storage.object_store import ObjectStore, open_store

if TYPE_CHECKING:
    from lake_assets.iceberg.publish import KeptBranches
    from lake_assets.spark.session import SparkSessions
    from lake_assets.storage.reflection.reflect import SourceTable


def most_large_batches(lake: LakeConfig) -> int:
    """How many large batches are applied at a time."""
    return max(2, lake.automation.apply_threads // 3)


def owner_of(lake: LakeConfig) -> Owner:
    """Which table of the lake the records of a folder belong to."""
    if not any(table.folders for source in lake.sources.values() for table in source.tables.values()):
        return of_nobody
    return lru_cache(maxsize=1 << 16)(partial(_owner, lake))


def _owner(lake: LakeConfig, source: str, table: TableName) -> TableName | None:
    owners = lake.sources[source].tables_of(table) if source in lake.sources else []
    if len(owners) != 1 or not lake.sources[source].tables[owners[0]].folders:
        return None
    found = TableName.parse(owners[0])
    return None if found == table else found


class LakeRuntime:
    """Opens each part on first use: listing files needs no Spark, and a command that fails early starts nothing."""

    def __init__(self, lake: LakeConfig, spark_log: Path | None = None) -> None:
        """`spark_log`: the file for Spark's own messages; standard error by default."""
        self.lake = lake
        self._spark_log = spark_log
        self._stores: dict[str, ObjectStore] = {}
        self.aws = Aws(lake.secrets)
        self.large_batches = BoundedSemaphore(most_large_batches(lake))
        """Held while a large batch is applied: all large batches of the moment must fit into memory together."""
        self.waiting: tuple[str, ...] = ()
        """Why tables of lake.yaml wait for their columns, and are not in `lake`."""
        self.branches: KeptBranches | None = None
        """Set in a process that applies many batches."""
        self.run_id = ""
        """The run of Dagster for which this process applies batches; their commits have it. Empty without one."""

    @cached_property
    def catalog(self) -> Catalog:
        return open_catalog(self.lake.catalog, self.aws.secrets)

    @cached_property
    def file_log(self) -> FileLog:
        log = FileLog(self.catalog, owner=owner_of(self.lake))
        # What writes a catalog in SQLite are the two clients themselves.
        log.ensure(self.probe if self.lake.catalog.type != "sqlite" else lambda: None)
        return log

    def probe(self) -> None:
        """Tries what the lake needs of the catalog; raises CatalogUnfit. By itself only before the lake's first
        write."""
        # Imported here, because it imports pandas, and hardly any command needs it.
        from lake_assets.iceberg.catalog_probe import refuse_unfit

        refuse_unfit(self.catalog, self.lake)

    @cached_property
    def contracts(self) -> ContractLog:
        return ContractLog(self.catalog)

    @cached_property
    def quarantine(self) -> Quarantine:
        return Quarantine(self.catalog)

    @cached_property
    def findings(self) -> Findings:
        return Findings(self.catalog)

    @cached_property
    def strays(self) -> StrayLog:
        return StrayLog(self.findings)

    @cached_property
    def scan_failures(self) -> ScanFailures:
        return ScanFailures(self.lake, self.findings)

    @cached_property
    def backlogs(self) -> Backlogs:
        return Backlogs(self.file_log, lambda stream: opened_client(stream, self.aws))

    @cached_property
    def dms_tasks(self) -> TaskReports:
        return TaskReports(aws=self.aws)

    @cached_property
    def sessions(self) -> "SparkSessions":
        # Imported here, so that a run without work does not wait for PySpark.
        from lake_assets.spark.session import SparkSessions

        return SparkSessions(self.lake, self._spark_log, self.aws)

    def at_source(self, source: str, table: str) -> AtSource:
        """A table (`schema.table`) in the source's database."""
        address = self.lake.sources[source].database

        def read() -> "SourceTable | None":
            # Imported here, because it imports SQLAlchemy, and few processes read a database.
            from lake_assets.storage.reflection.reflect import read_table

            assert address is not None, "called only with an address"
            return read_table(address.get_secret_value(), table, self.aws.secrets)

        return AtSource(table, read if address is not None else None)

    def store(self, source: str) -> ObjectStore:
        """Where a source's DMS files land."""
        if source not in self._stores:
            config = self.lake.sources[source]
            dagster = below(config.location, [os.environ.get("DAGSTER_HOME") or None])
            others = {*self.lake.not_of(source), *dagster}
            self._stores[source] = open_store(config.location, config.s3, self.aws, without=others)
        return self._stores[source]
