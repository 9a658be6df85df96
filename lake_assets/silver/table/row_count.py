"""The row-count check: no row was lost or added between the files and the table.

Here: the equations, over figures that were counted independently. Not here: counting. Pure.
"""

from dataclasses import dataclass

from lake_assets.words import does, many


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Figures of one batch, each counted independently."""

    counted_in_files: int
    """Records in the files' bytes, counted without Spark."""
    read: int
    """Rows that Spark counted while it computed the batch."""
    used: int
    """Rows that Spark counted after the filter of unusable rows."""
    quarantined: int
    """Rows that were quarantined."""
    keys: int
    """Distinct keys of the changes; for logs the rows read."""
    written: int
    """Rows that were passed to the writer."""
    added: int
    """Rows that Iceberg counts as added."""
    removed: int
    """Rows that Iceberg counts as deleted."""
    before: int
    """Live rows of the snapshot from which the batch was planned."""
    after: int
    """Live rows of the new snapshot."""
    replaced: int | None = None
    """For a table that keeps former rows or has no key, the rows to be deleted, by reading them; else None."""
    versions: int = 0
    """For such a table, the images from which its new rows were computed."""
    followed: int = 0
    """Those of the keys that no change of the batch names, but from which its rows moved."""
    passed_over: int = 0
    """Those of the rows read that belong to an earlier or a later batch, by the consistent cut."""
    waiting: int = 0
    """Those of `passed_over` that belong to a later batch."""
    expected_waiting: int | None = None
    """The rows that waited before, and the new ones, less those that were used; None if the batch does not check it."""


def row_count_problem(counts: RowCounts, *, replaces: bool) -> str | None:
    """A sentence about figures that do not add up, or None. `replaces`: the batch replaces the whole table."""
    if counts.read != counts.counted_in_files:
        return f"the files hold {many(counts.counted_in_files, 'row')} by their own count, the reader saw {counts.read}"
    if counts.used + counts.quarantined + counts.passed_over != counts.read:
        left = f", {counts.passed_over} left to other batches" if counts.passed_over else ""
        return f"{many(counts.read, 'row', 'were')} read, {counts.used} used and {counts.quarantined} quarantined{left}"
    if counts.expected_waiting not in (None, counts.waiting):
        return (
            f"{many(counts.expected_waiting, 'row')} should wait for the consistent cut now, {counts.waiting} "
            f"{does(counts.waiting, 'do')}: a file that "
            "was read before is gone or has other rows now, or rows were committed longer after the flush of their "
            "file than consistent_cut.margin"
        )
    if counts.keys - counts.followed > counts.used * 2:
        return f"{many(counts.keys, 'key')} changed, but only {many(counts.used, 'row', 'were')} used"
    if counts.replaced is None and counts.written > counts.keys:
        return f"{many(counts.written, 'row', 'were')} written, but only {many(counts.keys, 'key')} changed"
    if counts.added != counts.written:
        return f"{many(counts.written, 'row', 'were')} written, but Iceberg counts {counts.added} added"
    if counts.written > counts.versions and counts.replaced is not None:
        return f"{many(counts.written, 'row', 'were')} written, but only {many(counts.versions, 'row image', 'exist')}"
    if replaces:
        if counts.after != counts.written:
            return (
                f"{many(counts.written, 'row', 'were')} to replace the table, and it now holds {counts.after}"
            )
        return None
    if counts.replaced is not None and counts.removed != counts.replaced:
        return f"{many(counts.replaced, 'row', 'were')} to be removed, but Iceberg counts {counts.removed}"
    if counts.replaced is None and counts.removed > counts.keys:
        return (
            f"{many(counts.removed, 'row', 'were')} removed for {many(counts.keys, 'key')}, so that some key was "
            "there twice"
        )
    expected = counts.before - counts.removed + counts.added
    if counts.after != expected:
        return (
            f"{many(counts.before, 'row', 'were')} there, {counts.removed} {does(counts.removed, 'were')} removed and "
            f"{counts.added} added: "
            f"{expected} expected, {counts.after} found"
        )
    return None


@dataclass(frozen=True, slots=True)
class LiveRows:
    """The current number of a table's rows, each figure counted independently."""

    committed: int | None
    """Rows after the newest commit that has a position; None without such a commit."""
    by_summary: int
    """Rows by the summary of the table's newest snapshot."""
    by_files: int
    """Rows of the live data files, less those that delete files mark."""
    equality_deletes: int = 0
    """Rows of equality-delete files. lake_assets writes none, and how many rows they delete is unknown."""


def live_rows_problem(rows: LiveRows, *, others_may_write: bool = False) -> str | None:
    """A sentence about figures of the table that do not add up; None if they do, or cannot be compared."""
    if rows.equality_deletes and others_may_write:
        return None
    if rows.equality_deletes:
        return (
            f"the table has equality deletes ({rows.equality_deletes}), which lake_assets never writes: another engine "
            "has deleted rows"
        )
    if rows.by_files != rows.by_summary:
        return f"rows by the table's newest snapshot: {rows.by_summary}, by its files: {rows.by_files}"
    if not others_may_write and rows.committed not in (None, rows.by_summary):
        return (
            f"rows after the table's newest batch: {rows.committed}, now: {rows.by_summary}. Another writer has "
            "changed the table"
        )
    return None
