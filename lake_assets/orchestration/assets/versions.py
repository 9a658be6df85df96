"""Dagster's versions of what is computed outside of a step, by which the UI tells what is stale.

A step's materialization has them from Dagster; one that is reported has only those in its tags. Here: these tags, and
the version of a silver table. Not here: which marts the lake computes again (`gold/view.py`), for which Dagster's
history does not matter.
"""

import dagster as dg

from lake_assets.gold.consumption import fingerprint
from lake_assets.gold.mart import Mart
from lake_assets.gold.registry import code_version
from lake_assets.orchestration.checks.blocking_checks import silver_keys
from lake_assets.silver.table.position import Position

CODE, DATA = "dagster/code_version", "dagster/data_version"
INPUT, INPUT_EVENT = "dagster/input_data_version", "dagster/input_event_pointer"
UNVERSIONED, MISSING = "INITIAL", "NULL"
"""What Dagster takes for the version of an event without one, and of an asset without an event."""


def silver_version(position: Position) -> dg.DataVersion:
    """The version of a table at this position, in a step, too: Dagster's own would be new in each run, and make marts
    stale for which nothing has changed."""
    return dg.DataVersion(str(position.snapshot_id))


def silver_versions(position: Position) -> dict[str, str]:
    """The tags of an event of a table at this position. Without them Dagster would take every such event for the same
    data."""
    return {DATA: silver_version(position).value}


def mart_versions(instance: dg.DagsterInstance, mart: Mart) -> dict[str, str]:
    """The tags of an event of the mart: computed by the present code, from the newest rows that are reported."""
    version = code_version(mart)
    if version is None:
        return {}
    tags = {CODE: version}
    for key in silver_keys(mart):
        newest = instance.fetch_materializations(key, limit=1).records
        event = newest[0].asset_materialization if newest else None
        known = (event.tags or {}).get(DATA, UNVERSIONED) if event is not None else MISSING
        tags[f"{INPUT}/{key.to_user_string()}"] = known
        tags[f"{INPUT_EVENT}/{key.to_user_string()}"] = str(newest[0].storage_id) if newest else MISSING
    return tags | {DATA: fingerprint(tags)}
