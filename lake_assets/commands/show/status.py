"""`lake-assets status`: the position and state of each silver table.

Here: the figures. Not here: printing them.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from pyiceberg.table import Table

from lake_assets.bronze.quarantine.quarantine_log import Quarantined
from lake_assets.bronze.scan.strays import Strays
from lake_assets.bronze.scan.vanished import before, still_vanished
from lake_assets.config import LakeConfig, StreamConfig
from lake_assets.config.secrets import hidden_in
from lake_assets.gold.write.own_tables import own_tables
from lake_assets.iceberg.catalog import loading_threads
from lake_assets.iceberg.table_io import applied_at, load_table, summary
from lake_assets.iceberg.upkeep.restamp import stamped_snapshot
from lake_assets.iceberg.upkeep.table_health import Health, read_health
from lake_assets.lake import Lake
from lake_assets.outputs.lake_outputs import lake_outputs
from lake_assets.rounds.pending_work import quarantined_sentence
from lake_assets.silver.apply.failures import Failure, failure_of, failures
from lake_assets.silver.batch_log.batch_row import BatchRow
from lake_assets.silver.batch_log.record_batches import batches_since
from lake_assets.silver.plan.plan import State
from lake_assets.silver.plan.table_state import TableState, table_states
from lake_assets.silver.table.batch_latency import Spread
from lake_assets.silver.table.position import BATCH, SILVER
from lake_assets.silver.table.unknown_rows import unknown_rows_sentence
from lake_assets.spark.causes import root_cause

logger = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds for which a warehouse is asked."""
LATENCY_OF = timedelta(hours=1)
"""The batches whose latency is shown: `status` may be called every few seconds."""
MOST_KEYS = 20
"""The number of stray keys shown for a source; `lake_ops.findings` and the check `known_files` have more."""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One silver table."""

    table: str
    state: State
    """`reason` says why a table waits, fails or is stopped."""
    rows: int
    position: int
    pending_files: int
    quarantined: int
    """Quarantined rows and whole files."""
    lag_seconds: float | None
    """Now minus the newest applied source commit."""
    latency: Spread | None
    """Seconds from a file to the table, over the batches of LATENCY_OF."""
    last_batch: dict[str, str] | None
    """Kind, strategy, files, bytes and rows of the newest batch."""
    last_applied: str | None
    """When the newest batch was published, ISO 8601 UTC."""
    reason: str | None
    consistent_cut: str | None = None
    """The table shows the transactions up to this commit time, ISO 8601 UTC; None: all transactions in its files."""
    rows_waiting_for_cut: int = 0
    unknown_rows: int = 0
    """The number of rows that updates since the full load referred to although the table did not have them. Without a
    full load, deletes count, too."""
    vanished: str | None = None
    """Since when, ISO 8601 UTC, all of its files have vanished from the bucket."""
    source: str = ""
    strays: int = 0
    """Strays in the location of its source, as of the newest scans."""
    stray_keys: Mapping[str, str] = field(default_factory=dict)
    """The keys of the first strays, each with the reason."""
    failing_since: str | None = None
    """When its next batch first failed for this `reason`, ISO 8601 UTC."""

    quarantined_files: int = 0
    """The whole files among `quarantined`."""
    source_table: str = ""
    """`schema.table` of the source."""
    stream: str | None = None
    """A sentence about what the stream of its source has that has not landed; None without a stream."""
    stream_is_late: bool = False
    """Whether the user has to act for that stream."""
    full_scan: Mapping[str, float] = field(default_factory=dict)
    """What a full scan opens and reads, and `scan_ratio`: about how many times as long it takes as that of a fresh
    copy."""
    slow_to_read: str | None = None
    """Why full scans take long, although maintenance would help; None if maintenance keeps up."""

    @property
    def quarantine_note(self) -> str | None:
        """A sentence about its quarantined rows and files, with the command that lists them; None without any."""
        rows = self.quarantined - self.quarantined_files
        return quarantined_sentence(self.table, self.source_table, rows, self.quarantined_files)

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to know about it: it is up to date, or its source table has no files yet."""
        is_up_to_date = self.state is State.UP_TO_DATE and self.reason is None and not self.quarantined
        return is_up_to_date or self.state is State.NO_FILES

    @property
    def is_wrong(self) -> bool:
        """Whether the user has to act for the table."""
        return self.state in (State.FAILING, State.STOPPED)


