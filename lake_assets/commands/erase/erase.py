"""The steps of an erasure, each of which may be repeated: an erasure that was killed is finished by running it again.

The tables are paused first, so that no batch computes the rows again from a file that it has read before. Then the rows
leave the files, the silver tables, the quarantine and the marts, and former commits and versions go. At last, a search
through every file proves it. Here: that order. Not here: what is erased (`erasure_plan.py`), the steps themselves
(`silver/erase/`, `iceberg/upkeep/purge.py`, `live_bytes.py`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lake_assets.commands.erase.erasure_plan import ErasurePlan, rows_in
from lake_assets.commands.erase.live_bytes import Place, Search, files_below, objects_of
from lake_assets.gold.mart import Mart
from lake_assets.iceberg.erasure_log import NAME, ErasedFile, Erasure, ErasureLog
from lake_assets.iceberg.ops_table import NAMESPACE
from lake_assets.iceberg.table_io import current_snapshot, load_table, tables_in
from lake_assets.iceberg.upkeep.purge import move_tag, purge, purge_small_table
from lake_assets.iceberg.upkeep.table_maintenance import TableMaintenance
from lake_assets.lake import Lake
from lake_assets.rounds.maintenance import MART, recorder
from lake_assets.silver.apply.cut_tags import cut_tags, tag_of
from lake_assets.silver.erase.erased_files import erase_from_file, settle
from lake_assets.silver.erase.erased_rows import erase_rows
from lake_assets.silver.erase.found_rows import files_of, found_rows
from lake_assets.silver.reconcile.compare_slices import RECONCILED
from lake_assets.silver.table.pause import pause, pause_of, resume
from lake_assets.silver.table.position import SILVER

PURGED = tuple(f"{NAMESPACE}.{name}" for name in ("quarantine", "findings"))
"""The lake's own tables that can have, or have had, values of rows."""


@dataclass(slots=True)
class Erased:
    """What an erasure did, and what is left."""

    erasure: Erasure
    rows: dict[str, int] = field(default_factory=dict)
    """By silver table, rows removed by this run."""
    marts: tuple[str, ...] = ()
    """The marts that read one of the tables, without their former commits."""
    folders: tuple[str, ...] = ()
    """Further folders that are searched."""
    files_searched: int = 0
    values_searched: int = 0
    left: list[str] = field(default_factory=list)
    """A sentence for each thing that still has rows or values, or that could not be done."""


@dataclass(frozen=True, slots=True)
class Followers:
    """What is done by Dagster's part."""

    compute_marts: Callable[[Lake], Mapping[str, str]] = lambda lake: {}
    """Recomputes the marts whose tables have changed; returns by mart why some could not be."""
    forget_previews: Callable[[Sequence[tuple[str, ...]]], None] = lambda keys: None
    """Removes the rows that events of these assets show."""
    folders: tuple[str, ...] = ()
    """Where Dagster keeps its history on this machine."""


def erase(
    lake: Lake,
    plan: ErasurePlan,
    followers: Followers,
    reference: str | None = None,
    stage: Callable[[str], None] = lambda name: None,
) -> Erased:
    """Carries out the plan, or finishes it. Raises LakeError; what was done then stays done, and the tables stay
    paused. `stage`: called with the name of each step as it begins."""
    runtime, first = lake.runtime, plan.targets[0]
    log = ErasureLog(runtime.catalog)
    erasure = log.begin(first.source, first.table, plan.keys.values(first), reference)
    erasure = replace(erasure, sought=erasure.sought | plan.values)
    log.note(erasure)
    for target in plan.targets:
        table = load_table(runtime.catalog, target.identifier)
        if table is not None and not pause_of(table):
            pause(runtime, target, _reason(erasure))

    def note(file: ErasedFile) -> None:
        nonlocal erasure
        erasure = erasure.with_file(file)
        log.note(erasure)

    stage("files")
    contracts = runtime.contracts.of(first.identifier)
    for found in plan.with_rows:
        erase_from_file(runtime, first, contracts, found, note)
    store = runtime.store(first.source)
    for key in plan.orphans:
        store.remove(key)
    logged = runtime.file_log.files(first.source, first.table)
    store.remove_former({*plan.orphans, *(file.key for file in logged)})
    settle(runtime, erasure)
    done = Erased(erasure, folders=followers.folders)
    stage("silver")
    for target in plan.targets:
        result = erase_rows(runtime, target, plan.keys)
        done.rows[target.identifier] = 0 if result is None else result.rows_removed
    _move_cuts(lake, plan)
    stage("marts")
    marts = _readers(lake, plan)
    done.marts = tuple(mart.identifier for mart in marts)
    waiting = followers.compute_marts(lake) if marts else {}
    done.left += [f"{name}: {waiting[name]}" for name in done.marts if name in waiting]
    stage("former commits")
    _purge(lake, plan, marts)
    followers.forget_previews([*(one.asset_key for one in plan.targets), *(one.asset_key for one in marts)])
    stage("proof")
    _prove(lake, plan, done)
    if not done.left:
        # Not finished before all of it is done: a kill in between leaves an erasure that is run again.
        log.note(replace(erasure, sought=frozenset()))
        _forget_former(runtime.catalog, f"{NAMESPACE}.{NAME}")
        _resume(lake, plan, erasure)
        done.erasure = replace(erasure, finished=datetime.now(UTC), proof=None, sought=frozenset())
        log.note(done.erasure)
    return done


def _reason(erasure: Erasure) -> str:
    return f"erasure {erasure.id}"


def _resume(lake: Lake, plan: ErasurePlan, erasure: Erasure) -> None:
    """Lets the tables go on that the erasure has paused."""
    for target in plan.targets:
        if pause_of(load_table(lake.runtime.catalog, target.identifier)).endswith(_reason(erasure)):
            resume(lake.runtime, target)


