"""A silver table at its former commits: `lake-assets snapshots`, `diff` and `restore --to`.

Here: the commits that a table still has, the rows that differ between two of them, and going back. Not here: options
and output (`time_cli.py`), undoing the commits of other writers (`restore.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.config import Mode
from lake_assets.errors import LakeError
from lake_assets.iceberg.publish import begun_at, drop_branch
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
from lake_assets.silver.table.masks import other_masks
from lake_assets.silver.table.pause import pause
from lake_assets.silver.table.position import (
    BATCH,
    CONTRACT_VERSION,
    LOG_OFFSET,
    MASKS,
    Position,
    read_position,
)
from lake_assets.silver.table.shape import SHAPE
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import quoted, table_address
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
    """The rows that differ, each compared by its key, or as a whole where the table's rows have none. Columns that one
    of the two commits, or the table, does not have are left out."""
    table = _existing(runtime, target)
    with runtime.sessions.isolated() as spark:
        old, new = (
            spark.sql(table_at(runtime.lake.catalog.name, target.identifier, commit.snapshot)).select(
                *(F.col(quoted(name)).alias(today) for name, today in _names_of_today(table, commit))
            )
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


def _names_of_today(table: Table, commit: Commit) -> list[tuple[str, str]]:
    """The commit's columns that the table still has: the name at that time, and today's, which a rename may have
    changed."""
    today = {field.field_id: field.name for field in table.schema().fields}
    snapshot = table.snapshot_by_id(commit.snapshot)
    schema_id = snapshot.schema_id if snapshot is not None else None
    schema = table.schemas().get(schema_id, table.schema()) if schema_id is not None else table.schema()
    return [(field.name, today[field.field_id]) for field in schema.fields if field.field_id in today]


def go_back(runtime: LakeRuntime, target: Target, commit: Commit) -> int:
    """Makes the commit main's newest one, and pauses the table: otherwise the next batch would apply the later files
    again. Returns how many commits it leaves behind. Raises LakeError for a commit without a position, or whose rows
    have another mode or other masks than lake.yaml says, and if a batch was published meanwhile."""
    table = _existing(runtime, target)
    chain = main_chain(table)
    behind = next((n for n, one in enumerate(chain) if one.snapshot_id == commit.snapshot), None)
    if behind is None:
        raise LakeError(f"{target.identifier} does not have commit {commit.snapshot} any more: run it again.")
    if commit.position is None:
        raise LakeError(
            f"{target.identifier}: commit {commit.snapshot} has no position: maintenance or another writer made "
            "it. Choose one with a position."
        )
    read_position(table)  # raises NewerFormat
    _refuse_other_rows(runtime, target, commit, summary(chain[behind]))
    # First, so that no batch comes between the two.
    pause(runtime, target, f"restored to {commit.snapshot}")
    catalog = runtime.lake.catalog.name
    with runtime.sessions.isolated() as spark:
        spark.sql(rollback(catalog, target.identifier, commit.snapshot))
        # A batch under way began above the commit, so Iceberg would let it move main there again.
        for branch in filter(begun_at, _existing(runtime, target).metadata.refs):
            drop_branch(spark, table_address(catalog, target.identifier), branch)
    if _existing(runtime, target).metadata.current_snapshot_id != commit.snapshot:
        raise LakeError(
            f"{target.identifier}: a batch was published meanwhile. The table is paused: run it again."
        )
    return behind


def _refuse_other_rows(
    runtime: LakeRuntime, target: Target, commit: Commit, given: Mapping[str, str]
) -> None:
    """Raises LakeError for a commit with this summary whose rows lake.yaml would not make of the files any more: only
    the table, not a commit, has a mode, and plain values must not show again."""
    made = Position(
        masks=given.get(MASKS, ""), rows=commit.rows, contract_version=int(given.get(CONTRACT_VERSION, "0"))
    )
    why = ""
    if given.get(SHAPE, target.mode) != target.mode:
        why = f"mode: {given[SHAPE]}"
    elif other_masks(target, made, runtime.contracts.of(target.identifier)) is not None:
        why = "other masks"
    if why:
        raise LakeError(
            f"{target.identifier}: the rows of commit {commit.snapshot} were made with {why}. Choose a commit since "
            "the rebuild."
        )


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
