"""Which snapshots may go, as a table of cases over metadata made by hand: real commits, with times of their own.

Not here: expiring them (`silver/test_maintenance.py`).
"""

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType

from lake_assets.config import MaintenanceConfig, parse_duration
from lake_assets.iceberg.upkeep import retention
from lake_assets.iceberg.upkeep.retention import expirable

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
ROWS = pa.table({"id": pa.array([1], pa.int64())})
AGES = (72, 48, 24, 10, 3, 1, 0.1)
"""Hours since each of main's snapshots was committed, the oldest first."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    folder = tmp_path_factory.mktemp("retention")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("gold")
    table = catalog.create_table("gold.t", ROWS.schema)
    for _ in AGES:
        table.append(ROWS)
    aged = [
        snapshot.model_copy(update={"timestamp_ms": int((NOW - timedelta(hours=age)).timestamp() * 1000)})
        for snapshot, age in zip(table.metadata.snapshots, AGES, strict=True)
    ]
    return with_metadata(table, snapshots=aged)


def with_metadata(table: Table, **changed: Any) -> Table:
    metadata = table.metadata.model_copy(update=changed)
    return Table(("gold", "t"), metadata, table.metadata_location, table.io, table.catalog)


def gone(
    table: Table,
    stamped: int | None = None,
    consumed: tuple[int | None, ...] = (),
    keep_commits: int | None = None,
    keep_snapshots: str = "0s",
    keep_for_marts: str = "0s",
    max_snapshots: int = 1000,
) -> list[int]:
    """The places (0 is the oldest) of what may go."""
    ids = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    kept_for_marts = parse_duration(keep_for_marts)
    with patch.multiple(retention, KEPT_FOR_MARTS=kept_for_marts, MAX_SNAPSHOTS=max_snapshots):
        found = expirable(
            table,
            MaintenanceConfig(keep_snapshots=parse_duration(keep_snapshots)),
            NOW,
            stamped=None if stamped is None else ids[stamped],
            consumed=[None if place is None else ids[place] for place in consumed],
            keep_commits=keep_commits,
        )
    return [ids.index(number) for number in found]


CASES: dict[str, tuple[dict[str, Any], list[int]]] = {
    "so many commits": (
        {"keep_commits": 3, "keep_snapshots": "7d"},
        [0, 1, 2, 3],
    ),
    "so many commits, and what a mart has yet to consume": (
        {"keep_commits": 2, "consumed": (2,), "keep_snapshots": "7d"},
        [0, 1, 2],
    ),
    "so many commits, and the position": (
        {"keep_commits": 1, "stamped": 4, "keep_snapshots": "7d"},
        [0, 1, 2, 3],
    ),
    "only the head": ({}, [0, 1, 2, 3, 4, 5]),
    "down to the one with the position": ({"stamped": 3}, [0, 1, 2]),
    "the position is in the head": ({"stamped": 6}, [0, 1, 2, 3, 4, 5]),
    "the cap does not cut the position off": ({"stamped": 2, "max_snapshots": 1}, [0, 1]),
    # The snapshot of three hours ago was what readers saw until one hour ago.
    "superseded within two hours": ({"keep_snapshots": "2h"}, [0, 1, 2, 3]),
    "at most two": ({"keep_snapshots": "2h", "max_snapshots": 2}, [0, 1, 2, 3, 4]),
    "what a mart has yet to consume": ({"consumed": (2,), "keep_for_marts": "7d"}, [0, 1, 2]),
    "of two marts the one that is behind": ({"consumed": (5, 1), "keep_for_marts": "7d"}, [0, 1]),
    "a mart that has consumed everything": ({"consumed": (6,), "keep_for_marts": "7d"}, [0, 1, 2, 3, 4, 5]),
    "a mart that is too far behind": ({"consumed": (0,), "keep_for_marts": "5h"}, [0, 1, 2]),
    "a mart does not lift the cap": (
        {"consumed": (0,), "keep_for_marts": "7d", "max_snapshots": 3},
        [0, 1, 2, 3],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_main(table: Table, case: str) -> None:
    arguments, expected = CASES[case]
    assert gone(table, **arguments) == expected


def test_a_mart_that_has_never_been_computed(table: Table) -> None:
    # The first snapshots have expired.
    later = with_metadata(table, snapshots=table.metadata.snapshots[2:])
    ages: dict[str, Any] = {"keep_snapshots": "7d"}
    assert gone(later, consumed=(None, 3), keep_commits=2, **ages) == []
    assert gone(later, consumed=(3,), keep_commits=2, **ages) == [0, 1, 2]
    assert gone(later, consumed=(None,), keep_commits=2, max_snapshots=4, **ages) == [0]


def test_tags_keep_one_snapshot_and_branches_their_own(table: Table) -> None:
    snapshots = list(table.metadata.snapshots)
    new = [
        snapshots[2].model_copy(
            update={"snapshot_id": number, "parent_snapshot_id": parent, "sequence_number": number}
        )
        for number, parent in ((100, snapshots[1].snapshot_id), (101, 100), (102, 101))
    ]
    ref = table.metadata.refs["main"]
    tag = {"snapshot_id": snapshots[4].snapshot_id, "snapshot_ref_type": SnapshotRefType.TAG}
    refs = {
        "main": ref,
        "audit": ref.model_copy(update=tag),
        "apply_1": ref.model_copy(update={"snapshot_id": 101}),
    }
    changed = with_metadata(table, snapshots=[*snapshots, *new], refs=refs)
    # Of the branch, what it started from and its own two; the third lost its branch, and is older than is kept.
    assert gone(changed) == [0, 2, 3, 5, 9]
    assert gone(changed, keep_snapshots="25h") == [0]
    assert 9 not in gone(changed, keep_snapshots="25h"), "somebody may look at it"


def test_a_table_without_snapshots(table: Table) -> None:
    assert gone(with_metadata(table, snapshots=[], refs={}, current_snapshot_id=None)) == []