def _readers(lake: Lake, plan: ErasurePlan) -> list[Mart]:
    names = {target.identifier for target in plan.targets}
    return [mart for mart in lake.marts if any(rule.identifier in names for rule in mart.rules)]


def _purge(lake: Lake, plan: ErasurePlan, marts: Sequence[Mart]) -> None:
    runtime, settings = lake.runtime, lake.config.maintenance
    silver = {target.identifier: SILVER for target in plan.targets}
    stamps = silver | {mart.identifier: MART for mart in marts}
    with runtime.sessions.isolated() as spark:
        if runtime.branches is not None:
            runtime.branches.drop(spark, runtime.lake.catalog.name, stamps)
        for identifier, rule in stamps.items():
            table = TableMaintenance(spark, runtime.catalog, identifier, rule, settings)
            if identifier in silver:
                table = replace(table, before_expiry=recorder(runtime))
            purge(table, _newest_cut(load_table(runtime.catalog, identifier)))
    for target in plan.targets:
        runtime.findings.note(RECONCILED, target.identifier, {})  # it names cells
    for identifier in PURGED:
        _forget_former(runtime.catalog, identifier)


def _move_cuts(lake: Lake, plan: ErasurePlan) -> None:
    """Has the newest cut of each table show it without the rows: no row waits, so the newest snapshot shows that cut.
    Marts that read at a cut follow."""
    runtime, settings = lake.runtime, lake.config.maintenance
    with runtime.sessions.isolated() as spark:
        for target in plan.targets:
            table = load_table(runtime.catalog, target.identifier)
            head, tag = current_snapshot(table), _newest_cut(table)
            if head is not None and tag is not None:
                maintenance = TableMaintenance(spark, runtime.catalog, target.identifier, SILVER, settings)
                move_tag(maintenance, tag, head.snapshot_id)


def _newest_cut(table: Table | None) -> str | None:
    """The tag of the table's newest consistent cut; None without any."""
    return tag_of(max(cuts)) if table is not None and (cuts := cut_tags(table)) else None


def _forget_former(catalog: Catalog, identifier: str) -> None:
    policy = Retrying(
        retry=retry_if_exception_type(CommitFailedException),
        stop=stop_after_attempt(10),
        wait=wait_random_exponential(multiplier=0.05, max=1),
        reraise=True,
    )

    def once() -> None:
        if (table := load_table(catalog, identifier)) is not None:
            purge_small_table(table)

    policy(once)


def _prove(lake: Lake, plan: ErasurePlan, done: Erased) -> None:
    """Notes in `done` what still has a row of the keys, or one of their values that no other row has."""
    runtime, first = lake.runtime, plan.targets[0]
    contracts, sought, shared = runtime.contracts.of(first.identifier), done.erasure.sought, set[str]()
    for file, obj in files_of(runtime, first):
        found = found_rows(runtime, first, contracts, plan.keys, file, obj, sought)
        shared |= found.shared
        if found.rows:
            done.left.append(f"{file.path} has rows of the keys")
    done.left += [
        f"{one.identifier} has rows of the keys" for one in plan.targets if rows_in(lake, one, plan.keys, {})
    ]
    values = sought - shared
    notes = f"/{NAMESPACE}/{NAME}/"
    places = [place for place in _places(lake, first.source, done.folders) if notes not in place[0]]
    done.files_searched, done.values_searched = len(places), len(values)
    if values:
        found_at = Search(values, shared).found_in(places)
        left = _without_orphans(lake, plan, found_at)
        done.left += [f"{address} has a value of the erased rows" for address in left]


def _without_orphans(lake: Lake, plan: ErasurePlan, addresses: Sequence[str]) -> list[str]:
    """The addresses without data files that no commit of the purged tables refers to, such as those of a killed batch,
    which it deletes."""
    catalog, left = lake.runtime.catalog, [*addresses]
    silver = [target.identifier for target in plan.targets]
    for identifier in (*silver, *(mart.identifier for mart in _readers(lake, plan))):
        table = load_table(catalog, identifier)
        if table is None:
            continue
        files = _files_of(table)
        *_, data = files.parse_location(f"{table.location()}/data/", files.properties)
        # By their names, which are unique: an address may be spelled in several ways.
        tasks = [*table.scan().plan_files()]
        referred = {_name(file.file_path) for task in tasks for file in (task.file, *task.delete_files)}
        for address in addresses:
            if address.startswith(data) and _name(address) not in referred:
                table.io.delete(f"{table.location()}/data/{address.removeprefix(data)}")
                left.remove(address)
    return left


def _name(address: str) -> str:
    return address.rpartition("/")[2]


def _files_of(table: Table) -> PyArrowFileIO:
    return table.io if isinstance(table.io, PyArrowFileIO) else PyArrowFileIO(table.io.properties)


def _places(lake: Lake, source: str, folders: Sequence[str]) -> Iterator[Place]:
    """Every file of the source's location, of the lake's tables, and of these folders."""
    runtime = lake.runtime
    yield from objects_of(runtime.store(source))
    table = load_table(runtime.catalog, f"{NAMESPACE}.{NAME}")
    assert table is not None, "the erasure is noted in it"
    files = _files_of(table)
    if (warehouse := lake.config.catalog.folder) is not None:
        below = [warehouse]
    else:
        spaces = (".".join(space) for space in runtime.catalog.list_namespaces())
        tables = (
            load_table(runtime.catalog, name)
            for space in spaces
            for name in tables_in(runtime.catalog, space)
        )
        below = [table.location() for table in tables if table is not None]
    for folder in (*below, *folders):
        yield from files_below(files, folder)
