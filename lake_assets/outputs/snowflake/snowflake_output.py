"""Snowflake follows the lake: a table is created there after its first commit, and refreshed after later ones.

What Snowflake has is asked of Snowflake, so that there is no state of ours that could differ from it. Here: what has to
be done, and doing it. Not here: the statements (`statements.py`), what a reader lacks (`outputs/behind.py`).
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from pyiceberg.table import Table

from lake_assets.config.secrets import hidden_in
from lake_assets.iceberg.table_io import current_snapshot, load_table
from lake_assets.lake import Lake
from lake_assets.outputs.behind import behind_since
from lake_assets.outputs.output import Followed, Shown
from lake_assets.outputs.snowflake import statements
from lake_assets.outputs.snowflake.snowflake_connection import Connect, SnowflakeConnection, Unreached
from lake_assets.rounds.backoff import Backoff, Failures
from lake_assets.spark.causes import root_cause
from lake_assets.words import many

LONGEST = 30.0
"""Seconds after which a look leaves the rest of its tables to the next one: Dagster ends a tick after 60."""
THREADS = 8
_ACCOUNT = ""
"""The name of a failure that is of no single table."""

logger = logging.getLogger(__name__)


class SnowflakeOutput:
    """The output of one lake. Not shared between threads."""

    name = "snowflake"
    description = "Shows new tables and new commits in Snowflake."
    shows_tables = True

    def __init__(
        self, lake: Lake, connect: Connect | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`connect`: opens a DB-API connection; by default, Snowflake's connector."""
        assert lake.config.warehouses.snowflake is not None
        self._lake, self._config, self._clock = lake, lake.config.warehouses.snowflake, clock
        self._connection = SnowflakeConnection(self._config, lake.runtime.aws.secrets, connect)
        self._failures = Failures(Backoff.of(lake.config.automation), clock)
        self._reasons: dict[str, str] = {}
        """By failed table, why."""
        self._read: dict[str, str] = {}
        """By table that Snowflake has, the metadata file that it has read last, as far as it was asked."""
        self._asked: dict[str, float] = {}
        """By table, when Snowflake was asked."""

    def tables(self) -> Sequence[str]:
        """Silver and the marts."""
        targets = [target.identifier for target in self._lake.targets]
        return [*targets, *(mart.identifier for mart in self._lake.marts)]

    def follow(self) -> Followed:
        """Creates what is missing, and refreshes what is behind, if the lake does that. Never raises."""
        return self._step(acts=True)

    def look(self) -> Followed:
        """What Snowflake lacks. Never raises."""
        return self._step(acts=False)

    def _step(self, *, acts: bool) -> Followed:
        done = dict.fromkeys(("created", "refreshed"), 0)
        found, subject = dict[str, Table](), "the lake's catalog"
        try:
            found, subject = self._loaded(), "Snowflake"
            if (behind := self._behind(found)) and not self._failures.seconds_left(_ACCOUNT):
                self._serve(found, behind, done, acts=acts)
        except Exception as error:  # noqa: BLE001  (no failure of an output may be one of the pipeline)
            self._failed(_ACCOUNT, subject, error)
        said = [f"{many(number, 'table')} {verb} in Snowflake" for verb, number in done.items() if number]
        return Followed(said, list(self._reasons.values()), self._states(found))

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

    def _behind(self, found: Mapping[str, Table]) -> list[str]:
        """The tables that Snowflake lacks, or of which it lacks a commit, as far as is known; the longest first."""
        since = {name: behind_since(table, self._read.get(name)) for name, table in found.items()}
        return sorted(
            (name for name, at in since.items() if at is not None), key=lambda name: str(since[name])
        )

    def _serve(
        self, found: Mapping[str, Table], behind: Iterable[str], done: dict[str, int], *, acts: bool
    ) -> None:
        begun, missing = self._clock(), self._missing(behind)
        self._succeeded(_ACCOUNT)
        for name in behind:
            if self._clock() - begun > LONGEST:
                break
            if self._failures.seconds_left(name):
                continue
            try:
                if name in missing:
                    if not acts or self._config.linked_database:
                        continue
                    self._execute(*statements.table(self._lake.config, name))
                    done["created"] += 1
                done["refreshed"] += self._followed(name, found[name], acts=acts)
            except Unreached:
                raise  # each further login would be refused, too
            except Exception as error:  # noqa: BLE001  (the other tables are refreshed)
                self._failed(name, name, error)
            else:
                self._succeeded(name)

    def _missing(self, behind: Iterable[str]) -> set[str]:
        """The tables that Snowflake does not have. It is asked only if one may be new."""
        unknown = {name for name in behind if name not in self._read}
        if not unknown:
            return set()
        rows = self._connection.records(statements.existing(self._config))
        there = {(str(row["schema_name"]), str(row["name"])) for row in rows}
        return {name for name in unknown if statements.names(self._config, name) not in there}

    def _followed(self, name: str, table: Table, *, acts: bool) -> int:
        """Asks what Snowflake has of the table, and refreshes it if the lake does that; returns how many refreshes."""
        refreshes = self._config.refresh == "each_commit"
        waited = self._clock() - self._asked.get(name, float("-inf"))
        if name not in self._read or (
            not refreshes and waited >= self._config.refresh_interval.total_seconds()
        ):
            self._ask(name)
        if not (acts and refreshes) or behind_since(table, self._read[name]) is None:
            return 0
        self._execute(statements.refresh(self._config, name))
        self._ask(name)
        return 1

    def _ask(self, name: str) -> None:
        ((text,),) = self._connection.rows(statements.information(self._config, name))
        said = json.loads(text)
        self._asked[name] = self._clock()
        if str(said.get("status", "")).lower() != "success":
            raise RuntimeError(f"Snowflake reports {said.get('status')}")
        self._read[name] = str(said["metadataLocation"])

    def _execute(self, *given: str) -> None:
        for statement in given:
            self._connection.rows(statement)

    def _failed(self, name: str, subject: str, error: Exception) -> None:
        logger.debug("Snowflake:", exc_info=error)
        self._connection.close()  # it may be the reason
        self._failures.add(name)
        self._reasons[name] = f"{subject}: {hidden_in(self._lake.config, root_cause(error))}"

    def _succeeded(self, name: str) -> None:
        self._failures.clear(name)
        self._reasons.pop(name, None)

    def _states(self, found: Mapping[str, Table]) -> dict[str, Shown]:
        now, states = datetime.now(UTC), dict[str, Shown]()
        for name, table in found.items():
            since = behind_since(table, self._read.get(name))
            is_late = since is not None and now - since > self._config.max_lag
            reason = self._reasons.get(name, self._reasons.get(_ACCOUNT))
            if reason is None and name not in self._read:
                reason = "Snowflake does not have it yet"
            states[name] = Shown(since, is_late, reason if since is not None else None)
        return states
