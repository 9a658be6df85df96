"""The pending work that `lake-assets sync` finds before it applies anything: new files, and due tables and marts.

Here: finding it, and the start of the call's result. It needs neither Dagster nor a JVM: a call without pending work
ends before either has started. Not here: doing the work (`orchestration/sync.py`).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.scan.discovery import Discovery
from lake_assets.gold.mart import Mart
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.gold.view import mart_view
from lake_assets.lake import Lake
from lake_assets.rounds.arrivals import log_arrivals, unconfirmed_sentence
from lake_assets.rounds.round import plan_round
from lake_assets.silver.plan.plan import State
from lake_assets.silver.table.targets import Target
from lake_assets.storage.object_store import StoreError
from lake_assets.storage.stored_object import NotLogged
from lake_assets.words import does, many


class Progress:
    """Called as each task, stage and step begins or ends; this implementation does nothing."""

    def begin(self, task: str, steps: int) -> None: ...

    def stage(self, task: str, stage: str) -> None: ...

    def done(self, task: str) -> None: ...


@dataclass(slots=True)
class SyncResult:
    """The outcome of one call."""

    files: dict[str, int] = field(default_factory=dict)
    """New files per source."""
    file_rows: dict[str, int] = field(default_factory=dict)
    unlisted: dict[str, str] = field(default_factory=dict)
    """Sources whose location could not be listed, and why."""
    applied: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Materialization metadata per silver table that got rows."""
    failed: dict[str, str] = field(default_factory=dict)
    """Tables and marts that failed, and why."""
    waiting: dict[str, str] = field(default_factory=dict)
    """Tables and marts that wait, and for what."""
    no_files: dict[str, str] = field(default_factory=dict)
    """By silver table for which DMS has written no file yet, the clause that says where its files are expected."""
    quarantine_notes: list[str] = field(default_factory=list)
    """A sentence for each silver table with rows or files that the call has quarantined."""
    notes: list[str] = field(default_factory=list)
    """Changes of lake.yaml that another command has to apply."""
    marts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Metadata per mart that was computed."""
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def nothing_pending(self) -> bool:
        return not (self.applied or self.failed or self.marts or self.unlisted)

    @property
    def exit_code(self) -> int:
        return 1 if self.failed or self.unlisted else 0


@dataclass(frozen=True, slots=True)
class PendingWork:
    """The work that a call has to do."""

    result: SyncResult
    """The result so far: the new files that were logged."""
    found: dict[str, Discovery]
    """By source; only sources that could be listed, and whose files could be logged."""
    ready: tuple[Target, ...]
    """Tables that have a batch."""
    marts: bool
    """Whether a mart may have something to compute or to report."""
    rows: int = 0
    """Rows of the tables and of their pending files."""

    @property
    def idle(self) -> bool:
        """Whether there is no work."""
        logged = any(discovery.logged for discovery in self.found.values())
        return not (logged or self.ready or self.marts or self.result.unlisted)


def find_work(
    lake: Lake,
    *,
    source: str | None = None,
    table: str | None = None,
    gold: bool = True,
    progress: Progress | None = None,
) -> PendingWork:
    """Logs new files, and finds pending work; if given, only of `source`, and of `table` (as `Target.is_called`)."""
    result, bar = SyncResult(), progress or Progress()
    targets = [
        target
        for target in lake.targets
        if source in (None, target.source) and (table is None or target.is_called(table))
    ]
    sources = sorted({target.source for target in targets})
    start = time.perf_counter()
    bar.begin("bronze", len(sources))
    found = {}
    for name in sources:
        if (discovery := _list_files(lake, name, result)) is not None:
            found[name] = discovery
        bar.done("bronze")
    listed = [target for target in targets if target.source not in result.unlisted]
    plan = plan_round(lake.runtime, listed)
    for state in plan.states:
        if state.note is not None:
            result.notes.append(state.note)
        if state.waits_for and state.target.source not in result.waiting:
            waiting = result.no_files if state.state is State.NO_FILES else result.waiting
            waiting[state.target.identifier] = state.waits_for
    result.seconds["bronze"] = time.perf_counter() - start
    # Tables that are about to be applied may make marts stale: the caller checks again afterwards.
    marts = gold and bool(lake.marts) and (bool(plan.ready) or _marts_pending(lake, lake.marts))
    rows = sum(state.position.rows + sum(file.rows or 0 for file in state.pending) for state in plan.states)
    return PendingWork(result, found, plan.ready, marts, rows)


def _list_files(lake: Lake, source: str, result: SyncResult) -> Discovery | None:
    try:
        found = log_arrivals(lake.runtime, source)
    except NotLogged as error:
        # Files that are already logged can still be applied.
        result.failed[source] = str(error)
        return None
    except StoreError as error:
        result.unlisted[source] = str(error)
        return None
    if found.listed == found.ignored and not lake.runtime.file_log.newest(source):
        config = lake.config.sources[source]
        where = f"no DMS file in {config.location}" if config.stream is None else "no message in the stream"
        place = "location" if config.stream is None else "stream"
        result.waiting[source] = (
            f"{where} yet: start the DMS task, or correct the source's {place} in lake.yaml"
        )
    for table, reason in found.unconfirmed.items():
        result.waiting[f"{source} {table}"] = unconfirmed_sentence(table, reason)
    result.files[source] = len({file.key for file in found.logged if file.kind is not FileKind.VANISHED})
    result.file_rows[source] = sum(file.rows or 0 for file in found.logged)
    return found


def _marts_pending(lake: Lake, marts: Sequence[Mart]) -> bool:
    """Whether a mart is stale, or waits for a cut, which `sync` reports."""
    tables = LoadedTables(lake.runtime.catalog)
    views = [(mart, mart_view(tables, mart, lake.config.gold)) for mart in marts]
    return any(view.stale if view is not None else mart.at_cut for mart, view in views)


def no_files_sentence(tables: Mapping[str, str]) -> str | None:
    """One sentence about all tables without files, as of `SyncResult.no_files`; None without any."""
    if not tables:
        return None
    name, expected = next(iter(tables.items()))
    if len(tables) == 1:
        return f"{name}: {expected}"
    return (
        f"{many(len(tables), 'table', 'have')} no files yet, the first of them {name}: {expected}. "
        "To see all: lake-assets status --all"
    )


def quarantined_sentence(silver_table: str, table: str, rows: int, files: int) -> str | None:
    """A sentence about rows and whole files that were quarantined; `table` is `schema.table`."""
    counts = ((rows, "row"), (files, "file"))
    what = " and ".join(many(number, noun) for number, noun in counts if number)
    if not what:
        return None
    return (
        f"{silver_table}: {what} {does(rows + files, 'are')} quarantined; to see which: "
        f"lake-assets quarantine list --table {table}"
    )
