"""A silver table at its former commits: `lake-assets snapshots`, `diff` and `restore --to`.

Here: the commits that a table still has, the rows that differ between two of them, and going back. Not here: options
and output (`time_cli.py`), undoing the commits of other writers (`restore.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.config import Mode
from lake_assets.errors import LakeError
from lake_assets.iceberg.table_io import committed_at, live_rows, load_table, rollback, summary, table_at
from lake_assets.iceberg.upkeep.retention import main_chain
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.reconcile.differences import (
    CELLS,
    MISSING,
    UNKNOWN,
    differing_rows,
    key_text,
    own_key,
)
from lake_assets.silver.reconcile.shown_values import shown_value
from lake_assets.silver.reduce.key_states import table_image
from lake_assets.silver.table.change_events import key_columns
from lake_assets.silver.table.pause import pause
from lake_assets.silver.table.position import BATCH, LOG_OFFSET
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import quoted
from lake_assets.words import many

MOST_SHOWN = 20
"""Rows that a comparison names."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of main."""

    snapshot: int
    at: datetime
    """UTC."""
    what: str
    """The kind and strategy of its batch; without one, Iceberg's operation."""
    position: int | None
    """The offset up to which files are applied; None if the commit has none."""
    rows: int
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """What distinguishes a table at a later commit from an earlier one. Of a table that is not of mode current, an
    updated row counts as one that is gone and one that is new."""

    added: int
    removed: int
    changed: int
    examples: tuple[str, ...]


def commits(runtime: LakeRuntime, target: Target) -> list[Commit]:
    """The commits of main that the table still has, the newest first."""
    table = _existing(runtime, target)
    tags: dict[int, list[str]] = {}
    for name, ref in table.metadata.refs.items():
        if ref.snapshot_ref_type == "tag":
            tags.setdefault(ref.snapshot_id, []).append(name)
    return [_commit(snapshot, tags.get(snapshot.snapshot_id, [])) for snapshot in main_chain(table)]


def chosen_commit(runtime: LakeRuntime, target: Target, named: str) -> Commit:
    """The commit with that id, with that tag, or the newest one at that time (ISO 8601; UTC without a zone). Raises
    LakeError."""
    found = commits(runtime, target)
    for commit in found:
        if named in (str(commit.snapshot), *commit.tags):
            return commit
    try:
        moment = datetime.fromisoformat(named)
    except ValueError:
        raise LakeError(
            f"{target.identifier} has no commit {named}: name an id or a tag of `lake-assets snapshots "
            f"{target.identifier}`, or a time such as 2026-01-31T12:00."
        ) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    for commit in found:
        if commit.at <= moment:
            return commit
    raise LakeError(
        f"{target.identifier} has no commit of {named} any more: the oldest is of {found[-1].at:%Y-%m-%d %H:%M:%S} UTC "
        "(maintenance.keep_snapshots)."
    )


def difference(runtime: LakeRuntime, target: Target, before: Commit, after: Commit) -> Difference:
    """The rows that differ, each compared by its key, or as a whole where the table's rows have none."""
    with runtime.sessions.isolated() as spark:
        old, new = (
            spark.sql(table_at(runtime.lake.catalog.name, target.identifier, commit.snapshot))
            for commit in (before, after)
        )
        shared = [name for name in new.columns if name in old.columns]
        if target.mode is not Mode.CURRENT or len(shared) < len(target.columns):
            old, new = (rows.select(*map(quoted, shared)) for rows in (old, new))
            return Difference(new.exceptAll(old).count(), old.exceptAll(new).count(), 0, ())
        found = differing_rows(target, _states(target, new), old, _everywhere).cache()
        counts = {row["_kind"]: row["count"] for row in found.groupBy("_kind").count().collect()}
        names = key_columns(target.key)
        keys = (F.col(name).cast("string").alias(name) for name in names)
        rows = found.select(*keys, "_kind", "_cells").orderBy(*names).limit(MOST_SHOWN).collect()
        found.unpersist()
    return Difference(
        counts.get(MISSING, 0),
        counts.get(UNKNOWN, 0),
        counts.get(CELLS, 0),
        tuple(_shown(target, row) for row in rows),
    )


def go_back(runtime: LakeRuntime, target: Target, commit: Commit) -> int:
    """Makes the commit main's newest one, and pauses the table: otherwise the next batch would apply the later files
    again. Returns how many commits it leaves behind. Raises LakeError for a commit without a position."""
    behind = [one.snapshot for one in commits(runtime, target)].index(commit.snapshot)
    if commit.position is None:
        raise LakeError(
            f"{target.identifier}: commit {commit.snapshot} has no position: maintenance or another writer made "
            "it. Choose one with a position."
        )
    # First, so that no batch comes between the two.
    pause(runtime, target, f"restored to {commit.snapshot}")
    with runtime.sessions.isolated() as spark:
        spark.sql(rollback(runtime.lake.catalog.name, target.identifier, commit.snapshot))
    return behind


def _existing(runtime: LakeRuntime, target: Target) -> Table:
    table = load_table(runtime.catalog, target.identifier)
    if table is None or table.current_snapshot() is None:
        raise LakeError(f"{target.identifier} has no commit yet.")
    return table


def _commit(snapshot: Snapshot, tags: Sequence[str]) -> Commit:
    properties = summary(snapshot)
    batch = [properties[f"{BATCH}{name}"] for name in ("kind", "strategy") if f"{BATCH}{name}" in properties]
    operation = snapshot.summary.operation.value if snapshot.summary is not None else "commit"
    offset = properties.get(LOG_OFFSET)
    return Commit(
        snapshot.snapshot_id,
        committed_at(snapshot),
        ", ".join(batch) or operation,
        None if offset is None else int(offset),
        live_rows(properties),
        tuple(sorted(tags)),
    )


def _states(target: Target, rows: DataFrame) -> DataFrame:
    """The rows as states of their keys."""
    keys = (key.alias(name) for key, name in zip(own_key(target), key_columns(target.key), strict=True))
    return rows.select(*keys, F.lit(False).alias("_tombstone"), table_image(target).alias("_image"))


def _everywhere(keys: Sequence[Column]) -> Column:
    return F.lit(True)


def _shown(target: Target, row: Any) -> str:
    key = key_text(target, row)
    if row["_kind"] == MISSING:
        return f"{key}: new"
    if row["_kind"] == UNKNOWN:
        return f"{key}: gone"
    cells = [
        f"{cell['name']} {shown_value(target, cell['name'], cell['held'])} → "
        f"{shown_value(target, cell['name'], cell['given'])}"
        for cell in row["_cells"]
    ]
    return f"{key}: {', '.join(cells)}" if cells else f"{key}: {many(2, 'row')} with this key"
