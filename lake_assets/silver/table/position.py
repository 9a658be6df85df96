"""The position of a silver table, read from the table's own commits.

The snapshot that has a batch's rows has the position in its summary, so that the two cannot disagree. Here: the
property names, reading and writing them. Not here: deciding what to apply next (`silver/plan/planner.py`).
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lake_assets.errors import LakeError, Remedy
from lake_assets.iceberg.lake_format import FORMAT, FORMAT_VERSION, refuse_newer
from lake_assets.iceberg.metadata_files import SOURCE_TABLE
from lake_assets.iceberg.table_io import current_snapshot, live_rows, summary
from lake_assets.iceberg.upkeep.restamp import StampRule
from lake_assets.silver.table.log_mark import LogMark
from lake_assets.silver.table.pause import pause_of
from lake_assets.words import many

LOG_OFFSET = "lake.log-offset"
MAX_SEQUENCE = "lake.max-sequence"
EPOCH = "lake.epoch"
MAX_COMMIT_TS = "lake.max-commit-ts"
CONTRACT_VERSION = "lake.contract-version"
CUT = "lake.cut"
CUT_WAITING = "lake.cut-waiting"
TOUCHED_DAYS = "lake.touched-days."
"""Prefix; the rest is a column's name in lower case, the value days such as `2026-03-01,2026-03-02` or `all`."""
TOUCHED_HOURS = "lake.touched-hours."
"""As TOUCHED_DAYS, with hours such as `2026-03-01T05`, UTC."""
ALL = "all"
"""The value for every day or hour."""
UNKNOWN_ROWS = "lake.unknown-rows"
MASKS = "lake.masks"
FOLDERS = "lake.folders"
HISTORY_FROM = "lake.history-from"
BATCH = "lake.batch."
"""Prefix of the batch's own figures."""
REPAIR = "repair"
"""Strategy of a batch without files: it replaces rows that differ from those that the applied files give."""
NO_CHANGES = "none"
"""Stored as the lowest sequence of a batch without changes."""

# If another writer has changed rows since the batch, a re-stamp with the batch's touched days would claim that no other
# days were touched.
SILVER = StampRule(LOG_OFFSET, below_changes=True, not_repeated=(TOUCHED_DAYS, TOUCHED_HOURS))


def touched_property(kind: str, column: str) -> str:
    """The summary property of TOUCHED_DAYS or TOUCHED_HOURS for one column, in lower case, because Spark's writer
    options ignore case."""
    return f"{kind}{column.lower()}"


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a silver table at one snapshot: the offset, the cut if its source has one, and what belongs to
    them."""

    log_offset: int = 0
    """Every file of the table up to this offset of the file log is applied, superseded or quarantined."""
    epoch: int = 0
    """Number of the newest full load that the table has applied; 0 before the first."""
    max_sequence: str = ""
    max_commit_ts: datetime | None = None
    """Newest source commit applied, UTC."""
    snapshot_id: int | None = None
    """The snapshot from which a batch is planned; None for a table without one."""
    rows: int = 0
    """Live rows at that snapshot."""
    contract_version: int = 0
    """The newest contract of which the table has rows; 0 if the commit does not record it."""

    cut: datetime | None = None
    """The table shows the transactions that were committed up to here, UTC; None: all that its files have."""
    waiting: int = 0
    """Rows of its files that were committed after the cut, and are not applied yet."""
    unknown_rows: int = 0
    """The number of rows that the table did not have although updates since the full load referred to them. Without a
    full load, deletes count, too."""
    masks: str = ""
    """The masks of its rows, as `masks.described` writes them; empty without any."""
    folders: str = ""
    """Which folders were the table's, as `FolderRule.text` writes it; empty if only the folder of its name was."""
    history_from: datetime | None = None
    """Versions that ended earlier, and changes that were committed earlier, are removed from a table that keeps them,
    UTC."""
    mark: LogMark | None = None
    """The log of the offset; None if the commit does not record it."""
    pause: str = ""
    """The pause of its table (`pause.py`), which is no part of a commit; empty if it is not paused."""

    def properties(self) -> dict[str, str]:
        """The summary properties of a commit with this position."""
        properties = {
            FORMAT: str(FORMAT_VERSION),
            LOG_OFFSET: str(self.log_offset),
            EPOCH: str(self.epoch),
            MAX_SEQUENCE: self.max_sequence,
        }
        if self.max_commit_ts is not None:
            properties[MAX_COMMIT_TS] = self.max_commit_ts.astimezone(UTC).isoformat()
        if self.contract_version:
            properties[CONTRACT_VERSION] = str(self.contract_version)
        if self.cut is not None:
            properties |= {CUT: self.cut.astimezone(UTC).isoformat(), CUT_WAITING: str(self.waiting)}
        if self.unknown_rows:
            properties[UNKNOWN_ROWS] = str(self.unknown_rows)
        if self.masks:
            properties[MASKS] = self.masks
        if self.folders:
            properties[FOLDERS] = self.folders
        if self.history_from is not None:
            properties[HISTORY_FROM] = self.history_from.astimezone(UTC).isoformat()
        return properties | (self.mark.properties() if self.mark is not None else {})


class PositionLost(LakeError):
    """A table has rows, but no snapshot has its position."""


def read_position(table: Table | None) -> Position:
    """The position of the table's current snapshot.

    Maintenance commits do not have positions, so it is read from the nearest ancestor that has one; `guard.py` checks
    for foreign commits in between. Raises PositionLost for a table with rows but without a position: applying to it
    could double them. Raises NewerFormat for a position of a newer release.
    """
    current = current_snapshot(table)
    if table is None or current is None:
        return Position()
    snapshot: Snapshot | None = current
    while snapshot is not None:
        properties = summary(snapshot)
        if LOG_OFFSET in properties:
            refuse_newer(".".join(table.name()), properties)
            commit_ts, cut = properties.get(MAX_COMMIT_TS), properties.get(CUT)
            history_from = properties.get(HISTORY_FROM)
            return Position(
                log_offset=int(properties[LOG_OFFSET]),
                epoch=int(properties[EPOCH]),
                max_sequence=properties[MAX_SEQUENCE],
                max_commit_ts=datetime.fromisoformat(commit_ts) if commit_ts else None,
                snapshot_id=current.snapshot_id,
                rows=live_rows(summary(current)),
                contract_version=int(properties.get(CONTRACT_VERSION, "0")),
                cut=datetime.fromisoformat(cut) if cut else None,
                waiting=int(properties.get(CUT_WAITING, "0")),
                unknown_rows=int(properties.get(UNKNOWN_ROWS, "0")),
                masks=properties.get(MASKS, ""),
                folders=properties.get(FOLDERS, ""),
                history_from=datetime.fromisoformat(history_from) if history_from else None,
                mark=LogMark.read(properties),
                pause=pause_of(table),
            )
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    rows = live_rows(summary(current))
    if rows:
        name = ".".join(table.name())
        lost = PositionLost(
            f"{name} has {many(rows, 'row')}, and none of its snapshots has {LOG_OFFSET}: lake_assets did not write "
            f"it, or another tool expired its snapshots. Run `lake-assets rebuild {name}` to load it from its files."
        )
        # Without the property, the rows are somebody else's.
        raise lost.mended_by(Remedy.REBUILD if SOURCE_TABLE in table.properties else None)
    return Position(snapshot_id=current.snapshot_id, pause=pause_of(table))
