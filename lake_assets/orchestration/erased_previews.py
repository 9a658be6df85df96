"""Removing the rows that Dagster's events show of some assets.

A materialization shows the first rows of its commit, and Dagster keeps it for long. Here: the rows are replaced in
Dagster's storage; the events stay. Not here: making previews (`shared/preview.py`).
"""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import dagster as dg
from sqlalchemy.engine import make_url

from lake_assets.errors import LakeError
from lake_assets.orchestration.dagster_private import replace_in_events
from lake_assets.orchestration.shared.preview import PREVIEW

ERASED = "erased"
"""What an event shows in their place."""


def forget_previews(instance: dg.DagsterInstance, assets: Sequence[tuple[str, ...]]) -> None:
    """Replaces the previews in every event of these assets, and of the runs that made them. Raises LakeError if this
    release of Dagster stores events in a way that is not known."""
    databases = replace_in_events(instance, [dg.AssetKey(asset) for asset in assets], without_previews)
    if databases is None:
        raise LakeError(
            f"Dagster {dg.__version__} stores events in a way that is not known, so that its previews cannot be "
            "erased. Wipe the assets (dagster asset wipe), and run it again."
        )
    for database in map(make_url, databases):
        if database.get_backend_name() == "sqlite" and database.database not in (None, "", ":memory:"):
            # A page that is not used any more keeps its bytes.
            with closing(sqlite3.connect(str(database.database), timeout=60)) as file:
                file.execute("VACUUM")
                file.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def without_previews(event: str) -> str:
    """A stored event without the rows that it shows; as it is if it shows none."""
    if PREVIEW not in event:
        return event
    return json.dumps(_without(json.loads(event)))


def _without(value: Any) -> Any:
    if isinstance(value, list):
        return [_without(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.get("label") == PREVIEW and isinstance(entry := value.get("entry_data"), dict):
        return {**value, "entry_data": {**entry, "md_str": ERASED}}
    return {name: _without(one) for name, one in value.items()}
