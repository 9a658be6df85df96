"""Whether a catalog keeps its word: what the lake's exactness rests on, tried on a throw-away table.

Some catalogs accept branches and keep none, or take a commit upon a table that has changed since (Nessie does both).
There, rows would be lost without an error. Some stores refuse the files of deletion vectors (SeaweedFS's buckets for
tables). Here: the trial, with PyIceberg alone, so that every process can make it. Not here: when it is made
(`runtime.py`).
"""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AssertRefSnapshotId, SetSnapshotRefUpdate

from lake_assets.config import LakeConfig
from lake_assets.errors import LakeError
from lake_assets.iceberg.catalog import ensure_namespace
from lake_assets.iceberg.file_io.pyiceberg_private import append_rows
from lake_assets.iceberg.ops_table import NAMESPACE, PROPERTIES, ops_schema
from lake_assets.iceberg.table_io import drop_with_files
from lake_assets.words import many

AT_ONCE, ROUNDS = 4, 3
"""Commits at a time, upon the same snapshot, and how often."""
BRANCH, TAG = "probe_branch", "probe_tag"
ROW = pa.table({"number": pa.array([1], pa.int64())})


class CatalogUnfit(LakeError):
    """The catalog does not do what the lake needs. Nothing is written to it."""


def refuse_unfit(catalog: Catalog, config: LakeConfig) -> None:
    """Raises CatalogUnfit with everything that the catalog of the lake does not do."""
    if faults := list(catalog_faults(catalog, vectors=_has_vectors(config))):
        raise CatalogUnfit(
            f"The catalog of lake.yaml, of the type {config.catalog.type}, cannot hold a lake: {'; '.join(faults)}. "
            "Choose another one: see Catalogs in docs/operations.md."
        )


def _has_vectors(config: LakeConfig) -> bool:
    tables = (table for source in config.sources.values() for table in source.tables.values())
    return config.gold_version > 2 or any(config.silver_version(table) > 2 for table in tables)


def catalog_faults(catalog: Catalog, *, vectors: bool) -> Iterator[str]:
    """What the catalog does not do, as parts of a sentence. Makes a table and drops it. `vectors`: whether tables of
    the lake are to have deletion vectors."""
    ensure_namespace(catalog, NAMESPACE)
    name = f"{NAMESPACE}.probe_{uuid4().hex}"
    table = catalog.create_table(name, ops_schema(number="long"), properties=PROPERTIES)
    try:
        append_rows(table, ROW)
        yield from _lost_refs(catalog, name)
        yield from _lost_commits(catalog, name)
        yield from _stale_publish(catalog, name)
        if vectors:
            yield from _refused_vectors(table)
    finally:
        drop_with_files(catalog, table)


def _lost_refs(catalog: Catalog, name: str) -> Iterator[str]:
    table = catalog.load_table(name)
    head = _head(table)
    table.manage_snapshots().create_branch(head, BRANCH).create_tag(head, TAG).commit()
    kept = catalog.load_table(name).metadata.refs
    for ref, what in ((BRANCH, "a branch"), (TAG, "a tag")):
        if ref not in kept:
            yield f"it accepts {what} and does not keep it"


def _lost_commits(catalog: Catalog, name: str) -> Iterator[str]:
    """Of commits upon the same snapshot, one may succeed."""
    stale, commits = catalog.load_table(name), 0
    for _ in range(ROUNDS):
        tables, together = [catalog.load_table(name) for _ in range(AT_ONCE)], Barrier(AT_ONCE)
        with ThreadPoolExecutor(AT_ONCE, "probe") as threads:
            commits += sum(threads.map(lambda table, wait=together.wait: _is_committed(table, wait), tables))
    commits += _is_committed(stale, lambda: 0)
    found = catalog.load_table(name).scan().to_arrow().num_rows - ROW.num_rows
    if found != commits:
        yield f"it confirmed {many(commits, 'commit')} and has {found}, because it takes commits upon a former state"


def _is_committed(table: Table, wait: Callable[[], int]) -> bool:
    wait()
    try:
        append_rows(table, ROW)
    except CommitFailedException:
        return False
    return True


def _stale_publish(catalog: Catalog, name: str) -> Iterator[str]:
    """A branch whose main has moved on must not become main."""
    table = catalog.load_table(name)
    ref = table.metadata.refs.get(BRANCH)
    if ref is None:
        return
    update = SetSnapshotRefUpdate(
        ref_name="main",
        type=SnapshotRefType.BRANCH,
        snapshot_id=ref.snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )
    with contextlib.suppress(CommitFailedException):
        catalog.commit_table(
            table, (AssertRefSnapshotId(ref="main", snapshot_id=ref.snapshot_id),), (update,)
        )
    if _head(catalog.load_table(name)) == ref.snapshot_id:
        yield "it publishes a branch although the table has changed since the branch began"


def _refused_vectors(table: Table) -> Iterator[str]:
    path = f"{table.location()}/data/probe.puffin"
    try:
        with table.io.new_output(path).create(overwrite=True) as file:
            file.write(b"PFA1")
        table.io.delete(path)
    except OSError as error:
        yield f"its store refuses deletion vectors ({error}), which tables with `format_version: 2` do not need"


def _head(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None, "it has rows"
    return snapshot.snapshot_id
