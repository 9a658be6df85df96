"""What `lake-assets sync` finds before it applies anything: new files, tables and marts with something to do.

Here: finding it, and the result that it begins. It imports neither Dagster nor a JVM: a call that finds nothing ends
before either has started. Not here: doing it (`orchestration/sync.py`).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.scan.discovery import Discovery
from lake_assets.gold.mart import Mart
from lake_assets.gold.table_snapshots import Look
from lake_assets.gold.view import mart_view
from lake_assets.lake import Lake
from lake_assets.rounds.arrivals import doubtful_sentence, log_arrivals
from lake_assets.rounds.round import plan_round
from lake_assets.silver.table.targets import Target
from lake_assets.storage.object_store import StoreError
from lake_assets.storage.stored_object import NotLogged
from lake_assets.words import does, many


class Progress:
    """Told what happens as it happens; this one keeps quiet."""

    def begin(self, task: str, steps: int) -> None: ...

    def stage(self, task: str, stage: str) -> None: ...

    def done(self, task: str) -> None: ...


@dataclass(slots=True)
class SyncResult:
    """What one call did."""

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
    """Tables and marts that cannot go on yet, and why."""
    set_aside: list[str] = field(default_factory=list)
    """A sentence for each silver table of which the call has set something aside."""
    notes: list[str] = field(default_factory=list)
    """What lake.yaml says and another command does."""
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
    """What is to be done."""

    result: SyncResult
    """With the files that it logged."""
    found: dict[str, Discovery]
    """By source that could be listed, and whose files could be logged."""
    ready: tuple[Target, ...]
    """Tables that have a batch."""
    marts: bool
    """Whether a mart may have something to do or to say."""

    @property
    def idle(self) -> bool:
        """Whether nothing is left but to say so."""
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
    """Logs new files, and finds what is pending; of `source`, of `table` (a name that `Target.is_called` knows)."""
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
            result.waiting[state.target.identifier] = state.waits_for
    result.seconds["bronze"] = time.perf_counter() - start
    # Before the tables are applied, nobody knows; afterwards it is asked again.
    marts = gold and bool(lake.marts) and (bool(plan.ready) or _marts_pending(lake, lake.marts))
    return PendingWork(result, found, plan.ready, marts)


def _list_files(lake: Lake, source: str, result: SyncResult) -> Discovery | None:
    try:
        found = log_arrivals(lake.runtime, source)
    except NotLogged as error:
        # What is logged already can be applied all the same.
        result.failed[source] = str(error)
        return None
    except StoreError as error:
        result.unlisted[source] = str(error)
        return None
    if found.listed == found.ignored and not lake.runtime.file_log.newest(source):
        result.waiting[source] = (
            f"no DMS file in {lake.config.sources[source].location} yet: start the DMS task, or correct the source's "
            "location in lake.yaml"
        )
    for table, doubt in found.doubtful.items():
        result.waiting[f"{source} {table}"] = doubtful_sentence(table, doubt)
    result.files[source] = len({file.key for file in found.logged if file.kind is not FileKind.VANISHED})
    result.file_rows[source] = sum(file.rows or 0 for file in found.logged)
    return found


def _marts_pending(lake: Lake, marts: Sequence[Mart]) -> bool:
    """Also of a mart that waits for a cut, or for a day's partition, which `sync` says."""
    tables = Look(lake.runtime.catalog)
    views = [(mart, mart_view(tables, mart, lake.config.gold)) for mart in marts]
    return any(view.stale if view is not None else mart.at_cut for mart, view in views)


def set_aside_sentence(silver_table: str, table: str, rows: int, files: int) -> str | None:
    """What a user hears of rows and whole files that are not in a table; `table` is `schema.table`."""
    counts = ((rows, "row"), (files, "file"))
    what = " and ".join(many(number, noun) for number, noun in counts if number)
    if not what:
        return None
    return (
        f"{silver_table}: {what} {does(rows + files, 'are')} set aside; to see which: "
        f"lake-assets quarantine list --table {table}"
    )
