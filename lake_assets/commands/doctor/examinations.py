"""What `lake-assets doctor` looks at: each examination passes, or names what is wrong and what to do.

Here: the examinations, over what other modules find out. They read metadata and the beginning of each listing, and
change nothing. Not here: options and output (`doctor_cli.py`).
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from pathlib import Path

from lake_assets.bronze.log.file_log import TABLE as LOG
from lake_assets.commands.dms.described_endpoint import compared, has_task
from lake_assets.commands.mend.repair_plan import RepairPlan, repair_plan
from lake_assets.commands.setup.folder import local_folder
from lake_assets.commands.setup.validate import check
from lake_assets.config.secrets import hidden_in
from lake_assets.iceberg.erasure_log import ErasureLog
from lake_assets.iceberg.table_io import load_table
from lake_assets.iceberg.upkeep.table_maintenance import abandoned_branches
from lake_assets.lake import Lake
from lake_assets.rounds.due_maintenance import due_upkeep
from lake_assets.silver.apply.failures import failure_of, failures
from lake_assets.silver.plan.table_state import table_states
from lake_assets.silver.table.pause import pause_of, waiting_sentence
from lake_assets.spark.causes import root_cause
from lake_assets.spark.session import check_spark
from lake_assets.words import many, span

LISTED = 1000
"""Objects of each location that are looked at: one request to a bucket."""
FREE_BYTES, FREE_SHARE = 2 << 30, 0.05
"""Below both of these, a disk is full soon: a batch writes its rows twice for a while."""
AHEAD = timedelta(minutes=2)
"""By how much an object may seem to be of the future."""
SLOW_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Examined:
    """The outcome of one examination."""

    what: str
    said: str
    """What was found: a clause if all is well, else a sentence."""
    remedy: str | None = None
    """What to do; None if all is well."""

    @property
    def is_well(self) -> bool:
        return self.remedy is None


def examined(lake: Lake, path: Path) -> Iterator[Examined]:
    """All examinations of the lake of a lake.yaml, in order; an error of one is its outcome."""

    @cache
    def plan() -> RepairPlan:
        return repair_plan(lake)

    looks: tuple[tuple[str, Callable[[Lake], Found]], ...] = (
        ("lake.yaml", lambda lake: _settings(lake, plan)),
        ("Spark", _spark),
        ("catalog", _catalog),
        *((f"source {name}", _source_of(name)) for name in lake.config.sources),
        *(
            (f"DMS of {name}", dms_of(name))
            for name, source in lake.config.sources.items()
            if has_task(source)
        ),
        ("disk", lambda lake: _disk(lake, path)),
        ("tables", lambda lake: _tables(lake, plan)),
        ("paused", _paused),
        ("erasures", _erasures),
        ("quarantine", _quarantine),
        ("branches", _branches),
        ("maintenance", _maintenance),
        ("runs", lambda lake: _runs(lake, path)),
    )
    for what, look in looks:
        try:
            yield from (Examined(what, *found) for found in look(lake))
        except Exception as error:  # noqa: BLE001  (whatever is wrong is what the user wants to know)
            reason = hidden_in(lake.config, root_cause(error))
            yield Examined(what, reason, "Correct that first: the rest of this examination was not possible.")


Found = Iterator[tuple[str, str | None]]
"""What was found, and the remedy."""


def _settings(lake: Lake, plan: Callable[[], RepairPlan]) -> Found:
    checked, stops = check(lake), set[str]()
    with suppress(Exception):  # "tables" says why they cannot be known
        stops = {*(step.reason for step in plan().steps), *plan().left}
    mistakes = [text for _, text in checked.mistakes if text not in stops]
    for mistake in mistakes:
        yield mistake, "Correct lake.yaml; `lake-assets validate` names the line."
    for warning in checked.warnings:
        yield f"{warning} (a warning)", None
    if not (mistakes or checked.warnings):
        yield f"{many(len(lake.targets), 'silver table')}, {many(len(lake.marts), 'mart')}", None


def _spark(lake: Lake) -> Found:
    check_spark(lake.config)
    yield f"can start ({lake.config.spark.mode})", None


def _catalog(lake: Lake) -> Found:
    began = time.monotonic()
    is_new = not lake.runtime.catalog.table_exists(LOG)
    took = time.monotonic() - began
    if took > SLOW_SECONDS:
        yield (
            f"takes {span(took)} to answer.",
            "Each batch asks it some twenty times: look at its load or the network.",
        )
        return
    yield f"answers in {took * 1000:.0f} ms" + (", and has no lake yet" if is_new else ""), None


def _source_of(name: str) -> Callable[[Lake], Found]:
    def look(lake: Lake) -> Found:
        store, now = lake.runtime.store(name), datetime.now(UTC)
        found = list(islice(store.list(), LISTED))
        if newer := [obj for obj in found if obj.last_modified > now + AHEAD]:
            ahead = max(obj.last_modified for obj in newer) - now
            yield (
                f"{newer[0].key} is {span(ahead.total_seconds())} of the future.",
                "Correct this machine's clock: full loads and freshness are judged by it.",
            )
        for sentence in lake.runtime.scan_failures.sentences():
            if sentence.startswith(name):
                yield sentence, "The next scan tries again; see the reason."
        strays = lake.runtime.strays.of(name)
        if strays.number:
            keys = ", ".join([*strays.keys][:3])
            yield (
                f"{many(strays.number, 'file')} of no configured table, such as {keys}.",
                "Add their tables (`lake-assets new table`), or move them elsewhere.",
            )
        elif not newer:
            more = " at least" if len(found) == LISTED else ""
            yield f"{many(len(found), 'object')}{more} in {store.location}", None

    return look


def dms_of(name: str) -> Callable[[Lake], Found]:
    """The examination of a source's endpoint and tasks, as DMS describes them."""

    def look(lake: Lake) -> Found:
        found = compared(lake.config, name)
        for sentence in found.different:
            yield sentence, f"`lake-assets dms plan --source {name}` prints what lake.yaml expects of DMS."
        if not found.different:
            yield (
                f"{found.endpoint}{''.join(f' and {task}' for task in found.tasks)}: as lake.yaml expects",
                None,
            )

    return look


