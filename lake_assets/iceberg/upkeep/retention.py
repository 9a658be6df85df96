"""Which snapshots of a table may expire.

Here: the decision, over a table's metadata; it reads nothing and changes nothing. Not here: expiring them
(`table_maintenance.py`).

The ids to expire are named one by one. By an age alone, Iceberg could expire the snapshot that has the position, if
another process commits between the decision and the expiry.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from lake_assets.config import MaintenanceConfig
from lake_assets.iceberg.table_io import committed_at

MAIN = "main"
KEPT_FOR_MARTS = timedelta(days=7)
"""How long a snapshot that a mart has not consumed yet is kept at least; without it, the mart recomputes all days."""
MAX_SNAPSHOTS = 1000
"""The most snapshots of main that are kept, whatever their age: every commit rewrites the list of them."""


def main_chain(table: Table) -> list[Snapshot]:
    """Main's snapshots, the newest first, as far as they are retained."""
    return list(chain(table, table.metadata.current_snapshot_id))


def chain(table: Table, start: int | None) -> Iterator[Snapshot]:
    """The snapshot with that id, its parent, and so on, as far as they are retained."""
    return _chain(snapshots_by_id(table), start)


def _chain(known: Mapping[int, Snapshot], start: int | None) -> Iterator[Snapshot]:
    snapshot = known.get(start) if start is not None else None
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = known.get(parent) if parent is not None else None


def snapshots_by_id(table: Table) -> dict[int, Snapshot]:
    """All snapshots by id: `table.snapshot_by_id` searches all of them for each call."""
    return {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}


def expirable(
    table: Table,
    settings: MaintenanceConfig,
    now: datetime,
    *,
    stamped: int | None = None,
    consumed: Collection[int | None] = (),
    keep_commits: int | None = None,
) -> list[int]:
    """Ids of the snapshots that nothing needs any more, the oldest first.

    Kept are:
    - main's head, and all snapshots down to `stamped`, whose properties must survive;
    - at most MAX_SNAPSHOTS of main: those superseded within `keep_snapshots`, and those superseded within
      KEPT_FOR_MARTS if they follow a snapshot of `consumed`, or if `consumed` has None;
    - tagged snapshots;
    - the own commits of other branches, and the snapshots from which these branches start;
    - snapshots outside of main that are younger than `keep_snapshots`.

    `keep_commits`: keeps at most so many snapshots that all of `consumed` have passed.
    """
    known, main = snapshots_by_id(table), main_chain(table)
    kept = {s.snapshot_id for s in _kept_of_main(main, settings, now, stamped, consumed, keep_commits)}
    of_main = {s.snapshot_id for s in main}
    referenced = set()
    for name, ref in table.metadata.refs.items():
        if name == MAIN:
            continue
        if ref.snapshot_ref_type is SnapshotRefType.TAG:
            referenced.add(ref.snapshot_id)
            continue
        for snapshot in _chain(known, ref.snapshot_id):
            referenced.add(snapshot.snapshot_id)
            if snapshot.snapshot_id in of_main:
                break
    # Snapshots that no branch leads to are of lost attempts. A reader may still use a young one.
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
    stamped: int | None,
    consumed: Collection[int | None],
    keep_commits: int | None,
) -> list[Snapshot]:
    places = {snapshot.snapshot_id: place for place, snapshot in enumerate(main)}
    up_to_stamped = places.get(stamped, 0) if stamped is not None else 0
    # The snapshot that a mart has consumed may expire: the mart needs the commits after it. A mart that has never been
    # computed may be reading any of them.
    unconsumed = len(main) - 1 if None in consumed else 0
    for place, snapshot in enumerate(main):
        if snapshot.parent_snapshot_id in consumed:
            unconsumed = max(unconsumed, place)
    kept = []
    for place, snapshot in enumerate(main):
        age = now - committed_at(main[place - 1]) if place else timedelta(0)
        limit, most = max(settings.keep_snapshots, KEPT_FOR_MARTS), MAX_SNAPSHOTS
        if place > unconsumed:
            limit, most = settings.keep_snapshots, min(most, keep_commits or most)
        wanted = place == 0 or (age < limit and place < most)
        if not wanted and place > up_to_stamped:
            break
        kept.append(snapshot)
    return kept