def status(lake: Lake) -> list[TableStatus]:
    """Every silver table, from the lake's tables, without Spark and Dagster. Asks each stream, and lists no bucket."""
    now = datetime.now(UTC)
    held = defaultdict[str, list[Quarantined]](list)
    for row in lake.runtime.quarantine.open():
        held[row.silver_table].append(row)
    failed = failures(lake.runtime)
    strays = {name: lake.runtime.strays.of(name) for name in lake.config.sources}
    streams = {
        name: _stream(lake, name, source.stream, source.freshness.max_pending_age)
        for name, source in lake.config.sources.items()
        if source.stream is not None
    }
    states = table_states(lake.runtime, lake.targets, now)
    with ThreadPoolExecutor(loading_threads(lake.config.catalog), thread_name_prefix="status") as pool:
        loaded = list(pool.map(lambda state: _table(lake, state), states))
        tables = {state.target.identifier: table for state, table in zip(states, loaded, strict=True)}
        partitions = (state.target.partition_by for state in states)
        healths = list(pool.map(_health, loaded, partitions))
    batches = batches_since(lake.runtime.catalog, tables, now - LATENCY_OF)
    found = [
        _table_status(
            lake, state, tables[name], health, batches[name], held[name], failure_of(state, failed), now
        )
        for state, name, health in zip(states, tables, healths, strict=True)
    ]
    return [
        replace(
            line,
            strays=strays[line.source].number,
            stray_keys=dict([*strays[line.source].keys.items()][:MOST_KEYS]),
            stream=streams.get(line.source, (None, False))[0],
            stream_is_late=streams.get(line.source, (None, False))[1],
        )
        for line in found
    ]


def _stream(lake: Lake, source: str, stream: StreamConfig, limit: timedelta) -> tuple[str, bool]:
    backlog = lake.runtime.backlogs.of(source, stream)
    return backlog.sentence, backlog.is_late(limit)


def stream_lines(lines: Sequence[TableStatus]) -> dict[str, bool]:
    """A line for each source with a stream, and whether the user has to act."""
    return {f"{line.source}: {line.stream}": line.stream_is_late for line in lines if line.stream is not None}


def late_lines(lake: Lake) -> list[str]:
    """A line for each table of which a warehouse has lacked a commit for too long, and for each warehouse that does not
    answer."""
    found = {output.name: output.look() for output in lake_outputs(lake, PATIENCE) if output.shows_tables}
    return [
        text
        for name, looked in found.items()
        for text in (
            *(f"{name}: {problem}" for problem in looked.problems),
            *(
                f"{name}: {table} lacks commits since {shown.behind_since:%Y-%m-%d %H:%M:%S} UTC"
                + (f": {shown.reason}" if shown.reason is not None else "")
                for table, shown in looked.tables.items()
                if shown.is_late
            ),
        )
    ]


def stray_lines(lines: Sequence[TableStatus]) -> list[str]:
    """A line for each source with strays, and one for each of its first strays."""
    found = {line.source: Strays(line.stray_keys, line.strays) for line in lines if line.strays}
    return [
        text
        for source, strays in found.items()
        for text in (f"{source}: {strays.sentence}", *(f"  {entry}" for entry in strays.lines(MOST_KEYS)))
    ]


