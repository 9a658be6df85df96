"""The rows of a batch as DataFrames, wherever they are: decoded by this process, staged, or left to Spark.

Here: by group of files, in silver's columns, masked. Not here: which way is taken (`reading.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.checked.staging import Staging
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.reader.places import in_places
from lake_assets.bronze.reader.read_changes import changes_by_spark, decoded_frame, staged_frame
from lake_assets.config import KEYED_MODES
from lake_assets.schema.contract import Contracts
from lake_assets.schema.images import to_current_contract
from lake_assets.silver.changes.file_groups import FileGroup, is_current, names_today
from lake_assets.silver.changes.masking import masked, masked_changes
from lake_assets.silver.changes.row_cut import ALL_ROWS, RowCut
from lake_assets.silver.changes.stage_texts import StagedTexts
from lake_assets.silver.table.targets import Target
from lake_assets.storage.object_store import ObjectStore


@dataclass(frozen=True)
class Frames:
    """The rows of a batch's groups of files."""

    spark: SparkSession
    store: ObjectStore
    target: Target
    contracts: Contracts
    groups: Sequence[FileGroup]
    cut: RowCut
    staging: Staging
    decoded: Sequence[pa.Table] | None
    """By group, its changes, if this process has decoded all."""
    staged: Sequence[StagedTexts | None]
    """By group, its text files, if this process has staged them; empty if it has staged none."""
    checked: bool
    """Whether every operation, time and sequence is known to be usable."""

    def of_groups(self, *, explain: bool = False) -> list[tuple[Sequence[LoggedFile], DataFrame]]:
        """The files of each group, with their rows."""
        store = self.store
        found: list[tuple[Sequence[LoggedFile], DataFrame]] = []
        nothing = [None] * len(self.groups)
        for group, decoded, staged in zip(
            self.groups, self._given or nothing, self.staged or nothing, strict=True
        ):
            rows = self._read(group, decoded, staged, explain=explain)
            if group.which != "all":
                places = {
                    store.spark_uri(path): {place for part in parts for place in (part.only or part.without)}
                    for path, parts in group.by_path.items()
                }
                rows = in_places(self.spark, rows, places, others=group.which == "without")
            if self.cut is not ALL_ROWS:
                rows = rows.withColumn("_side", self.cut.side(reopened=group.reopened))
            found.append((group.files, rows))
        return found

    @cached_property
    def _given(self) -> Sequence[pa.Table] | None:
        """By group, its changes as Spark gets them; None unless this process has decoded all."""
        if self.decoded is None:
            return None
        target = self.target
        return [
            masked_changes(changes, group.table(target.config), target.config.mask, target.salt)
            for group, changes in zip(self.groups, self.decoded, strict=True)
        ]

    def _read(
        self, group: FileGroup, decoded: pa.Table | None, staged: StagedTexts | None, *, explain: bool
    ) -> DataFrame:
        spark, target = self.spark, self.target
        table = group.table(target.config)
        frames = []
        if decoded is not None:
            frames.append(decoded_frame(spark, decoded, table, self.staging))
        elif staged is not None:
            of_schema = staged.tables.items()
            frames += [staged_frame(spark, schema, rows, table) for schema, rows in of_schema]
        frames = [self._today(frame, group) for frame in frames]
        others = group.files if staged is None else staged.others(group.files)
        if decoded is None and others:
            changes = changes_by_spark(
                spark,
                self.store,
                others,
                name=target.table,
                table=table,
                dms=group.version.contract.dms,
                partial=target.mode in KEYED_MODES,
                explain=explain,
                checked=self.checked,
            )
            # By today's names: also of a file that was written before its column was masked or renamed.
            today = self._today(changes, group)
            frames.append(masked(today, target.config.mask, target.matched_by, target.salt))
        return reduce(union, frames)

    def _today(self, changes: DataFrame, group: FileGroup) -> DataFrame:
        """The group's changes in silver's columns."""
        target, version = self.target, group.version
        if is_current(version, self.contracts, target):
            return changes
        return to_current_contract(
            changes,
            version.contract.columns,
            names_today(version, self.contracts, target),
            target.image_columns,
            target.matched_by,
            target.config.defaults,
        )


def union(one: DataFrame, other: DataFrame) -> DataFrame:
    """The union. Only contracts with a marker for values that are not supplied have the column `_unsupplied`."""
    both = one.unionByName(other, allowMissingColumns=True)
    if one.columns == other.columns or "_unsupplied" not in both.columns:
        return both
    return both.withColumn("_unsupplied", F.coalesce("_unsupplied", F.array().cast("array<string>")))
