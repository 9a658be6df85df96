"""Making one commit out of several statements: a branch per attempt, then one fast-forward.

Here: the life cycle of the branch, and recognising a lost race. Not here: what is written to it.

The branch starts at the snapshot that the attempt was planned from, so that Iceberg refuses the fast-forward if
anything was published meanwhile: two runs cannot both publish the same batch, even if locks or queues fail. A branch
that two attempts share, or that starts at main's head at the time of its creation, would double rows.
"""

import contextlib
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

import psutil
from py4j.protocol import Py4JError
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as F
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from lake_assets.errors import ApplyConflict
from lake_assets.iceberg.table_io import load_table
from lake_assets.spark.causes import root_cause
from lake_assets.spark.sql import Sql, joined, literal, quoted, sql, sql_of_frames, table_address

BRANCH_PREFIX = "apply_"
KEPT_FOR = timedelta(hours=1)
"""How long a process uses a branch for one batch after another: maintenance drops branches that began a day ago."""
CLOCK_STEPS = 2
"""Seconds by which the beginning of a process may seem to move when the machine's clock is set."""
EVERY_ROW = Sql("true")
_NAME = re.compile(rf"{BRANCH_PREFIX}(\d+)_([0-9a-f]{{24}})[0-9a-f]{{8}}")
LOST_RACE = (
    "CommitFailedException",  # the table's metadata has changed; another attempt's dropped branch is enough
    "unknown snapshot",  # the snapshot that the attempt was planned from has expired
    "Cannot use branch (does not exist)",  # the attempt took so long that maintenance dropped its branch
)
"""Parts of Iceberg's messages, embedded or over Connect, when another process committed first."""

logger = logging.getLogger(__name__)


def lost_race(error: BaseException) -> bool:
    """Whether the statement failed because another process committed first: the caller should plan again."""
    return any(sign in str(error) for sign in LOST_RACE)


