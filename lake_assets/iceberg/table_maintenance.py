"""Upkeep of one table that Spark writes: fewer and larger files, no more snapshots than somebody needs.

Here: the steps and their order, and giving way to batches. Not here: which tables (`commands/run/maintain.py`), which
snapshots may go (`retention.py`), the re-stamp (`restamp.py`), tables of the platform's own (`ops_upkeep.py`).

Every step may be killed and repeated. Files are rewritten on main in commits that change no row; a batch that was
planned before one of them is refused, and planned again.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from lake_assets.config import MaintenanceConfig
from lake_assets.errors import ApplyConflict
from lake_assets.iceberg.partitioning import has_files_of_before, to_be_changed
from lake_assets.iceberg.publish import begun_at, drop_branch, lost_race
from lake_assets.iceberg.restamp import Bears, bearer, restamp
from lake_assets.iceberg.retention import expirable
from lake_assets.iceberg.table_io import current_snapshot, load_table, summary
from lake_assets.spark.causes import whole_story
from lake_assets.spark.sql import Sql, joined, literal, quoted, sql, table_address

ATTEMPTS = 5
UNDER_WAY = timedelta(minutes=5)
"""An attempt that began longer ago is not waited for: either a large load, or dead."""
PATIENCE_SECONDS = 10.0
MOST_IDS = 1000
"""In one statement."""
T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Upkeep:
    """What was done to one table."""

    table: str
    files_before: int = 0
    files_rewritten: int = 0
    files_after: int = 0
    snapshots_before: int = 0
    snapshots_after: int = 0
    branches_dropped: int = 0
    restamped: bool = False
    orphans_removed: int = 0
    seconds: float = 0.0
    error: Exception | None = None


def timed(identifier: str, tend: Callable[[Upkeep], None]) -> Upkeep:
    """What `tend` did to the table, with the seconds that it took and the error that ended it."""
    start = time.perf_counter()
    done = Upkeep(identifier)
    try:
        tend(done)
    except Exception as error:  # noqa: BLE001  (one table's failure must not stop the others)
        logger.debug("%s could not be tended:\n%s", identifier, whole_story(error))
        done.error = done.error or error
    done.seconds = round(time.perf_counter() - start, 3)
    return done


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """The upkeep of one table of one lake."""

    spark: SparkSession
    catalog: Catalog
    identifier: str
    bears: Bears
    settings: MaintenanceConfig
    consumed: Callable[[], Collection[int]] = tuple
    """The snapshots that marts have come to: what comes after them is kept for a while."""
    keep_commits: int | None = None
    """See `expirable`; then nothing is expired before as many snapshots can go."""
    partition_by: Sequence[str] | None = None
    """The partitions that the table is to have; None for those that it has."""

    def run(self) -> Upkeep:
        """All the steps. Never raises for a fault of the table: see `error`."""
        return timed(self.identifier, self._run)

    def _run(self, done: Upkeep) -> None:
        table = load_table(self.catalog, self.identifier)
        if table is None:
            return
        done.files_before, done.snapshots_before = _data_files(table), len(table.metadata.snapshots)
        done.branches_dropped = self.drop_abandoned(table)
        if current_snapshot(table) is not None:
            self._wait_for_attempts()
            try:
                self._retrying("change its partitions", self.repartition)
                done.files_rewritten = self._retrying("rewrite its files", self.compact)
            except ApplyConflict as error:
                done.error = error  # and yet what it did commit must not hide the position
            done.restamped = self._retrying("repeat its position", self.restamp)
        self._retrying("expire its snapshots", self.expire)
        if (age := self.settings.remove_orphan_files_after) is not None:
            done.orphans_removed = self.remove_orphans(age)
        table = load_table(self.catalog, self.identifier)
        if table is not None:
            done.files_after, done.snapshots_after = _data_files(table), len(table.metadata.snapshots)

    def drop_abandoned(self, table: Table) -> int:
        """Drops the branches of attempts that began too long ago to be alive; how many."""
        oldest = datetime.now(UTC) - self.settings.abandoned_after
        found = [name for name in table.metadata.refs if (begun := begun_at(name)) and begun < oldest]
        for name in found:
            drop_branch(self.spark, self._address, name)
        return len(found)

    def repartition(self) -> None:
        """Gives the table the partitions that it is to have; `compact` moves its files into them."""
        table = load_table(self.catalog, self.identifier)
        if table is None or self.partition_by is None:
            return
        columns = {quoted(name) for name in table.schema().column_names}
        for change in to_be_changed(table, self.partition_by):
            if any(column in change for column in columns):  # or it is still to come
                self.spark.sql(sql("ALTER TABLE {table} {change}", table=self._address, change=change))

    def compact(self) -> int:
        """Rewrites small data files, those with many deleted rows, and manifests; the number of data files it read.

        In several commits: one that a batch gets in the way of costs its own files' work only.
        """
        options = {
            "partial-progress.enabled": "true",
            "target-file-size-bytes": str(self.settings.target_file_size_mb << 20),
            "min-input-files": str(self.settings.min_small_files),
            "delete-ratio-threshold": "0.3",
            # Of format v2: a file of v3 has one deletion vector.
            "delete-file-threshold": str(self.settings.min_small_files),
            "remove-dangling-deletes": "true",
        }
        table = load_table(self.catalog, self.identifier)
        if table is not None and has_files_of_before(table):
            options["rewrite-all"] = "true"
        listed = joined(", ", (literal(text) for option in options.items() for text in option))
        figures = self._call("rewrite_data_files", sql("options => map({options})", options=listed))
        if figures.get("failed_data_files_count"):
            raise ApplyConflict(f"{self.identifier}: a batch came first")
        table = load_table(self.catalog, self.identifier)
        snapshot = current_snapshot(table)
        assert table is not None
        assert snapshot is not None
        if table.format_version == 2:
            self._call("rewrite_position_delete_files")
        if len(snapshot.manifests(table.io)) >= self.settings.min_small_files:
            self._call("rewrite_manifests")
        return int(figures["rewritten_data_files_count"])

    def restamp(self) -> bool:
        """Repeats what must survive, if main's head does not bear it; whether it did."""
        return restamp(self.spark, self.catalog, self.identifier, self.bears)

    def expire(self) -> int:
        """Expires the snapshots that nothing needs, and deletes what only they had; how many."""
        table = load_table(self.catalog, self.identifier)
        if table is None:
            return 0
        stamped = bearer(table, self.bears)
        ids = expirable(
            table,
            self.settings,
            datetime.now(UTC),
            bearer=stamped.snapshot_id if stamped is not None else None,
            consumed=self.consumed(),
            keep_commits=self.keep_commits,
        )
        if self.keep_commits is not None and len(ids) < self.keep_commits:
            return 0  # it takes a second, however few they are
        for first in range(0, len(ids), MOST_IDS):
            # Without an age, Iceberg would also expire what is older than its own five days.
            listed = joined(", ", (Sql(number) for number in ids[first : first + MOST_IDS]))
            arguments = sql(
                "older_than => TIMESTAMP '1970-01-02 00:00:00Z', snapshot_ids => array({ids})", ids=listed
            )
            self._call("expire_snapshots", arguments)
        return len(ids)

    def remove_orphans(self, age: timedelta) -> int:
        """Deletes files of the table's folder that are older and that no snapshot knows; how many."""
        before = f"{datetime.now(UTC) - age:%Y-%m-%d %H:%M:%SZ}"
        older = sql("older_than => TIMESTAMP {before}", before=literal(before))
        statement = self._procedure("remove_orphan_files", older)
        return len(self.spark.sql(statement).collect())

    def _wait_for_attempts(self) -> None:
        """A batch that is being applied takes a second or so; to rewrite its table meanwhile would cost it that."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            table = load_table(self.catalog, self.identifier)
            now = datetime.now(UTC)
            begun = [begun_at(name) for name in table.metadata.refs] if table is not None else []
            if not any(at is not None and now - at < UNDER_WAY for at in begun):
                return
            time.sleep(0.2)

    def _retrying(self, purpose: str, step: Callable[[], T]) -> T:
        policy = Retrying(
            retry=retry_if_exception(_came_second),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            reraise=True,
        )
        try:
            return policy(step)
        except Exception as error:
            if not _came_second(error):
                raise
            raise ApplyConflict(
                f"{self.identifier}: other commits came first each of the {ATTEMPTS} times that maintenance was about "
                f"to {purpose}. Nothing is lost; run `lake-assets maintain` again when fewer batches arrive."
            ) from error

    def _call(self, procedure: str, arguments: Sql | None = None) -> dict[str, Any]:
        row = self.spark.sql(self._procedure(procedure, arguments)).first()
        return row.asDict() if row is not None else {}

    def _procedure(self, name: str, arguments: Sql | None = None) -> Sql:
        table = sql("table => {table}", table=literal(self.identifier))
        return sql(
            "CALL {procedure}({arguments})",
            procedure=quoted(self.catalog.name, "system", name),
            arguments=table if arguments is None else joined(", ", (table, arguments)),
        )

    @property
    def _address(self) -> Sql:
        return table_address(self.catalog.name, self.identifier)


def _came_second(error: BaseException) -> bool:
    if isinstance(error, ApplyConflict):
        return True
    if not isinstance(error, (PySparkException, Py4JError)):
        return False
    # Files or manifests that a rewrite replaces were touched; a snapshot got a branch since it was chosen to go.
    signs = ("ValidationException", "Still referenced by refs")
    return lost_race(error) or any(sign in str(error) for sign in signs)


def _data_files(table: Table) -> int:
    return int(summary(current_snapshot(table)).get("total-data-files", "0"))
