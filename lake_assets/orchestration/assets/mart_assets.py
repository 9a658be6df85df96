"""Gold in Dagster: every mart as an asset, stored by the Iceberg IO manager.

Here: the asset of a mart, which refuses inputs whose blocking check failed. Not here: what a mart computes, or when
(`orchestration/sensors/mart_sensor.py`).
"""

from collections.abc import Iterable
from typing import Any

import dagster as dg

from lake_assets.config.secrets import secrets_hidden
from lake_assets.errors import NoRowsYet
from lake_assets.gold.mart import Mart
from lake_assets.gold.registry import code_version
from lake_assets.gold.write.write_mart import WriteMode
from lake_assets.orchestration.assets.mart_lineage import recorded_lineage
from lake_assets.orchestration.assets.mart_output import Output
from lake_assets.orchestration.checks.blocking_checks import failed_inputs, silver_keys
from lake_assets.orchestration.io_managers.iceberg_io_manager import (
    IO_MANAGER_KEY,
    KEY,
    SHOW_ROWS,
    SHOWN,
    WRITE_MODE,
    repeating,
)
from lake_assets.orchestration.io_managers.run_partitions import PARTITION_COLUMN
from lake_assets.orchestration.shared.asset_metadata import grouped, table_metadata
from lake_assets.orchestration.shared.first_periods import FirstPeriods
from lake_assets.orchestration.shared.heartbeat import Heartbeat
from lake_assets.orchestration.shared.links import code_link
from lake_assets.orchestration.shared.time_partitions import time_partitions
from lake_assets.runtime import LakeRuntime

OUTSIDE = "rows_outside_partitions"
"""Metadata of a mart's materialization: which rows of its inputs are in none of its partitions."""


def gold_assets(
    runtime: LakeRuntime, marts: Iterable[Mart], first: FirstPeriods, output: Output
) -> list[dg.AssetsDefinition]:
    """One asset for each mart, partitioned by time if the mart is. `output`: what computes them."""
    return [_mart_asset(runtime, mart, first, output) for mart in marts]


def repository_of(
    context: dg.AssetExecutionContext | dg.OpExecutionContext,
) -> dg.RepositoryDefinition | None:
    """The definitions that a run's code is part of; None in a run of `dg.materialize`."""
    try:
        return context.repository_def
    except Exception:  # noqa: BLE001  (Dagster's CheckError has no public name)
        return None


def _backfill_policy(mart: Mart) -> dg.BackfillPolicy:
    if mart.days_per_run is None:
        return dg.BackfillPolicy.single_run()
    return dg.BackfillPolicy.multi_run(mart.days_per_run)


def _mart_asset(runtime: LakeRuntime, mart: Mart, first: FirstPeriods, output: Output) -> dg.AssetsDefinition:
    partitioned = mart.partition_column is not None
    metadata = table_metadata(runtime.lake, mart.identifier, mart.columns, mart.comments) | code_link(mart)
    metadata[SHOW_ROWS] = mart.preview
    if partitioned:
        metadata[PARTITION_COLUMN] = mart.partition_column
    if mart.key:
        metadata |= {WRITE_MODE: WriteMode.DIFFERENCE.value, KEY: list(mart.key)}
    version = code_version(mart)

    @dg.asset(
        key=dg.AssetKey(mart.asset_key),
        deps=silver_keys(mart),
        description=mart.description,
        group_name="gold",
        kinds={"iceberg", "pyspark"},
        owners=list(mart.owners),
        tags={"layer": "gold", **mart.tags},
        metadata=metadata,
        partitions_def=time_partitions(mart.partitions, first.of_mart(mart)) if partitioned else None,
        backfill_policy=_backfill_policy(mart) if partitioned else None,
        io_manager_key=IO_MANAGER_KEY,
        # Its inputs are no parameters: it reads all of them at the snapshots of one view.
        required_resource_keys={IO_MANAGER_KEY},
        code_version=version,
    )
    def compute(context: dg.AssetExecutionContext) -> Any:
        if failed := failed_inputs(context.instance, mart, repository_of(context)):
            raise dg.Failure(
                f"{mart.identifier} is not computed while a check of its inputs fails: {', '.join(failed)}. "
                "Its rows are unchanged.",
                allow_retries=False,
            )
        partitions = None
        if partitioned:
            keys = context.partition_key_range
            partitions = keys.start, keys.end
        # This heartbeat covers the planning; the IO manager's covers computing and writing the rows.
        with (
            Heartbeat(context.instance, context.run.run_id),
            repeating(runtime, mart.identifier),
            secrets_hidden(runtime.lake),
        ):
            known = recorded_lineage(context.instance, context.asset_key, version)
            try:
                done = output(context, runtime, mart, partitions, known)
            except NoRowsYet as error:
                raise dg.Failure(str(error), allow_retries=False) from error
            figures = {**done.figures, "source_now": dg.MetadataValue.timestamp(done.source_now)}
            if done.outside is not None:
                figures[OUTSIDE] = done.outside
                context.log.warning("%s.", done.outside)
            context.add_output_metadata(grouped({**figures, **done.lineage}, {*SHOWN, OUTSIDE}))
            return done.rows

    return compute