@contextlib.contextmanager
def lost_races(identifier: str, *more_signs: str) -> Iterator[None]:
    """Raises ApplyConflict for an error of Spark that says that other commits came first: Iceberg gives up after some
    of them, also if they were to other branches. `more_signs`: further parts of such an error."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if lost_race(error) or any(sign in str(error) for sign in more_signs):
            raise ApplyConflict(f"{identifier}: another run published first") from error
        raise


def begun_at(branch: str) -> datetime | None:
    """When the attempt of this branch began, by the clock of its process; None for any other branch."""
    match = _NAME.fullmatch(branch)
    return datetime.fromtimestamp(int(match[1]), UTC) if match is not None else None


def is_of_dead_process(branch: str) -> bool:
    """Whether the branch is of an attempt whose process is dead; False also if it was one of another machine, or of
    another container."""
    match = _NAME.fullmatch(branch)
    if match is None or not match[2].startswith(_machine()):
        return False
    pid, began = (int(match[2][at : at + 8], 16) for at in (8, 16))
    try:
        return abs(_began(pid) - began) > CLOCK_STEPS
    except psutil.NoSuchProcess:
        return True


def _owner() -> str:
    """This process in 24 digits: its machine, its id, and when it began, because ids are given again."""
    return f"{_machine()}{os.getpid():08x}{_began(os.getpid()):08x}"


def _began(pid: int) -> int:
    return int(psutil.Process(pid).create_time())


@cache
def _machine() -> str:
    """Within which an id of a process means one process, in eight digits."""
    # Where there is no such file, as on macOS, the name has to do.
    boot, space = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    known = [socket.gethostname(), boot.read_text() if boot.exists() else ""]
    known += [str(space.readlink())] if space.is_symlink() else []
    return sha256("\n".join(known).encode()).hexdigest()[:8]


class Attempt:
    """One attempt to publish to one table. Write to `address`, then `publish()`."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        identifier: str,
        branch: str | None = None,
        planned: int | None = None,
    ) -> None:
        """`branch`: an existing branch at the snapshot that the attempt was `planned` from."""
        self._spark = spark
        self._catalog = catalog
        self._identifier = identifier
        # Not RETAIN, which counts from the commit of the snapshot that the branch starts at: on a table that was quiet
        # for longer, any expiry would drop the branch of a running attempt. The next attempt drops the branches of dead
        # ones, and `table_maintenance.py` those of other machines.
        self.branch = branch or f"{BRANCH_PREFIX}{int(time.time())}_{_owner()}{token_hex(4)}"
        self._planned = planned
        self._is_outrun = False
        """Whether main was not at `planned` when the attempt last looked."""
        self.table = table_address(catalog, identifier)
        self.address = joined(".", (self.table, quoted("branch_" + self.branch)))

    def start(self, snapshot_id: int | None) -> None:
        """Creates the branch at the snapshot that the attempt was planned from; None for a table without one.

        Raises ApplyConflict when a table that was planned as empty no longer is: a branch without a start begins at
        main's head, and Iceberg would grant the fast-forward.
        """
        self._planned = snapshot_id
        start = Sql() if snapshot_id is None else sql("AS OF VERSION {snapshot}", snapshot=snapshot_id)
        create = "ALTER TABLE {table} CREATE BRANCH {branch} {start}"
        self._race(sql(create, table=self.table, branch=self.branch, start=start))
        main = sql("SELECT name FROM {table}.refs WHERE name = 'main'", table=self.table)
        if snapshot_id is None and not self._spark.sql(main).isEmpty():
            self.drop()
            raise ApplyConflict(f"{self._identifier}: another run published first")

    def write_nothing(self, properties: Mapping[str, str]) -> None:
        """Writes a commit without rows, with the properties in its summary."""
        nothing = self._spark.table(self.table).filter(F.lit(False))
        self.writer(nothing, properties).append()

    def writer(
        self, frame: DataFrame, properties: Mapping[str, str], *, one_task: bool = False
    ) -> DataFrameWriterV2:
        """A writer of the frame to the branch; its commit will have the properties in its summary. `one_task`: for few
        rows; one task writes them without a shuffle, one file for each partition."""
        if one_task:
            frame = frame.coalesce(1)
        writer = frame.writeTo(self.address).option("check-nullability", False)
        if one_task:
            writer = writer.option("distribution-mode", "none")
        # By default, a task keeps a file open for each partition that it meets: 1,000 files needed more than 1 GB. With
        # rows sorted by partition, it keeps one file open, and is faster from some hundred partitions on.
        writer = writer.option("fanout-enabled", False)
        for name, value in properties.items():
            writer = writer.option(f"snapshot-property.{name}", value)
        return writer

    def delete(self, condition: Sql) -> None:
        """Deletes on the branch the rows that meet the condition."""
        delete = sql("DELETE FROM {branch} WHERE {condition}", branch=self.address, condition=condition)
        self._spark.sql(delete)

    def delete_matching(self, keys: DataFrame, matches: Sql, condition: Sql = EVERY_ROW) -> None:
        """Deletes on the branch the rows `t` that meet the condition and match one of the keys `k`."""
        exists = "{condition} AND EXISTS (SELECT 1 FROM {keys} AS k WHERE {matches})"
        self.delete_by(keys, exists, condition=condition, matches=matches)

    def delete_by(self, keys: DataFrame, template: str, **pieces: Sql) -> None:
        """Deletes on the branch the rows `t` that meet a condition: a template of these pieces and `{keys}`."""
        # Over Spark Connect, a temporary view would take two further requests: to create it and to drop it.
        delete = "DELETE FROM {branch} AS t WHERE " + template
        statement = sql_of_frames(delete, ["keys"], branch=self.address, **pieces)
        keys.sparkSession.sql(statement, keys=keys)

    def head(self, catalog: Catalog) -> tuple[Table, Snapshot]:
        """The table as it is now, and the branch's head. Raises ApplyConflict if the branch was dropped."""
        table = load_table(catalog, self._identifier)
        ref = table.metadata.refs.get(self.branch) if table is not None else None
        head = table.snapshot_by_id(ref.snapshot_id) if table is not None and ref is not None else None
        if table is None or head is None:
            raise ApplyConflict(f"{self._identifier}: the branch of the attempt was dropped")
        self._is_outrun = table.metadata.current_snapshot_id != self._planned
        return table, head

    def head_upon(self, catalog: Catalog, before: int | None) -> int:
        """The id of the branch's head after one statement; `before`: its head until then. Raises ApplyConflict if the
        branch was dropped, also during the statement: Iceberg has then created it again, at main, without what was
        deleted on it."""
        _, head = self.head(catalog)
        if before not in (head.snapshot_id, head.parent_snapshot_id):
            raise ApplyConflict(
                f"{self._identifier}: the branch of the attempt was dropped while it was written to"
            )
        return head.snapshot_id

    def publish_nothing(self, catalog: Catalog, properties: Mapping[str, str], before: int | None) -> None:
        """Publishes a commit without rows, with the properties in its summary; `before` and errors as of `head_upon`
        and `publish`."""
        self.write_nothing(properties)
        self.head_upon(catalog, before)
        self.publish()

    def publish(self) -> None:
        """Moves main to the branch's head in one metadata commit. Raises ApplyConflict when main has moved since the
        attempt was planned."""
        if self._is_outrun:  # Iceberg would grant it if main has gone back
            raise ApplyConflict(f"{self._identifier}: another run published first")
        self._race(
            sql(
                "CALL {catalog}.system.fast_forward({table}, 'main', {branch})",
                catalog=self._catalog,
                table=literal(self._identifier),
                branch=literal(self.branch),
            )
        )

    def drop(self) -> None:
        drop_branch(self._spark, self.table, self.branch)

    def _race(self, statement: Sql) -> DataFrame:
        """Runs a statement. Raises ApplyConflict when another process has made it impossible."""
        # The second: somebody has dropped the branch.
        with lost_races(self._identifier, "ancestor", "Ref does not exist"):
            return self._spark.sql(statement)


