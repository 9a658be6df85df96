"""Snowflake follows the lake: a table is created there after its first commit, and refreshed after later ones.

What Snowflake has is asked of Snowflake, so that there is no state of ours that could differ from it. Here: what has to
be done, and doing it. Not here: the statements (`statements.py`), what a reader lacks (`outputs/behind.py`).
"""

import json
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from lake_assets.config.secrets import hidden_in
from lake_assets.iceberg.table_io import current_snapshot, load_table
from lake_assets.lake import Lake
from lake_assets.outputs.behind import beside, lacking_since, lacks_commit
from lake_assets.outputs.output import Followed, Shown
from lake_assets.outputs.snowflake import statements
from lake_assets.outputs.snowflake.snowflake_connection import Connect, SnowflakeConnection, Unreached
from lake_assets.rounds.backoff import Failures
from lake_assets.spark.causes import root_cause
from lake_assets.words import many

THREADS = 8
LISTED_EVERY = 60.0
"""Seconds after which Snowflake's tables are listed again: somebody may have dropped one."""
_ACCOUNT = ""
"""The name of a failure that is of no single table."""

logger = logging.getLogger(__name__)


class SnowflakeOutput:
    """The output of one lake. Threads may share it: only one looks at a time."""

    name = "snowflake"
    description = "Shows new tables and new commits in Snowflake."
    shows_tables = True

    def __init__(
        self,
        lake: Lake,
        connect: Connect | None = None,
        clock: Callable[[], float] = time.monotonic,
        longest: float = math.inf,
    ) -> None:
        """`connect`: opens a DB-API connection; by default, Snowflake's connector. `longest`: seconds after which a
        look leaves the rest of its tables to the next one."""
        assert lake.config.warehouses.snowflake is not None
        self._lake, self._config, self._clock = lake, lake.config.warehouses.snowflake, clock
        self._longest = longest
        self._refreshes = self._config.refresh == "each_commit"
        self.every = 5.0 if self._refreshes else self._config.refresh_interval.total_seconds()
        self._connection = SnowflakeConnection(self._config, lake.runtime.aws.secrets, connect)
        self._failures = Failures(clock)
        self._busy = threading.Lock()
        self._reasons: dict[str, str] = {}
        """By failed table, why."""
        self._listed = -math.inf
        """When Snowflake's tables were listed."""
        self._there: set[str] = set()
        """The tables that Snowflake has, by that list."""
        self._read: dict[str, str] = {}
        """By table, the metadata file that Snowflake has read last, as far as it was asked."""
        self._asked: dict[str, float] = {}
        """By table, when Snowflake was asked."""
        self._since: dict[str, datetime] = {}
        """By table that lacks a commit, since when: its history may lose the commit while it is waited for."""

    def tables(self) -> Sequence[str]:
        """Silver and the marts."""
        return self._lake.tables

    def follow(self) -> Followed:
        """Creates what is missing, and refreshes what is behind, if the lake does that. Never raises."""
        return self._step(acts=True)

    def look(self) -> Followed:
        """What Snowflake lacks. Never raises."""
        return self._step(acts=False)

    def _step(self, *, acts: bool) -> Followed:
        if not self._busy.acquire(blocking=False):
            return Followed(problems=["another look is under way: Snowflake takes long to answer"])
        begun, done = self._clock(), dict.fromkeys(("created", "refreshed"), 0)
        found, states = dict[str, Table](), dict[str, Shown]()
        subject, left = "the lake's catalog", 0
        try:
            found, subject = self._loaded(), "Snowflake"
            if not self._failures.seconds_left(_ACCOUNT):
                left = self._serve(found, begun + self._longest, done, acts=acts)
        except Exception as error:  # noqa: BLE001  (no failure of an output may be one of the pipeline)
            self._failed(_ACCOUNT, subject, error)
        try:
            states = self._states(found)
        except Exception as error:  # noqa: BLE001  (a metadata file cannot be read)
            self._failed(_ACCOUNT, "the lake's tables", error)
        finally:
            self._busy.release()
        said = [f"{many(number, 'table')} {verb} in Snowflake" for verb, number in done.items() if number]
        problems = list(self._reasons.values())
        if left:
            problems.append(f"{many(left, 'table')} left to the next look: Snowflake takes long to answer")
        return Followed(said, problems, states)

    def _loaded(self) -> dict[str, Table]:
        """By name, the tables that have a commit."""
        catalog = self._lake.runtime.catalog
        with ThreadPoolExecutor(THREADS, "tables") as pool:
            loaded = pool.map(lambda name: (name, load_table(catalog, name)), self.tables())
            return {
                name: table
                for name, table in loaded
                if table is not None and current_snapshot(table) is not None
            }

    def _serve(self, found: Mapping[str, Table], until: float, done: dict[str, int], *, acts: bool) -> int:
        """Creates, asks and refreshes; returns the number of tables that it left to the next look."""
        waiting = [name for name, table in found.items() if self._is_waiting(name, table)]
        if not waiting and self._clock() - self._listed < LISTED_EVERY:
            return 0
        self._list()
        waiting = [name for name, table in found.items() if self._is_waiting(name, table)]
        # In any order: if looks are too short for all, none is always the last.
        random.shuffle(waiting)
        for place, name in enumerate(waiting):
            if self._clock() > until:
                return len(waiting) - place
            try:
                self._serve_table(name, found[name], done, acts=acts)
            except Unreached:
                raise  # each further login would be refused, too
            except Exception as error:  # noqa: BLE001  (the other tables are refreshed)
                self._failed(name, name, error)
            else:
                self._succeeded(name)
        return 0

    def _is_waiting(self, name: str, table: Table) -> bool:
        """Whether Snowflake has to be asked about the table, or told something."""
        if self._failures.seconds_left(name):
            return False
        if name not in self._read:
            return True
        waited = self._clock() - self._asked[name]
        return self._lacks(name, table) and (self._refreshes or waited >= self.every)

    def _list(self) -> None:
        """Lists Snowflake's tables. Forgets those that are not there any more."""
        rows = self._connection.records(statements.existing(self._config))
        listed = {(str(row["schema_name"]), str(row["name"])) for row in rows}
        self._succeeded(_ACCOUNT)
        self._listed = self._clock()
        self._there = {name for name in self.tables() if statements.names(self._config, name) in listed}
        for name in self._read.keys() - self._there:
            del self._read[name]

    def _serve_table(self, name: str, table: Table, done: dict[str, int], *, acts: bool) -> None:
        if name not in self._there:
            if not acts or self._config.linked_database:
                return
            self._execute(*statements.table(self._lake.config, name))
            self._there.add(name)
            done["created"] += 1
        if name not in self._read or not self._refreshes:
            self._ask(name)
        if not (acts and self._refreshes and self._lacks(name, table)):
            return
        self._execute(statements.refresh(self._config, name))
        self._ask(name)
        if self._lacks(name, table):
            raise RuntimeError("a refresh has changed nothing: does Snowflake read another catalog?")
        done["refreshed"] += 1

    def _ask(self, name: str) -> None:
        ((text,),) = self._connection.rows(statements.information(self._config, name))
        said = json.loads(text)
        if str(said.get("status", "")).lower() != "success":
            raise RuntimeError(f"Snowflake reports {said.get('status')}")
        self._read[name], self._asked[name] = str(said["metadataLocation"]), self._clock()

    def _lacks(self, name: str, table: Table) -> bool:
        return lacks_commit(table, self._read[name], self._file(name, table))

    def _file(self, name: str, table: Table) -> TableMetadata | None:
        """The metadata file that Snowflake has read; None if it is gone. PyIceberg's reader keeps what it has parsed
        (`iceberg/file_io/metadata_cache.py`)."""
        try:
            return FromInputFile.table_metadata(table.io.new_input(beside(table, self._read[name])))
        except FileNotFoundError:
            return None

    def _execute(self, *given: str) -> None:
        for statement in given:
            self._connection.rows(statement)

    def _failed(self, name: str, subject: str, error: Exception) -> None:
        logger.debug("Snowflake:", exc_info=error)
        # The connection may be the reason, or somebody who has dropped the table.
        self._connection.close()
        self._listed = -math.inf
        self._failures.add(name)
        self._reasons[name] = f"{subject}: {hidden_in(self._lake.config, root_cause(error))}"

    def _succeeded(self, name: str) -> None:
        self._failures.clear(name)
        self._reasons.pop(name, None)

    def _states(self, found: Mapping[str, Table]) -> dict[str, Shown]:
        """Of the tables of which something is known."""
        return dict(self._each_state(found, datetime.now(UTC)))

    def _each_state(self, found: Mapping[str, Table], now: datetime) -> Iterator[tuple[str, Shown]]:
        for name, table in found.items():
            is_known = name in self._read
            if is_known and not self._lacks(name, table):
                self._since.pop(name, None)
                yield name, Shown(None, is_late=False)
                continue
            is_missing = name not in self._there and self._listed > -math.inf
            if not (is_known or is_missing or name in self._reasons):
                continue  # nothing is known of it yet
            reason = self._reasons.get(name, self._reasons.get(_ACCOUNT))
            file = self._file(name, table) if is_known else None
            since = self._since.setdefault(name, lacking_since(table, file))
            is_late = now - since > self._config.max_lag
            yield (
                name,
                Shown(since, is_late, reason or ("Snowflake does not have it yet" if is_missing else None)),
            )
