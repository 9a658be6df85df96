"""The batch log: every published batch of silver once, in the Iceberg table `lake_ops.batches`.

Here: appending rows by compare-and-set, and reading some of them, with PyIceberg and without a JVM. Not here: which
batches there are (`batch_row.py`), who records them (`record_batches.py`).

The table grows with every batch, so it is never read whole: a data file has rows of a short time, and a reading takes
only the files that may have rows of its time. Rows older than KEPT_FOR are removed, and never recorded again. If the
table is dropped, the batches whose commits are still there are recorded again.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import compress
from threading import RLock
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import And, BooleanExpression, GreaterThan, GreaterThanOrEqual, LessThan, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.table import Table

from lake_assets.bronze.log.file_log_maintenance import highest, maintain_file_log, needs_maintenance
from lake_assets.errors import LakeError, Remedy
from lake_assets.iceberg.file_io.pyiceberg_private import append_rows
from lake_assets.iceberg.file_io.table_rows import rows, values
from lake_assets.iceberg.lake_format import refuse_newer
from lake_assets.iceberg.ops_table import (
    NAMESPACE,
    brought_up_to_date,
    create_empty,
    ops_schema,
    until_won,
)
from lake_assets.iceberg.table_io import load_table
from lake_assets.silver.batch_log.batch_row import COLUMNS, BatchRow, from_stored

TABLE = f"{NAMESPACE}.batches"
ORDER = "number"
_SCHEMA = ops_schema(
    number="long not null",
    table="string not null",
    table_uuid="string not null",
    snapshot_id="long not null",
    committed_at="timestamptz not null",
    published_at="timestamptz",
    kind="string not null",
    strategy="string not null",
    reason="string not null",
    files="long not null",
    bytes="long not null",
    rows_read="long not null",
    rows_inserted="long not null",
    rows_updated="long not null",
    rows_deleted="long not null",
    rows_quarantined="long not null",
    unmatched="long not null",
    rows_behind_cut="long not null",
    rows="long not null",
    position="long not null",
    epoch="long not null",
    newest_commit="timestamptz",
    first_file_at="timestamptz",
    first_commit_at="timestamptz",
    lag_seconds="double",
    latency_seconds="double",
    seconds="double not null",
    stages="string not null",
    run_id="string not null",
    batch_id="string",
)
KEPT_FOR = timedelta(days=400)
"""Of rows: a comparison with the same month of the year before is still possible."""
APART = timedelta(days=1)
"""How much older than KEPT_FOR the oldest row is when rows are removed, so that a large file is written again once a
day at most."""
FEW = 5
"""Readings of a log of which files vanish."""
_KEY = ("table_uuid", "snapshot_id")
_logger = logging.getLogger(__name__)


class BatchLog:
    """The batch log of one catalog. Threads may share it; any number of processes may append. A log that does not exist
    yet is empty."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = RLock()
        self._known: set[tuple[str, int]] = set()
        """Batches of the last `add` that are in the log: the next one need not look for them."""

    def add(self, found: Sequence[BatchRow]) -> list[BatchRow]:
        """Appends the batches that the log does not have and that are not older than KEPT_FOR (the commit of a tag may
        be), in one commit, and returns them with their numbers. Raises PyIceberg's CommitFailedException after thirty
        lost races in a row, and LakeError if a file of the log is gone; then nothing was recorded."""
        with self._lock:
            oldest = datetime.now(UTC) - KEPT_FOR
            unsure = [row for row in found if row.key not in self._known and row.committed_at >= oldest]
            try:
                added = until_won()(self._add, unsure) if unsure else []
            except FileNotFoundError as error:
                raise _without_file(error) from error
            self._known = {row.key for row in found}
            return added

    def since(self, moment: datetime, tables: Collection[str]) -> list[BatchRow]:
        """The batches of these silver tables that were committed at that time or later, in no particular order."""
        known = set(tables)

        def wanted(found: pa.Table) -> Iterable[bool]:
            return (at >= moment and name in known for at, name in _columns(found, "committed_at", "table"))

        return self._read(_from(moment), wanted)

    def after(self, number: int) -> list[BatchRow]:
        """The batches with a higher number, in the order of the log."""
        newer = GreaterThan(term=Reference(ORDER), value=literal(number))
        found = self._read(newer, lambda found: [own > number for (own,) in _columns(found, ORDER)])
        return sorted(found, key=lambda row: row.number)

    def head(self) -> int:
        """The highest number; 0 for an empty log."""
        table = self._load()
        return 0 if table is None else _head(table)

    def _load(self) -> Table | None:
        table = load_table(self._catalog, TABLE)
        if table is not None:
            refuse_newer(TABLE, table.properties)
        return table

    def _read(self, files: BooleanExpression, wanted: Callable[[pa.Table], Iterable[bool]]) -> list[BatchRow]:
        """The `wanted` rows of the files that may have rows of a filter. They are chosen in Python: whatever makes an
        array of Python's values imports pandas, which takes longer than a `status`."""

        def read() -> list[BatchRow]:
            table = self._load()
            if table is None or not (found := rows(table.scan(row_filter=files))).num_rows:
                return []
            return [from_stored(row) for row in compress(_columns(found, *COLUMNS), wanted(found))]

        try:
            # Maintenance may delete a merged file under a slow reader; newer files have the same rows.
            return until_won(FEW)(read)
        except FileNotFoundError as error:
            raise _without_file(error) from error

    def _add(self, found: Sequence[BatchRow]) -> list[BatchRow]:
        table = self._load()
        if table is None:
            table = create_empty(self._catalog, TABLE, _SCHEMA)
        elif brought_up_to_date(table, _SCHEMA):
            raise CommitFailedException(f"{TABLE}: it was brought up to date just now")
        known = _keys(rows(table.scan(_from(min(row.committed_at for row in found))), _KEY))
        new = sorted(
            (row for row in found if row.key not in known), key=lambda row: (row.committed_at, row.key)
        )
        if not new:
            return []
        first = _head(table) + 1
        new = [replace(row, number=number) for number, row in enumerate(new, start=first)]
        append_rows(table, pa.Table.from_pylist([row.stored() for row in new], schema=_SCHEMA.as_arrow()))
        self._maintain(table)
        return new

    def _maintain(self, table: Table) -> None:
        try:
            if needs_maintenance(table):
                maintain_batch_log(table)
        except Exception:
            # The batches are recorded already. Without maintenance, the log only becomes slower.
            _logger.warning(
                "The maintenance of the batch log failed; the next append tries again.", exc_info=True
            )


