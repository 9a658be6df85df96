"""Maintenance of one table that Spark writes: fewer and larger files, and only the snapshots that are needed.

Here: the steps and their order, and waiting for batches. Not here: which tables (`commands/run/maintain.py`), which
snapshots may expire (`retention.py`), the re-stamp (`restamp.py`), tables of the platform's own (`ops_maintenance.py`).

Every step may be killed and repeated. Files are rewritten on main in commits that change no row; a batch that was
planned before such a commit is refused, and planned again.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from secrets import token_hex
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from lake_assets.config import MaintenanceConfig
from lake_assets.config.automation import ABANDONED_AFTER
from lake_assets.errors import ApplyConflict
from lake_assets.iceberg.partitioning import has_former_partitions, partition_changes
from lake_assets.iceberg.publish import begun_at, drop_branch, lost_race
from lake_assets.iceberg.table_io import (
    ORPHANS_REMOVED_AT,
    current_snapshot,
    load_table,
    set_property,
    summary,
)
from lake_assets.iceberg.upkeep.orphan_files import OrphanFile, orphan_files
from lake_assets.iceberg.upkeep.parts_and_limits import (
    EVERY_PART,
    FILE_SIZE,
    LARGE,
    MIN_SMALL_FILES,
    WORN_SHARE,
    Part,
)
from lake_assets.iceberg.upkeep.restamp import StampRule, restamp, stamped_snapshot
from lake_assets.iceberg.upkeep.retention import expirable, main_chain
from lake_assets.iceberg.upkeep.table_health import read_files
from lake_assets.spark.causes import full_traceback
from lake_assets.spark.sql import Sql, joined, literal, quoted, sql, table_address

ATTEMPTS = 5
UNDER_WAY = timedelta(minutes=5)
"""Maintenance does not wait for an attempt that began longer ago: such an attempt is a large load, or dead."""
PATIENCE_SECONDS = 10.0
BYTES_OF_PART = 1 << 30
"""The most bytes of a slice of a rewrite, and those of a table for each of its commits."""
MOST_PARTS = 10
MOST_IDS = 1000
"""Snapshot ids in one statement."""
T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Maintained:
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
    rows_removed: int = 0
    """Of a table with `keep_history`."""
    bytes_removed: int = 0
    """Of superseded files of a source."""
    seconds: float = 0.0
    error: Exception | None = None


def timed(identifier: str, maintain: Callable[[Maintained], object]) -> Maintained:
    """Runs `maintain` on the table; returns what it did, with its seconds and the error that ended it."""
    start = time.perf_counter()
    done = Maintained(identifier)
    try:
        maintain(done)
    except Exception as error:  # noqa: BLE001  (one table's failure must not stop the others)
        logger.debug("%s: the maintenance failed:\n%s", identifier, full_traceback(error))
        done.error = done.error or error
    done.seconds = round(time.perf_counter() - start, 3)
    return done


@dataclass(frozen=True, slots=True)
class TableMaintenance:
    """The maintenance of one table of one lake."""

    spark: SparkSession
    catalog: Catalog
    identifier: str
    stamps: StampRule
    settings: MaintenanceConfig
    consumed: Callable[[], Collection[int | None]] = tuple
    """The snapshots that marts have consumed: later ones are kept for a while. They include None if a mart has never
    been computed."""
    keep_commits: int | None = None
    """See `expirable`; if given, nothing is expired before so many snapshots can be expired at once."""
    partition_by: Sequence[str] | None = None
    """The partitions that the table should have; None to keep those that it has."""
    before_expiry: Callable[[Table], object] = lambda table: None
    """Called with the table, as it was loaded, before some of its snapshots expire. If it raises, none does."""

    def run(self, parts: Collection[Part] = EVERY_PART) -> Maintained:
        """Runs the steps of these parts. Never raises for a fault of the table: see `error`."""
        return timed(self.identifier, lambda done: self._run(done, parts))

    def _run(self, done: Maintained, parts: Collection[Part]) -> None:
        table = load_table(self.catalog, self.identifier)
        if table is None:
            return
        done.files_before, done.snapshots_before = _data_files(table), len(table.metadata.snapshots)
        if Part.FILES in parts:
            done.branches_dropped = self.drop_abandoned(table)
            if current_snapshot(table) is not None:
                self._maintain_files(done)
        if Part.SNAPSHOTS in parts:
            self._retrying("expire its snapshots", self.expire)
        if Part.ORPHANS in parts and (age := self.settings.remove_orphan_files_after) is not None:
            done.orphans_removed = self._retrying("remove orphan files", partial(self.remove_orphans, age))
        table = load_table(self.catalog, self.identifier)
        if table is not None:
            done.files_after, done.snapshots_after = _data_files(table), len(table.metadata.snapshots)

    def _maintain_files(self, done: Maintained) -> None:
        self._wait_for_attempts()
        try:
            self._retrying("change its partitions", self.repartition)
            done.files_rewritten = self._retrying("rewrite its files", self.compact)
            self._retrying("rewrite its manifests", self.compact_manifests)
        except ApplyConflict as error:
            done.error = error  # but a commit of the failed step must not hide the position
        done.restamped = self._retrying("repeat its position", self.restamp)

    def drop_abandoned(self, table: Table) -> int:
        """Drops the branches of attempts that began longer ago than ABANDONED_AFTER; returns how many."""
        found = abandoned_branches(table)
        for name in found:
            drop_branch(self.spark, self._address, name)
        return len(found)

    def repartition(self) -> None:
        """Gives the table the partitions of `partition_by`; `compact` moves its files into them."""
        table = load_table(self.catalog, self.identifier)
        if table is None or self.partition_by is None:
            return
        columns = {quoted(name) for name in table.schema().column_names}
        for change in partition_changes(table, self.partition_by):
            if any(column in change for column in columns):  # no batch may have added the column yet
                self.spark.sql(sql("ALTER TABLE {table} {change}", table=self._address, change=change))

    def compact(self, worn_share: float = WORN_SHARE) -> int:
        """Rewrites small data files and files with a larger share of deleted rows; returns how many.

        A slice is a partition, or a part of a large one. A batch that changes files of a slice meanwhile costs the work
        of the commit that the slice is in: the next maintenance takes its files. Large tables are committed in several
        parts. If a whole rewrite was lost, it is repeated in as many parts as there may be.
        """
        table = self.take_back()
        rewritten = self._rewrite(table, worn_share, _parts(table))
        for _ in range(ATTEMPTS - 1):
            before, table = table, load_table(self.catalog, self.identifier)
            if rewritten or _head_id(before) == _head_id(table):
                break
            rewritten = self._rewrite(table, worn_share, MOST_PARTS)
        return rewritten

    def compact_manifests(self) -> None:
        """Rewrites what lists the data files and their deleted rows: manifests, and files of deletes of format v2."""
        table = self.take_back()  # of a try before, whose answer was lost
        snapshot = current_snapshot(table)
        assert table is not None
        assert snapshot is not None
        if table.format_version == 2:
            self._call("rewrite_position_delete_files")
        if len(snapshot.manifests(table.io)) >= MIN_SMALL_FILES:
            self.rewrite_manifests()

    def _rewrite(self, table: Table | None, worn_share: float, parts: int) -> int:
        """Rewrites data files in so many commits; returns the number of those that are replaced. 0 also if other
        commits came first in all parts: Iceberg then reports no failure."""
        head = current_snapshot(table)
        small = 0 if table is None or head is None else read_files(table, head).small_size
        options = {
            "partial-progress.enabled": "true",
            "partial-progress.max-commits": str(parts),
            "max-file-group-size-bytes": str(BYTES_OF_PART),
            "target-file-size-bytes": str(FILE_SIZE),
            "min-file-size-bytes": str(small),
            "min-input-files": str(MIN_SMALL_FILES),
            # A large file costs no reader anything: it is rewritten for its deleted rows alone.
            "max-file-size-bytes": str(1 << 40),
            "delete-ratio-threshold": str(worn_share),
            # For format v2 only: a file of v3 has one deletion vector.
            "delete-file-threshold": str(MIN_SMALL_FILES if worn_share >= WORN_SHARE else 1),
            "remove-dangling-deletes": "true",
        }
        if table is not None and has_former_partitions(table):
            # The size also decides whether a rest becomes a file of its own.
            options |= {"rewrite-all": "true", "min-file-size-bytes": str(LARGE)}
        listed = joined(", ", (literal(text) for option in options.items() for text in option))
        figures = self._call("rewrite_data_files", sql("options => map({options})", options=listed))
        if figures.get("failed_data_files_count"):
            raise ApplyConflict(f"{self.identifier}: a batch committed first")
        return int(figures["rewritten_data_files_count"])

    def rewrite_manifests(self) -> None:
        """Writes the manifests of main again, without the files that are not of it any more."""
        self._call("rewrite_manifests")

    def take_back(self) -> Table | None:
        """Moves main back from rewrites whose files are gone, and returns the table as it is then. When a database's
        answer to a commit is lost, Iceberg sends the commit again, is refused because of the first one, and deletes the
        files of both."""
        table = load_table(self.catalog, self.identifier)
        head = current_snapshot(table)
        whole = _newest_whole(table) if table is not None else None
        if head is None or whole is None or whole.snapshot_id == head.snapshot_id:
            return table
        table = load_table(self.catalog, self.identifier)
        now = current_snapshot(table)
        if now is None or now.snapshot_id != head.snapshot_id:
            return table  # another process has expired the former head since
        logger.warning(
            "%s: the files of snapshot %s, a rewrite, are gone; back to snapshot %s, which has the same rows",
            self.identifier,
            head.snapshot_id,
            whole.snapshot_id,
        )
        self._call("rollback_to_snapshot", sql("snapshot_id => {id}", id=whole.snapshot_id))
        return load_table(self.catalog, self.identifier)

    def restamp(self, *, always: bool = False) -> bool:
        """Re-stamps the table unless main's head is stamped (`always`: even then); returns whether it did."""
        return restamp(self.spark, self.catalog, self.identifier, self.stamps, always=always)

    def expire(self) -> int:
        """Expires the snapshots that nothing needs, and deletes the files that only they used; returns how many."""
        table = load_table(self.catalog, self.identifier)
        if table is None:
            return 0
        stamped = stamped_snapshot(table, self.stamps)
        ids = expirable(
            table,
            self.settings,
            datetime.now(UTC),
            stamped=stamped.snapshot_id if stamped is not None else None,
            consumed=self.consumed(),
            keep_commits=self.keep_commits,
        )
        if self.keep_commits is not None and len(ids) < self.keep_commits:
            return 0  # the procedure takes a second, even for a few
        if ids:
            # A commit that the loaded table does not have does not expire, either.
            self.before_expiry(table)
        return self.expire_these(ids)

    def expire_these(self, ids: Sequence[int]) -> int:
        """Expires these snapshots, and deletes the files that only they used; returns how many."""
        for first in range(0, len(ids), MOST_IDS):
            # Without an age, Iceberg would also expire snapshots older than its default of five days.
            listed = joined(", ", (Sql(number) for number in ids[first : first + MOST_IDS]))
            arguments = sql(
                "older_than => TIMESTAMP '1970-01-02 00:00:00Z', snapshot_ids => array({ids})", ids=listed
            )
            self._call("expire_snapshots", arguments)
        return len(ids)

    def remove_orphans(self, age: timedelta) -> int:
        """Deletes the orphan files of the table that are older than `age`; returns how many. Raises LakeError if it is
        not certain which they are."""
        table, now = load_table(self.catalog, self.identifier), datetime.now(UTC)
        found = orphan_files(table, age, now) if table is not None else []
        removed = self._removed(found, now - age) if found else 0
        noted = set_property(ORPHANS_REMOVED_AT, now.isoformat())
        if table is not None:
            self.spark.sql(sql("ALTER TABLE {table} {change}", table=self._address, change=noted))
        return removed

    def _removed(self, found: Sequence[OrphanFile], before: datetime) -> int:
        """Has Iceberg delete those of the files that the table as it is now does not need: two searches have to
        agree."""
        rows = [(one.address, one.written_at) for one in found]
        listed = self.spark.createDataFrame(rows, "file_path string, last_modified timestamp")
        view = f"orphans_{token_hex(8)}"
        listed.createOrReplaceTempView(view)
        try:
            arguments = sql(
                "older_than => TIMESTAMP {before}, file_list_view => {view}",
                before=literal(f"{before:%Y-%m-%d %H:%M:%SZ}"),
                view=literal(view),
            )
            return len(self.spark.sql(self._procedure("remove_orphan_files", arguments)).collect())
        finally:
            self.spark.catalog.dropTempView(view)

    def _wait_for_attempts(self) -> None:
        """Waits for batches that are being applied: a rewrite of files would make them fail and start over."""
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
            retry=retry_if_exception(_is_conflict),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            reraise=True,
        )
        try:
            return policy(step)
        except Exception as error:
            if not _is_conflict(error):
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


