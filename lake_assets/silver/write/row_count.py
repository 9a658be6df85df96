"""The row-count check: nothing was lost between the files and the table, and nothing appeared.

Here: the equations, over figures from independent places. Not here: taking the figures. Pure.
"""

from dataclasses import dataclass

from lake_assets.words import does, many


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Figures of one batch, each from its own witness."""

    counted_in_files: int
    """By counting records in the files' bytes, without Spark."""
    read: int
    """By Spark, while the batch was computed."""
    used: int
    """By Spark, after the rows that cannot be used were left out."""
    quarantined: int
    """Rows that the quarantine was given."""
    keys: int
    """Rows after the collapse to one per key; for logs the rows read."""
    written: int
    """Rows that the writer was handed."""
    added: int
    """Rows that Iceberg says were added."""
    removed: int
    """Rows that Iceberg says were deleted."""
    before: int
    """Live rows of the snapshot the batch was planned from."""
    after: int
    """Live rows of the new snapshot."""
    replaced: int | None = None
    """Of a table that keeps what was before, the rows that are to be deleted, by reading them; else None."""
    versions: int = 0
    """Of such a table, the images that its new rows were made of."""
    followed: int = 0
    """Of the keys, those that no change of the batch names, from which one of its rows came before."""
    taken_back: int = 0
    """Of the written rows, those of a full load's first pass that its second one took back."""
    passed_over: int = 0
    """Of the rows read, those of an earlier or a later batch, by the consistent cut."""
    waiting: int = 0
    """Of those, the ones of a later batch."""
    expected_waiting: int | None = None
    """The rows that waited before, and the new ones, less those that were used; None where nothing waited before."""


def row_count_problem(counts: RowCounts, *, replaces: bool) -> str | None:
    """What does not add up, as a sentence; None when all does. `replaces`: the batch replaces the whole table."""
    if counts.read != counts.counted_in_files:
        return f"the files hold {many(counts.counted_in_files, 'row')} by their own count, the reader saw {counts.read}"
    if counts.used + counts.quarantined + counts.passed_over != counts.read:
        left = f", {counts.passed_over} left to other batches" if counts.passed_over else ""
        return f"{many(counts.read, 'row', 'were')} read, {counts.used} used and {counts.quarantined} set aside{left}"
    if counts.expected_waiting not in (None, counts.waiting):
        return (
            f"{many(counts.expected_waiting, 'row')} should wait for the consistent cut now, {counts.waiting} "
            f"{does(counts.waiting, 'do')}: a file that "
            "was read before is gone or is another now, or rows were committed longer after the flush of their file "
            "than consistent_cut.margin"
        )
    if counts.keys - counts.followed > counts.used * 2:
        return f"{many(counts.used, 'row')} cannot change {many(counts.keys, 'key')}"
    if counts.replaced is None and counts.written > counts.keys:
        return f"{many(counts.written, 'row', 'were')} written for {many(counts.keys, 'key')}"
    if counts.added != counts.written:
        return f"{many(counts.written, 'row', 'were')} written, but Iceberg counts {counts.added} added"
    if counts.written > counts.versions and counts.replaced is not None:
        return f"{many(counts.written, 'row', 'were')} written of {many(counts.versions, 'image')}"
    if replaces:
        if counts.after != counts.written - counts.taken_back:
            return (
                f"{many(counts.written, 'row', 'were')} written to replace the table, {counts.taken_back} of them "
                "taken back, "
                f"and it now holds {counts.after}"
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
    """Rows of a table as it is, each figure from its own witness."""

    committed: int | None
    """After the newest commit that bears a position; None where none does."""
    by_summary: int
    """As the summary of the table's newest snapshot says."""
    by_files: int
    """Rows of the data files that are live, less those that delete files mark."""
    equality_deletes: int = 0
    """Rows of delete files that name values. lake_assets writes none, and nobody knows how many rows they delete."""


def live_rows_problem(rows: LiveRows, *, others_may_write: bool = False) -> str | None:
    """What does not add up in a table as it is, as a sentence; None when all does, as far as it can be counted."""
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
            f"rows after the table's newest batch: {rows.committed}, now: {rows.by_summary}. Somebody else has changed "
            "the table"
        )
    return None
