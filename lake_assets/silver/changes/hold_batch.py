"""Whether a batch's rows can be held in this process, and holding them.

Here: which batches. Not here: reading the rows (`bronze/checked/held_rows.py`), giving them to Spark (`held.py`).
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from lake_assets.bronze.checked import held_rows
from lake_assets.bronze.checked.dms_columns import CheckedFiles
from lake_assets.bronze.checked.staging import Staging
from lake_assets.config import LOGS, Mode
from lake_assets.schema.contract import Contracts
from lake_assets.silver.changes.file_groups import file_groups, has_known_keys, is_current
from lake_assets.silver.changes.held import HeldRows, may_be_held
from lake_assets.silver.changes.masking import masked_images
from lake_assets.silver.plan.parts import Part
from lake_assets.silver.table.targets import Target
from lake_assets.storage.object_store import ObjectStore


def hold_batch(
    spark: SparkSession,
    store: ObjectStore,
    target: Target,
    parts: Sequence[Part],
    contracts: Contracts,
    staging: Staging | None,
) -> tuple[list[CheckedFiles], HeldRows] | None:
    """The checked files, and all rows of the parts, which are whole files. The rows of a change log have their
    operation, time and sequence. None if Spark has to read one of the files: the files are large, a file is of another
    contract, an update lacks columns, or a value needs Spark."""
    groups = file_groups(parts, contracts)
    may_hold = is_current if target.mode in LOGS else has_known_keys
    if not all(may_hold(group.version, contracts, target) for group in groups):
        return None
    if sum(part.file.size for part in parts) > held_rows.MOST_BYTES:
        return None
    found: list[CheckedFiles] = []
    by_file: dict[int, pa.Table] = {}
    for group in groups:
        contract = group.version.contract
        table = contract.table(target.config, group.gone)
        held = held_rows.held_files(
            store,
            group.files,
            name=target.table,
            table=table,
            dms=contract.dms,
            with_dms_columns=target.mode is Mode.CHANGE_LOG,
        )
        if held is None:
            return None
        for one in held:
            found.append(one.checked)
            by_file |= one.checked.by_file(one.images)
    if not all(part.file.offset in by_file for part in parts):
        return None  # a file is there twice
    ordered = [by_file[part.file.offset] for part in parts]
    images = masked_images(pa.concat_tables(ordered), target.config.mask, target.salt)
    if not may_be_held(images, staging):
        return None
    return found, HeldRows(spark, images, target.key, staging)