def _disk(lake: Lake, path: Path) -> Found:
    folder = local_folder(lake.config, path)
    usage = shutil.disk_usage(folder if folder.exists() else path.absolute().parent)
    free = f"{usage.free / 2**30:,.1f} GB of {usage.total / 2**30:,.0f} GB free"
    if usage.free < FREE_BYTES and usage.free < FREE_SHARE * usage.total:
        yield (
            f"only {free}.",
            "Free some: `lake-assets maintain` expires snapshots (maintenance.keep_snapshots).",
        )
        return
    yield free, None


def _tables(lake: Lake, plan: Callable[[], RepairPlan]) -> Found:
    stops = plan()
    for step in stops.steps:
        yield step.reason, f"`lake-assets repair` does that: {step.name}."
    for sentence in stops.left:
        yield sentence, "As the sentence says."
    failed = failures(lake.runtime)
    states = table_states(lake.runtime, lake.targets, datetime.now(UTC)) if failed else []
    known = [failure for state in states if (failure := failure_of(state, failed)) is not None]
    for failure in known:
        yield (
            failure.reason,
            "The next turn tries again; the sentence says what would end it.",
        )
    if not stops.steps and not stops.left and not known:
        yield "no silver table is stopped or failing", None


def _paused(lake: Lake) -> Found:
    found = [(t, pause_of(load_table(lake.runtime.catalog, t.identifier))) for t in lake.targets]
    for target, pause in found:
        if pause:
            yield f"{target.identifier}: {waiting_sentence(target, pause)}", None
    if not any(pause for _, pause in found):
        yield "no table", None


def _erasures(lake: Lake) -> Found:
    unfinished = [each for each in ErasureLog(lake.runtime.catalog).all() if each.finished is None]
    for each in unfinished:
        named = f" ({each.reference})" if each.reference else ""
        yield (
            f"an erasure of {each.table}{named} is not finished since {each.began:%Y-%m-%d %H:%M} UTC.",
            f"Run `lake-assets erase {each.table}` again with the same keys.",
        )
    if not unfinished:
        yield "none is unfinished", None


def _quarantine(lake: Lake) -> Found:
    if held := lake.runtime.quarantine.open():
        tables, rows = sorted({one.silver_table for one in held}), sum(one.row is not None for one in held)
        yield (
            f"{many(rows, 'row')} and {many(len(held) - rows, 'file')} of {', '.join(tables[:5])}.",
            "`lake-assets quarantine list` names them; retry or discard them.",
        )
        return
    yield "empty", None


def _branches(lake: Lake) -> Found:
    tables = (load_table(lake.runtime.catalog, identifier) for identifier in lake.tables)
    if left := sum(len(abandoned_branches(table)) for table in tables if table is not None):
        yield f"{many(left, 'branch', 'are')} left by killed processes.", "`lake-assets maintain` drops them."
        return
    yield "none is left over", None


def _maintenance(lake: Lake) -> Found:
    due = due_upkeep(lake)
    for each in due:
        yield f"{each.table} has {each.reason}, which the sensor tables_stay_small or `sync` takes up", None
    if not due:
        yield "no table is due", None


def _runs(lake: Lake, path: Path) -> Found:
    from lake_assets.orchestration.instance import dagster_instance
    from lake_assets.orchestration.runs.in_flight import silent_runs
    from lake_assets.orchestration.shared.run_tags import own_tag

    with dagster_instance(path.absolute().parent) as instance:
        if instance.is_ephemeral:
            yield "no Dagster instance is beside lake.yaml, nor named by DAGSTER_HOME", None
            return
        found = silent_runs(instance, own_tag(lake.config))
    for run, reason in found.items():
        yield (
            f"run {run[:8]}: {reason}.",
            "The sensors declare it failed, and request its tables again: see that Dagster's daemon runs.",
        )
    if not found:
        yield "none is stuck", None