def drop_branch(spark: SparkSession, table: Sql, branch: str) -> None:
    """Drops a branch, unless it is gone; tries again when another commit gets in the way."""
    policy = Retrying(
        retry=retry_if_exception(lost_race),
        stop=stop_after_attempt(4),
        wait=wait_random_exponential(multiplier=0.05, max=1),
        reraise=True,
    )
    drop = sql("ALTER TABLE {table} DROP BRANCH IF EXISTS {branch}", table=table, branch=branch)
    policy(lambda: spark.sql(drop).collect())


def drop_quietly(current: Attempt) -> None:
    """Drops the attempt's branch. If that fails, logs it, and a later batch or `lake-assets maintain` drops it. Does
    not raise, because an error would hide from the caller whether the rows are published."""
    try:
        current.drop()
    except (PySparkException, Py4JError) as error:
        logger.warning(
            "%s: branch %s could not be dropped: %s", current.table, current.branch, root_cause(error)
        )
        logger.debug("so Spark says:", exc_info=True)


class KeptBranches:
    """Branches that a process uses for one batch after another, one for each table: creating and dropping a branch
    takes two of a batch's four commits.

    After the fast-forward a branch is at main's head. The next attempt can use it again if it starts there, too: no
    other process writes to the branch, so it holds nothing else. Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}

    def take(
        self, spark: SparkSession, catalog: str, table: Table | None, identifier: str, snapshot_id: int | None
    ) -> str | None:
        """Takes the table's branch for one attempt if it is at the snapshot, and drops it if it is not. None if the
        table has no such branch. No other attempt gets the branch until `keep`."""
        with self._lock:
            branch = self._names.pop(identifier, None)
        ref = table.metadata.refs.get(branch) if branch is not None and table is not None else None
        if branch is None or ref is None:
            return None
        begun = begun_at(branch)
        young = begun is not None and datetime.now(UTC) - begun < KEPT_FOR
        if young and snapshot_id is not None and ref.snapshot_id == snapshot_id:
            return branch
        drop_quietly(Attempt(spark, catalog, identifier, branch))
        return None

    def keep(self, identifier: str, branch: str) -> None:
        """Keeps a published branch for the next attempt."""
        with self._lock:
            self._names[identifier] = branch

    def drop(self, spark: SparkSession, catalog: str, identifiers: Iterable[str] | None = None) -> None:
        """Drops the branches of these tables, or all: before maintenance of the tables, and when the process ends."""
        with self._lock:
            names = list(self._names) if identifiers is None else list(identifiers)
            branches = {name: self._names.pop(name) for name in names if name in self._names}
        for identifier, branch in branches.items():
            drop_quietly(Attempt(spark, catalog, identifier, branch))


@contextlib.contextmanager
def attempt(
    spark: SparkSession,
    catalog: str,
    identifier: str,
    snapshot_id: int | None,
    *,
    kept: KeptBranches | None = None,
    table: Table | None = None,
) -> Iterator[Attempt]:
    """A started attempt. Its branch is dropped after the block, published or not; with `kept`, a published branch is
    kept for the next attempt. `table`: as it was loaded when the attempt was planned, or later; branches that it has of
    dead processes of this machine are dropped."""
    for left in filter(is_of_dead_process, table.metadata.refs if table is not None else ()):
        drop_quietly(Attempt(spark, catalog, identifier, left))
    branch = kept.take(spark, catalog, table, identifier, snapshot_id) if kept is not None else None
    current = Attempt(spark, catalog, identifier, branch, snapshot_id)
    if branch is None:
        current.start(snapshot_id)
    try:
        yield current
    except BaseException:
        drop_quietly(current)
        raise
    if kept is not None:
        kept.keep(identifier, current.branch)
    else:
        drop_quietly(current)