def abandoned_branches(table: Table) -> list[str]:
    """The branches of attempts that began longer ago than ABANDONED_AFTER."""
    oldest = datetime.now(UTC) - ABANDONED_AFTER
    return [name for name in table.metadata.refs if (begun := begun_at(name)) and begun < oldest]


def _is_conflict(error: BaseException) -> bool:
    if isinstance(error, ApplyConflict):
        return True
    if not isinstance(error, (PySparkException, Py4JError)):
        return False
    # A batch touched files or manifests that a rewrite replaces; a branch was created on a snapshot to be expired.
    signs = ("ValidationException", "Still referenced by refs")
    return lost_race(error) or any(sign in str(error) for sign in signs)


def _parts(table: Table | None) -> int:
    """In how many commits a table's files are rewritten: a commit takes a third of a second, and BYTES_OF_PART of
    rows take many seconds to rewrite."""
    size = int(summary(current_snapshot(table)).get("total-files-size", "0"))
    return min(MOST_PARTS, 1 + size // BYTES_OF_PART)


def _head_id(table: Table | None) -> int | None:
    return table.metadata.current_snapshot_id if table is not None else None


def _newest_whole(table: Table) -> Snapshot | None:
    """The newest snapshot of main whose list of manifests exists; None if only one that changed rows is without."""
    for snapshot in main_chain(table):
        if table.io.new_input(snapshot.manifest_list).exists():
            return snapshot
        if snapshot.summary is None or snapshot.summary.operation is not Operation.REPLACE:
            return None
    return None


def _data_files(table: Table) -> int:
    return int(summary(current_snapshot(table)).get("total-data-files", "0"))
