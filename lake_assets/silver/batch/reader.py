"""Reading the files of one batch, with their figures.

Here: files as parts and rows, reading them again where needed, and the figures of the batch's own files. Not here: the
reading itself (`silver/changes/reading.py`), which rows may be quarantined (`quarantine.py`), what
becomes of the others (`silver/reduce/`).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

from lake_assets.bronze.decode.recount import counted
from lake_assets.bronze.files.formats import names_without_values
from lake_assets.bronze.files.inspect import UnreadableFile
from lake_assets.bronze.layouts.headerless import dated
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.quarantine.quarantine_log import Quarantined
from lake_assets.silver.batch.ask_source import explain_misfits
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.quarantine import (
    BatchQuarantine,
    bad_rows,
    refuse_too_many_files,
    unreadable_file,
)
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.changes.row_cut import ALL_ROWS, RowCut
from lake_assets.silver.plan.lateness import is_late
from lake_assets.silver.plan.parts import Part, parts_of
from lake_assets.silver.plan.plan import Batch
from lake_assets.silver.table.change_events import ChangeFigures

COUNTING_THREADS = 4


class BatchReader:
    """Reads the batch of a context."""

    def __init__(self, context: BatchContext, replayed_bytes: int = 0) -> None:
        self.context = context
        self.quarantine = BatchQuarantine(context)
        self.parts: Sequence[Part] = ()
        """The parts of the batch's files that are read."""
        self._readings: list[Reading] = []
        self.rows_counted = 0
        """Rows of the batch's files by their own count."""
        self.seen = ChangeFigures(by_op=dict.fromkeys("IUD", 0))
        """The figures of the batch's files, once they have been read."""
        self.replayed_bytes = replayed_bytes
        """Bytes that were read again."""

    def of(self, batch: Batch) -> "BatchReader":
        """A reader of another batch of the same context, which has not read anything yet."""
        return BatchReader(replace(self.context, batch=batch), self.replayed_bytes)

    @property
    def recomputes_keys(self) -> bool:
        """Whether the keys of the batch are recomputed: it is late, retries quarantined rows, or repeats applied
        files."""
        context = self.context
        late = is_late(self.seen.min_sequence, context.position.max_sequence)
        return late or context.retries or context.batch.again

    def read_batch(self) -> Reading | None:
        """The batch's files; None when none of them can be read. Raises TableStopped for columns that do not fit the
        contract, and for too many files that cannot be read."""
        self.parts = self._parts(self.context.batch.files)
        found, unreadable = self._readable(self.parts)
        refuse_too_many_files(self.context, unreadable)
        self.quarantine.hold(unreadable)
        return self._reading(found, self.context.row_cut) if found else None

    def check(self, reading: Reading) -> ChangeFigures:
        """The figures of the batch's files. Raises TableStopped for more bad rows than the table's limits allow."""
        self.seen = reading.figures
        self.rows_counted = reading.rows_counted
        if self.seen.bad_rows:
            explain_misfits(self.context, reading)
        self.quarantine.hold(bad_rows(self.context, reading, self.seen))
        return self.seen

    def refuted(self) -> str | None:
        """Why Spark may have read other rows than were looked at; None if it has not. Once they have been computed."""
        return next((why for reading in self._readings if (why := reading.refuted()) is not None), None)

    def read_again(self, files: Sequence[LoggedFile], cut: RowCut | None = None) -> Reading | None:
        """Reads records that were applied before, by default all of their rows up to the batch's cut; leaves out files
        that were quarantined whole. None when none of them can be read."""
        if cut is None:
            cut = _up_to(self.context.batch.cut)
        return self._parts_again(self._parts(files), cut)

    def read_applied(self, files: Sequence[LoggedFile]) -> Reading | None:
        """As `read_again`, only of rows that were applied before the batch: without those that it requests again."""
        position = self.context.position
        applied = [part for part in self._parts(files) if part.file.offset <= position.log_offset]
        return self._parts_again(applied, _up_to(position.cut))

    def read_with_own(self, files: Sequence[LoggedFile]) -> Reading:
        """As `read_again`, for records that include the batch's own."""
        reading = self.read_again(files)
        assert reading is not None, "the batch's own files were just read"
        return reading

    def _parts_again(self, parts: Sequence[Part], cut: RowCut) -> Reading | None:
        self.replayed_bytes += sum(part.file.size for part in parts)
        found, _ = self._readable(parts)
        return self._reading(found, cut) if found else None

    def _parts(self, files: Sequence[LoggedFile]) -> list[Part]:
        if not any(file.retry for file in files):
            return parts_of(files)
        return parts_of(files, self.quarantine.requested(), self.context.counted_among)

    def _readable(self, parts: Sequence[Part]) -> tuple[list[Part], list[Quarantined]]:
        found: list[Part] = []
        unreadable: list[Quarantined] = []
        files = [part.file for part in parts]
        with ThreadPoolExecutor(COUNTING_THREADS, thread_name_prefix="count") as threads:
            counts = [threads.submit(self._counted, part.file) for part in parts]
        for part, count in zip(parts, counts, strict=True):
            try:
                found.append(replace(part, file=count.result()))
            except UnreadableFile as error:
                if part.only is None:
                    unreadable.append(unreadable_file(self.context.target, part.file, files, error))
                else:
                    # The file is not unreadable as a whole: its other rows were read by another contract.
                    self.quarantine.retry_failed(part.requested)
        return found, unreadable

    def _counted(self, file: LoggedFile) -> LoggedFile:
        """The file with its number of rows. Raises UnreadableFile."""
        context = self.context
        if (file.key, file.version) in context.damaged:
            raise context.damaged[file.key, file.version]
        tables = context.runtime.lake.sources[context.target.source].tables
        dms = context.contracts.at(file.offset).contract.dms
        found = counted(context.store, file, dms, tables)
        if found is file or file.format != "csv":
            return found
        return replace(found, columns=names_without_values(found.columns, context.target.config))

    def _reading(self, parts: Sequence[Part], cut: RowCut) -> Reading:
        context = self.context
        files = dated((part.file for part in parts), context.logged)
        parts = [replace(part, file=file) for part, file in zip(parts, files, strict=True)]
        reading = Reading(
            context.spark,
            context.store,
            context.target,
            parts,
            context.contracts,
            cut,
            staging=context.staging,
            spark_reads=context.spark_reads,
        )
        self._readings.append(reading)
        return reading


def _up_to(cut: datetime | None) -> RowCut:
    return ALL_ROWS if cut is None else RowCut(cut)
