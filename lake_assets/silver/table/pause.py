"""Pausing a silver table: its files wait, and what has been applied stays.

The pause is a property of the table itself, which every plan loads anyway. Here: writing and reading it. Not here: the
plan of a paused table (`silver/plan/table_state.py`), the commands (`commands/history/time_cli.py`).
"""

from datetime import UTC, datetime

from pyiceberg.table import Table

from lake_assets.errors import LakeError
from lake_assets.iceberg.table_io import load_table, set_property
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import Sql, literal, sql, table_address

PAUSED = "lake.paused"
"""Table property: since when the table is paused, ISO 8601 UTC, and why."""


def pause_of(table: Table | None) -> str:
    """The table's pause, as the property has it; empty if it is not paused."""
    return table.properties.get(PAUSED, "") if table is not None else ""


def waiting_sentence(target: Target, pause: str) -> str:
    """Why a paused table waits."""
    since, _, reason = pause.partition(" ")
    why = f" ({reason})" if reason else ""
    return (
        f"it is paused since {since[:16].replace('T', ' ')} UTC{why}: `lake-assets resume {target.identifier}` has it "
        "go on"
    )


def pause(runtime: LakeRuntime, target: Target, reason: str) -> None:
    """Pauses the table; a batch under way is still published. Raises LakeError if there is no table yet."""
    if load_table(runtime.catalog, target.identifier) is None:
        raise LakeError(f"{target.identifier} does not exist yet: there is nothing to pause.")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    _alter(runtime, target, set_property(PAUSED, f"{now} {reason}".rstrip()))


def resume(runtime: LakeRuntime, target: Target) -> bool:
    """Lets the table go on; returns whether it was paused."""
    was_paused = bool(pause_of(load_table(runtime.catalog, target.identifier)))
    if was_paused:
        _alter(runtime, target, sql("UNSET TBLPROPERTIES IF EXISTS ({name})", name=literal(PAUSED)))
    return was_paused


def _alter(runtime: LakeRuntime, target: Target, change: Sql) -> None:
    address = table_address(runtime.lake.catalog.name, target.identifier)
    with runtime.sessions.isolated() as spark:
        # PyIceberg does not write metadata of format version 3.
        spark.sql(sql("ALTER TABLE {table} {change}", table=address, change=change))
