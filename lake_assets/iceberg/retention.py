"""Which snapshots of a table may go.

Here: the decision, over a table's metadata; it reads nothing and changes nothing. Not here: expiring them
(`table_maintenance.py`).

The ids to expire are named one by one. By an age alone, a snapshot that another process commits between the look and
the expiry could push the one that bears the position over the edge.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from lake_assets.config import MaintenanceConfig
from lake_assets.iceberg.table_io import committed_at

MAIN = "main"


def main_chain(table: Table) -> list[Snapshot]:
    """Main's snapshots, the newest first, as far as they are there."""
    return list(chain(snapshots_by_id(table), table.metadata.current_snapshot_id))


def chain(known: Mapping[int, Snapshot], start: int | None) -> Iterator[Snapshot]:
    """The snapshot of that id, its parent, and so on, as far as they are known."""
    snapshot = known.get(start) if start is not None else None
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = known.get(parent) if parent is not None else None


def snapshots_by_id(table: Table) -> dict[int, Snapshot]:
    """All snapshots at once: asking the table for each of a thousand searches a thousand each time."""
    return {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}


def expirable(
    table: Table,
    settings: MaintenanceConfig,
    now: datetime,
    *,
    bearer: int | None = None,
    consumed: Collection[int] = (),
    keep_commits: int | None = None,
) -> list[int]:
    """Ids of the snapshots that nothing needs any more, the oldest first.

    Kept are: main's head and all down to `bearer`, the snapshot with the properties that must survive; what was
    superseded recently, or comes after a snapshot of `consumed` and was superseded not too long ago, up to
    `max_snapshots`; what tags point to; the own commits of other branches, and what they started from. `keep_commits`:
    of what nothing of `consumed` comes before, so many at most.
    """
    known = snapshots_by_id(table)
    kept = {
        s.snapshot_id for s in _kept_of_main(main_chain(table), settings, now, bearer, consumed, keep_commits)
    }
    of_main = {s.snapshot_id for s in main_chain(table)}
    referenced = set()
    for name, ref in table.metadata.refs.items():
        if name == MAIN:
            continue
        if ref.snapshot_ref_type is SnapshotRefType.TAG:
            referenced.add(ref.snapshot_id)
            continue
        for snapshot in chain(known, ref.snapshot_id):
            referenced.add(snapshot.snapshot_id)
            if snapshot.snapshot_id in of_main:
                break
    # What no branch leads to: attempts that lost. Somebody may be looking at a young one.
    young = {
        s.snapshot_id
        for s in known.values()
        if s.snapshot_id not in of_main and now - committed_at(s) < settings.keep_snapshots
    }
    gone = [s for s in known.values() if s.snapshot_id not in kept | referenced | young]
    return [s.snapshot_id for s in sorted(gone, key=lambda s: s.sequence_number or 0)]


def _kept_of_main(
    main: list[Snapshot],
    settings: MaintenanceConfig,
    now: datetime,
    bearer: int | None,
    consumed: Collection[int],
    keep_commits: int | None,
) -> list[Snapshot]:
    places = {snapshot.snapshot_id: place for place, snapshot in enumerate(main)}
    up_to_bearer = places.get(bearer, 0) if bearer is not None else 0
    # What a mart has consumed may itself go: the commits after it are what it needs.
    unconsumed = 0
    for place, snapshot in enumerate(main):
        if snapshot.parent_snapshot_id in consumed:
            unconsumed = place
    kept = []
    for place, snapshot in enumerate(main):
        age = now - committed_at(main[place - 1]) if place else timedelta(0)
        limit, most = settings.keep_for_marts, settings.max_snapshots
        if place > unconsumed:
            limit, most = settings.keep_snapshots, min(most, keep_commits or most)
        wanted = place == 0 or (age < limit and place < most)
        if not wanted and place > up_to_bearer:
            break
        kept.append(snapshot)
    return kept