def _without_file(error: FileNotFoundError) -> LakeError:
    return LakeError(
        f"{TABLE}: one of its files is gone ({error}), so that the catalog was restored to an earlier state, or the "
        "file was deleted. Run `lake-assets recover`; if that finds nothing, drop the table: the batches whose commits "
        "are still there are recorded again."
    ).mended_by(Remedy.RECOVER)


def maintain_batch_log(table: Table, now: datetime | None = None) -> None:
    """As `maintain_file_log`; and removes the rows that were committed more than KEPT_FOR before `now` (UTC). The row
    with the highest number stays: the next one follows it."""
    oldest = (now or datetime.now(UTC)) - KEPT_FOR
    if _has_before(table, oldest - APART):
        with suppress(CommitFailedException):
            # Refused if main has moved, because the table allows no retries.
            table.delete(
                And(
                    LessThan(term=Reference("committed_at"), value=literal(oldest)),
                    LessThan(term=Reference(ORDER), value=literal(_head(table))),
                )
            )
            table.refresh()
    maintain_file_log(table, ORDER)


def _has_before(table: Table, moment: datetime) -> bool:
    """Whether a data file may have rows but for the newest that were committed before that time."""
    older = LessThan(term=Reference("committed_at"), value=literal(moment))
    lower = LessThan(term=Reference(ORDER), value=literal(_head(table)))
    return any(True for _ in table.scan(row_filter=And(older, lower)).plan_files())


def _from(moment: datetime) -> BooleanExpression:
    """The filter of a scan for the rows of that time and later."""
    return GreaterThanOrEqual(term=Reference("committed_at"), value=literal(moment))


def _head(table: Table) -> int:
    return max((highest(table, task.file, ORDER) for task in table.scan().plan_files()), default=0)


def _columns(found: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """The values of the columns, None for those that a log of an earlier release lacks."""
    nothing = [None] * found.num_rows
    known = {*found.column_names}
    return zip(*(values(found[name]) if name in known else nothing for name in names), strict=True)


def _keys(found: pa.Table) -> set[tuple[Any, ...]]:
    return set(zip(*(found[name].to_pylist() for name in _KEY), strict=True)) if found.num_rows else set()
