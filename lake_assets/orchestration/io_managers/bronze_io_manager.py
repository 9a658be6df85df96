"""The bronze IO manager: a day, or a range of days, of a table's DMS files as a typed PySpark DataFrame.

For assets that need the changes themselves rather than silver's rows. It stores nothing: DMS writes bronze.
"""

import atexit
from datetime import UTC, datetime

import dagster as dg
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.decode.recount import counted
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.day_totals import files_of_days
from lake_assets.bronze.reader.staging import Staging
from lake_assets.iceberg.table_io import column_ddl
from lake_assets.orchestration.shared.asset_keys import bronze_key
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.contract import Contracts, ContractVersion, contract_of
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.plan.parts import parts_of
from lake_assets.silver.table.targets import lake_targets
from lake_assets.spark.sql import Sql, joined

CHANGE_COLUMNS = Sql(
    "_op string, _commit_ts timestamp, _sequence string, _file string, _row bigint, _bad string"
)


class BronzeIOManager(dg.IOManager):
    """Loads the changes of the partitions that an asset's run maps to.

    Columns: `_op` string, `_commit_ts` timestamp (UTC), `_sequence` string, `_file` string, `_row` long, `_bad` string
    (all reasons why a row cannot be used, else NULL), and the table's columns with their declared types, masked as in
    silver. If the table has masks, these columns are NULL in a row that cannot be used. Days without a file have no
    rows. Only logged files are read; the sensor or `lake-assets sync` logs them.
    """

    def __init__(self, runtime: LakeRuntime) -> None:
        self._runtime = runtime

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        raise dg.DagsterInvariantViolationError(
            f"{context.asset_key.to_user_string()}: bronze is written by DMS; store this asset with another IO manager"
        )

    def load_input(self, context: dg.InputContext) -> DataFrame:
        source_name, table = self._table(context.asset_key)
        source = self._runtime.lake.sources[source_name]
        first, last = None, None
        if context.has_asset_partitions:
            keys = context.asset_partition_key_range
            first, last = keys.start, keys.end
        spark, store = self._runtime.sessions.root(), self._runtime.store(source_name)
        records = self._runtime.file_log.files(source_name, table)
        logged = files_of_days([f for f in records if f.kind is not FileKind.VANISHED], first, last)
        if not logged:
            columns = (
                column_ddl(column.model_copy(update={"required": False}))
                for column in source.tables[table].columns
            )
            return spark.createDataFrame([], joined(", ", (CHANGE_COLUMNS, *columns)))
        dms, config = source.settings(table), source.tables[table]
        files = [counted(store, file, dms, source.tables) for file in logged]
        target = next(
            one
            for one in lake_targets(self._runtime.lake)
            if one.table == table and one.source == source_name
        )
        contract = contract_of(config, dms)
        today = ContractVersion(1, 0, contract, "lake.yaml", contract, datetime.now(UTC))
        staging = Staging(self._runtime.catalog, self._runtime.lake.catalog.name)
        # Nobody says when the asset has read its rows.
        atexit.register(staging.clear)
        reading = Reading(
            spark, store, target, parts_of(files), Contracts((today,)), staging=staging, spark_reads=False
        )
        changes = reading.changes
        if config.mask:
            # In a row that does not fit, a masked value may be in the place of another.
            changes = changes.withColumn("_image", F.when(F.col("_bad").isNull(), F.col("_image")))
        return changes.select("_op", "_commit_ts", "_sequence", "_file", "_row", "_bad", "_image.*")

    def _table(self, key: dg.AssetKey) -> tuple[str, str]:
        lake = self._runtime.lake
        for name, source in lake.sources.items():
            for table in source.tables:
                if bronze_key(lake, name, table) == key:
                    return name, table
        raise dg.DagsterInvariantViolationError(f"{key.to_user_string()} is not a bronze table of this lake")
