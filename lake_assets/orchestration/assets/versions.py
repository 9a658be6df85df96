"""Dagster's data versions of what is computed outside of a step. The UI tells by them what is stale.

Dagster adds versions to the materialization of a step. A materialization that is only reported has no versions but
those in its tags. Here: these tags, and the version of a silver table. Not here: which marts the lake computes again,
which does not depend on Dagster's history (`gold/view.py`).
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
"""Dagster's version of an event that names none, and of an asset without an event."""


def silver_version(position: Position) -> dg.DataVersion:
    """The version of a table at this position. Steps set it, too: Dagster's own version would be new in each run, and
    make marts stale although nothing has changed."""
    return dg.DataVersion(str(position.snapshot_id))


def silver_versions(position: Position) -> dict[str, str]:
    """The tags of an event of a table at this position. Without them, Dagster would assume that all such events have
    the same data."""
    return {DATA: silver_version(position).value}


def mart_versions(instance: dg.DagsterInstance, mart: Mart) -> dict[str, str]:
    """The tags of an event of the mart. They say that the present code computed it from the newest reported rows of
    silver."""
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
