"""A lake for one history, and the objects of the history as bytes in its folder.

Here: endpoint settings, lake.yaml, encoding. Not here: the objects' rows (`writer.py`).
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from lake_assets.iceberg.publish import KeptBranches
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets_tests.helpers.files.dms_files import csv_bytes, parquet_bytes, put, transactions_csv
from lake_assets_tests.helpers.lakes.small_lakes import DMS, SPARK, TINY, small_lake
from lake_assets_tests.helpers.oracles.masks import MASKING
from lake_assets_tests.helpers.servers.cheap_spark import with_plain_files
from lake_assets_tests.soak.plan import Plan
from lake_assets_tests.soak.source import COLUMNS
from lake_assets_tests.soak.writer import ITEMS, MARKER, OTHER, Object

TYPES = {"v": "string", "id": "long", "part": "string", "n": "int", "w": "decimal(10, 2)"}
PARQUET = {
    "v": pa.string(),
    "id": pa.int64(),
    "part": pa.string(),
    "n": pa.int32(),
    "w": pa.decimal128(10, 2),
}

SPARK_CONF = {
    "spark.log.level": "OFF",
    "spark.driver.memory": "1g",
    # Unlike those of the tests, these processes live long enough for the second compiler.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:MetaspaceSize=400m",
    # What Spark keeps for its web page, which is off: descriptions of plans, and of jobs of former histories.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": 100,
    "spark.sql.ui.retainedExecutions": 20,
    "spark.ui.retainedJobs": 20,
    "spark.ui.retainedStages": 20,
}
"""Beside what makes small batches fast."""


def settings(plan: Plan) -> dict[str, Any]:
    """The endpoint's."""
    random = Random(f"{plan.seed} endpoint")
    dms = DMS | {
        "include_op_for_full_load": random.random() < 0.5,
        "csv_null_value": random.choice(["NULL", "\\N"]),
        "add_column_name": plan.layout not in ("headerless", "transactions"),
        "change_sequence_column": None if plan.sequences == "none" else "change_seq",
        "before_image_prefix": None if plan.before == "none" else "BI_",
    }
    if plan.partial:
        dms["csv_no_sup_value"] = MARKER
    if plan.layout == "transactions":
        dms |= {"preserve_transactions": True, "cdc_path": "cdc"}
    return dms


def lake(
    plan: Plan,
    folder: Path,
    source: Mapping[str, Any] | None = None,
    *,
    most_quarantined: int = 0,
    also: Sequence[str] | None = None,
) -> Lake:
    """An empty lake with the history's table, which stops at the first bad row. `source`: further settings of the
    source, by default those of the endpoint that writes the history's files. `also`: further shapes."""
    needed = {*plan.key, "n"}
    table: dict[str, Any] = {
        "columns": {name: TYPES[name] + (" not null" if name in needed else "") for name in COLUMNS},
        "full_load_complete": plan.policy,
        "quarantine": {"max_rows": most_quarantined, "max_files": most_quarantined},
        "mask": plan.mask,
        "partition_by": plan.partition_by,
        "kept_when_null": plan.kept,
    }
    if plan.keyed:
        table |= {"primary_key": plan.key, "also": also or (["change_log"] if plan.log_too else [])}
    else:
        table["mode"] = plan.kind
    used = small_lake(
        folder,
        {ITEMS: table},
        source=source or {"dms": settings(plan)},
        automation={"max_files_per_batch": plan.max_files, "rewrite_below_mb": plan.seed % 2},
        spark={"conf": TINY | SPARK_CONF},
        **MASKING,
    )
    if not SPARK:
        with_plain_files(used.runtime.sessions.root())
    # As the continuous run does, in every second pair of histories.
    used.runtime.branches = KeptBranches() if plan.seed // 2 % 2 else None
    return used


def reopened(used: Lake) -> Lake:
    """As another process would open it."""
    found = open_lake(used.config, marts=used.marts)
    found.runtime.branches = KeptBranches() if used.runtime.branches is not None else None
    return found


def quiet(used: Lake) -> Lake:
    """The same lake after enough time without files for every full load to be complete."""
    source = used.config.sources["shop"]
    table = source.tables[ITEMS]
    silent = table.full_load_complete.model_copy(update={"quiet": timedelta(0)})
    tables = {ITEMS: table.model_copy(update={"full_load_complete": silent})}
    sources = {"shop": source.model_copy(update={"tables": tables})}
    return open_lake(used.config.model_copy(update={"sources": sources}), marts=used.marts)


def put_objects(plan: Plan, folder: Path, objects: Sequence[Object]) -> None:
    """Writes them, one after the other."""
    for found in objects:
        put(folder / "bronze", found.key, _bytes(plan, found))


def _bytes(plan: Plan, found: Object) -> bytes:
    dms = settings(plan)
    if found.file.has_transactions:
        layouts: dict[str, tuple[Sequence[str], Sequence[str]]] = {
            ITEMS: (COLUMNS, plan.key),
            OTHER: (["x"], []),
        }
        return transactions_csv(found.file, layouts, dms)
    if not found.sequenced and dms["add_column_name"]:
        dms["change_sequence_column"] = None
    if found.file.name.endswith(".parquet"):
        return parquet_bytes(found.file, COLUMNS, plan.key, dms, PARQUET)
    return csv_bytes(found.file, COLUMNS, plan.key, dms)
