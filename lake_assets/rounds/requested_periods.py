"""Partitions of a mart that a user wants computed again: they become pending in the mart's own commit.

The next run of any kind computes what is pending, and so continues a backfill that was killed. Here: which partitions a
user means, and that commit. Not here: computing them (`orchestration/backfill.py`).
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from lake_assets.config import LakeConfig
from lake_assets.errors import ApplyConflict, LakeError
from lake_assets.gold.consumption import read_consumption
from lake_assets.gold.mart import Mart
from lake_assets.gold.periods.grain import Period, between
from lake_assets.gold.table_snapshots import snapshot_of_rows
from lake_assets.iceberg.publish import attempt
from lake_assets.iceberg.table_io import current_snapshot, load_table, summary
from lake_assets.runtime import LakeRuntime

ATTEMPTS = 10


def asked_periods(
    lake: LakeConfig, marts: Iterable[Mart], name: str, first: str, last: str
) -> tuple[Mart, list[Period]]:
    """The mart of this name, and its partitions between two keys. Raises LakeError if there is no such mart, or if it
    does not have all of these partitions."""
    by_name = {mart.name: mart for mart in marts if mart.partition_column is not None}
    if (mart := by_name.get(name.removeprefix("gold.").removeprefix("gold/"))) is None:
        raise LakeError(
            f"There is no mart {name} with partitions; there are {', '.join(sorted(by_name)) or 'none'}."
        )
    grain = mart.partitions
    earliest, present = grain.of(lake.gold.start_date), grain.of(datetime.now(UTC))
    try:
        begin, end = (grain.of(grain.of_key(key)) for key in (first, last))
    except ValueError as error:
        raise LakeError(
            f"{first} and {last} must be keys of partitions by {grain}, such as {grain.key(earliest)}."
        ) from error
    if not earliest <= begin <= end <= present:
        raise LakeError(
            f"{mart.identifier} has no partitions from {first} to {last}: the first one is {grain.key(earliest)} "
            f"(gold.start_date), the last one the present {grain}."
        )
    return mart, between(grain, begin, end)


def request_periods(runtime: LakeRuntime, mart: Mart, first: Period, last: Period) -> int:
    """Makes the partitions from first to last pending, by a commit without rows, and returns how many there are. Raises
    LakeError for a mart that has not been computed yet, and ApplyConflict if others write to it all the time."""
    wanted = frozenset(between(mart.partitions, first, last))
    policy = Retrying(
        retry=retry_if_exception_type(ApplyConflict),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random(0.2, 2),
        reraise=True,
    )
    policy(_request, runtime, mart, wanted)
    return len(wanted)


def _request(runtime: LakeRuntime, mart: Mart, wanted: frozenset[Period]) -> None:
    table = load_table(runtime.catalog, mart.identifier)
    head, state = current_snapshot(table), read_consumption(summary(snapshot_of_rows(table)))
    if head is None or not state.snapshots or state.grain is not mart.partitions:
        raise LakeError(
            f"{mart.identifier}: all of its partitions are to be computed already. Run `lake-assets sync`."
        )
    asked = replace(state, pending=state.pending | wanted)
    with (
        runtime.sessions.isolated() as spark,
        attempt(spark, runtime.lake.catalog.name, mart.identifier, head.snapshot_id, table=table) as current,
    ):
        current.publish_nothing(runtime.catalog, asked.properties(), head.snapshot_id)
