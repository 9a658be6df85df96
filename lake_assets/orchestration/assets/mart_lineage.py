"""Dagster's column lineage of a mart: its columns and the silver columns that they are computed from.

Here: when it is derived, and Dagster's form of it. Not here: reading it from Spark's plan (`gold/plan_lineage.py`).
"""

import logging

import dagster as dg
from pyspark.sql import DataFrame

from lake_assets.gold.mart import Mart
from lake_assets.gold.plan_lineage import UnreadablePlan, column_lineage
from lake_assets.gold.plan_text import explained

LINEAGE = "dagster/column_lineage"

logger = logging.getLogger(__name__)


Lineage = dict[str, dg.TableColumnLineage]
"""Metadata of a materialization: nothing or the lineage."""


def derived_lineage(catalog: str, mart: Mart, frame: DataFrame) -> Lineage:
    """The lineage of the mart's rows, `frame`, whose inputs are tables of `catalog`; nothing if the plan is unreadable.

    Spark plans the mart once more, which takes some tenths of a second.
    """
    keys = {f"{catalog}.{rule.identifier}": dg.AssetKey(mart.silver_key(rule)) for rule in mart.rules}
    try:
        found = column_lineage(explained(frame), frame.columns)
    except UnreadablePlan as error:
        logger.debug("%s has no column lineage, because its plan is unreadable: %s", mart.identifier, error)
        return {}
    lineage = {
        column: [dg.TableColumnDep(keys[table], name) for table, name in sorted(sources) if table in keys]
        for column, sources in found.items()
    }
    return {LINEAGE: dg.TableColumnLineage(lineage)}


def recorded_lineage(instance: dg.DagsterInstance, key: dg.AssetKey, code_version: str | None) -> Lineage:
    """The lineage of the newest materialization; nothing if other code computed it."""
    if code_version is None or code_version != instance.get_latest_materialization_code_versions([key])[key]:
        return {}
    event = instance.get_latest_materialization_event(key)
    materialization = event.asset_materialization if event is not None else None
    value = materialization.metadata.get(LINEAGE) if materialization is not None else None
    return {LINEAGE: value.value} if isinstance(value, dg.TableColumnLineageMetadataValue) else {}