def slow_lines(lake: Lake, lines: Sequence[TableStatus]) -> list[str]:
    """A line for each table of silver, marts and own assets that takes long to read, because its maintenance has not
    kept up."""
    found = {line.table: line.slow_to_read for line in lines if line.slow_to_read is not None}
    catalog = lake.runtime.catalog
    names = [mart.identifier for mart in lake.marts]
    names += [own.identifier for own in own_tables(catalog, lake.tables)]
    with ThreadPoolExecutor(loading_threads(lake.config.catalog), thread_name_prefix="status") as pool:
        healths = pool.map(lambda name: _health(load_table(catalog, name)), names)
        found |= {
            name: f"{health.behind}. {health.scans}"
            for name, health in zip(names, healths, strict=True)
            if health is not None and health.behind
        }
    return [f"{table} has {text} Run `lake-assets maintain`." for table, text in found.items()]


def _table(lake: Lake, state: TableState) -> Table | None:
    """The table; None for one that cannot be read, which has its error in the state, and for one without commits."""
    is_there = state.error is None and state.position.snapshot_id is not None
    return load_table(lake.runtime.catalog, state.target.identifier) if is_there else None


def _health(table: Table | None, partition_by: Sequence[str] | None = None) -> Health | None:
    """The health of a table for its readers; None without a table, and for one whose files cannot be looked at: the
    other tables are shown."""
    if table is None:
        return None
    try:
        return read_health(table, partition_by)
    except Exception as error:  # noqa: BLE001  (of the warehouse; or its files were deleted meanwhile)
        logger.warning("%s: its files could not be looked at: %s", ".".join(table.name()), root_cause(error))
        return None


def _table_status(
    lake: Lake,
    state: TableState,
    table: Table | None,
    health: Health | None,
    batches: Sequence[BatchRow],
    held: Sequence[Quarantined],
    failure: Failure | None,
    now: datetime,
) -> TableStatus:
    # Maintenance commits above it have no batch.
    snapshot = stamped_snapshot(table, SILVER) if table is not None else None
    batch = {k.removeprefix(BATCH): v for k, v in summary(snapshot).items() if k.startswith(BATCH)}
    newest = state.position.max_commit_ts
    applied = applied_at(snapshot) if snapshot is not None else None
    mark = still_vanished(state.logged)
    return TableStatus(
        table=state.target.identifier,
        state=state.state if failure is None else State.FAILING,
        rows=state.position.rows,
        position=state.position.log_offset,
        pending_files=len(state.pending),
        quarantined=len(held),
        quarantined_files=sum(row.row is None for row in held),
        lag_seconds=round((now - newest).total_seconds(), 1) if newest is not None else None,
        latency=Spread.of(way.from_file for row in batches if (way := row.passage) is not None),
        last_batch=batch or None,
        last_applied=applied.isoformat(timespec="seconds") if applied is not None else None,
        reason=(_reason(lake.config, state) or state.note)
        if failure is None
        else f"{failure.reason} {_try_again(lake, state)}",
        consistent_cut=state.position.cut.isoformat() if state.position.cut is not None else None,
        rows_waiting_for_cut=state.position.waiting,
        unknown_rows=state.position.unknown_rows,
        vanished=mark.last_modified.isoformat(timespec="seconds") if mark is not None else None,
        source=state.target.source,
        source_table=state.target.table,
        failing_since=failure.since.isoformat(timespec="seconds") if failure is not None else None,
        full_scan=health.figures() if health is not None else {},
        slow_to_read=f"{health.behind}. {health.scans}" if health is not None and health.behind else None,
    )


def _reason(config: LakeConfig, state: TableState) -> str | None:
    if state.error is not None:
        return hidden_in(config, root_cause(state.error))
    if (stop := state.plan.stop) is not None:
        return f"{stop.reason} {stop.next_step}"
    mark = still_vanished(state.logged)
    if mark is not None and state.state is not State.WAITING:
        return f"{before(mark, state.logged)}; on_vanished is {state.target.config.on_vanished}"
    return state.waits_for or unknown_rows_sentence(state.target, state.position)


def _try_again(lake: Lake, state: TableState) -> str:
    source = f"--source {state.target.source} " if len(lake.config.sources) > 1 else ""
    return f"To try again: lake-assets sync {source}--table {state.target.argument}"
