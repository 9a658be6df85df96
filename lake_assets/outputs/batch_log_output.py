"""The batch log as an output: the commits of silver's tables, recorded.

Not here: the log (`silver/batch_log/`). Before its snapshots expire, the maintenance of a table records what is left.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from pyiceberg.table import Table

from lake_assets.config.secrets import hidden_in
from lake_assets.iceberg.catalog import loading_threads
from lake_assets.iceberg.table_io import load_table
from lake_assets.lake import Lake
from lake_assets.outputs.output import Followed
from lake_assets.silver.batch_log.batches_table import BatchLog
from lake_assets.silver.batch_log.record_batches import record_batches
from lake_assets.spark.causes import root_cause
from lake_assets.words import many


class BatchLogOutput:
    """The batch log of one lake."""

    name = "batches"
    description = "Records each batch of silver in lake_ops.batches, once."
    every = 60.0
    shows_tables = False

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    @cached_property
    def _log(self) -> BatchLog:
        # Not earlier: Dagster's definitions load also while the catalog cannot be reached.
        return BatchLog(self._lake.runtime.catalog)

    def tables(self) -> Sequence[str]:
        """Silver's tables."""
        return [target.identifier for target in self._lake.targets]

    def follow(self) -> Followed:
        """Records the batches that the log lacks, those of all tables in one commit. Never raises."""
        done, problems = list[str](), list[str]()
        try:
            tables = self._loaded(problems)
            if new := record_batches(self._log, tables):
                done.append(f"{many(len(new), 'batch', 'were')} recorded")
        except Exception as error:  # noqa: BLE001  (of the catalog or the warehouse; the next look tries again)
            problems.append(f"batches could not be recorded: {self._reason(error)}")
        return Followed(done, problems)

    def look(self) -> Followed:
        """Nothing: the batches that are not recorded are in the tables' commits."""
        return Followed()

    def _loaded(self, problems: list[str]) -> list[Table]:
        def load(identifier: str) -> Table | None:
            try:
                return load_table(self._lake.runtime.catalog, identifier)
            except Exception as error:  # noqa: BLE001  (one table must not keep the others from being recorded)
                problems.append(f"{identifier}: its batches could not be recorded: {self._reason(error)}")
                return None

        threads = loading_threads(self._lake.config.catalog)
        with ThreadPoolExecutor(threads, thread_name_prefix="batches") as pool:
            return [table for table in pool.map(load, self.tables()) if table is not None]

    def _reason(self, error: Exception) -> str:
        return hidden_in(self._lake.config, root_cause(error))
