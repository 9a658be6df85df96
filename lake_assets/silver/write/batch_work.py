"""What one batch is applied with: the table, its position, the files, a Spark session.

Here: those, reading files with them, and what is set aside on the way. Not here: what is done with the rows
(`silver/apply/apply_batch.py`, `upsert.py`, `log_tables.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pyiceberg.table import Table
from pyspark.sql import SparkSession

from lake_assets.bronze.files.inspect import UnreadableFile
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.quarantine.quarantine_log import Held, State
from lake_assets.bronze.reader.headerless import dated
from lake_assets.bronze.reader.recount import counted
from lake_assets.iceberg.publish import Attempt
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.contract import Contracts
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.changes.row_cut import ALL_ROWS, RowCut
from lake_assets.silver.plan.parts import Asked, Part, parts_of, request_of
from lake_assets.silver.plan.planner import Batch, made_of
from lake_assets.silver.plan.rewritten import former_content
from lake_assets.silver.table.change_events import ChangeFigures
from lake_assets.silver.table.log_mark import LogMark, mark_of
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.targets import Target
from lake_assets.silver.write.batch import Stopwatch
from lake_assets.silver.write.setting_aside import bad_rows, refuse_too_many_files, unreadable_file

Damaged = dict[tuple[str, str], UnreadableFile]
"""By key and version."""


@dataclass
class Work:
    """One batch of one table, in a Spark session of its own."""

    runtime: LakeRuntime
    spark: SparkSession
    target: Target
    position: Position
    batch: Batch
    logged: Sequence[LoggedFile]
    """All files of the table in the log."""
    contracts: Contracts
    table: Table | None = None
    """As it was planned from; None for a table that was not there."""
    stage: Callable[[str], None] = lambda name: None
    """Told the name of each stage as it begins."""
    damaged: Damaged = field(default_factory=dict)
    """Files that a reader failed on though they look whole."""
    watch: Stopwatch = field(default_factory=Stopwatch)
    replayed_bytes: int = 0
    """Bytes read again because a file came late."""
    again: bool = False
    """Whether the batch's files were applied before, and their keys are computed anew from everything."""
    fresh: bool = False
    """Whether the table's rows are of another shape: none of them is read, all are replaced."""
    before_publish: "Callable[[Work, Attempt], None]" = lambda work, current: None
    held: list[Held] = field(default_factory=list)
    """What of the batch's files is set aside."""
    parts: Sequence[Part] = ()
    """What of the batch's files is read."""
    grown: list[LoggedFile] = field(default_factory=list)
    """Files of the batch that were written again with further rows: the table has the others."""
    in_vain: list[Held] = field(default_factory=list)
    """Rows that were asked for again, of files that cannot be read by the contract as it is."""

    @property
    def log_mark(self) -> LogMark | None:
        """The log's record that the batch brings the table to."""
        log, upto = self.runtime.file_log, self.batch.upto
        files = log.files(self.target.source, self.target.table, upto=upto)
        made_of = self._made_of([file for file in self.logged if file.offset <= upto])
        return mark_of(log.identity(), upto, files, made_of)

    @property
    def retries(self) -> bool:
        """Whether the batch has rows that were set aside earlier."""
        return any(file.retry for file in self.batch.files)

    @property
    def asked_anew(self) -> list[LoggedFile]:
        """Files that are read again as somebody asked for, and of which the table has other rows from before they were
        written again; once the batch is read."""
        applied = self.position.log_offset
        whole = [part.file for part in self.parts if part.file.retry and part.only is None]
        return [f for f in whole if former_content(f, self.logged, applied, self.damaged) is not None]

    def read_batch(self) -> Reading | None:
        """The batch's files; None when none of them can be read. Raises TableStopped for columns that do not fit the
        contract, and for too many files that cannot be read."""
        self.parts = self._parts(self.batch.files)
        found, unreadable = self._readable(self.parts)
        known = self.runtime.quarantine.all(self.target.identifier) if unreadable else []
        refuse_too_many_files(self.target, unreadable, known)
        self.held += unreadable
        return self._reading(found, self.row_cut) if found else None

    @property
    def row_cut(self) -> RowCut:
        """Which rows of the batch's files are its own."""
        if self.batch.cut is None and not self.batch.reopened:
            return ALL_ROWS
        return RowCut(self.batch.cut, self.batch.reopened, self.position.cut)

    def read_again(self, files: Sequence[LoggedFile], cut: RowCut | None = None) -> Reading | None:
        """Records that were applied before, by default all of their rows up to the batch's cut; files that were set
        aside whole are left out again."""
        parts = self._parts(files)
        self.replayed_bytes += sum(part.file.size for part in parts)
        found, _ = self._readable(parts)
        if cut is None:
            cut = ALL_ROWS if self.batch.cut is None else RowCut(self.batch.cut)
        return self._reading(found, cut) if found else None

    def seen(self, reading: Reading) -> ChangeFigures:
        """The figures of the batch's own files, once they have been read. Raises TableStopped for more bad rows than
        the table's limits allow, and RowCountMismatch."""
        figures = reading.figures()
        store = self.runtime.store(self.target.source)
        known = self.runtime.quarantine.all(self.target.identifier) if figures.bad_rows else []
        self.held += bad_rows(self.target, store, reading, figures, self.contracts, known)
        return figures

    def set_aside(self) -> None:
        """Records what is held, before the batch is published: done twice, it is recorded once. What was asked for
        again by a later record of the log than this batch's stays asked for until then."""
        later = {one.held.id: one.at for one, request in self._requests() if request.offset > self.batch.upto}
        self.runtime.quarantine.set_aside(
            [
                replace(held, state=State.RETRIED, at=later[held.id]) if held.id in later else held
                for held in self.held
            ]
        )
        asked = {held.id for part in self.parts for held in part.asked}
        again = [held for held in self.held if held.id in asked]
        self.runtime.quarantine.becomes([*again, *self.in_vain], State.HELD)

    def release(self) -> None:
        """Once the batch is published: what was held of its files and is not any more was applied, and what was held of
        files that the table is no longer made of is nobody's concern."""
        still = {held.id for held in (*self.held, *self.in_vain)}
        read = {
            (part.file.key, part.file.version)
            for part in self.parts
            if part.only is None and part.file.offset not in self.batch.reopened
        }
        # A run that died after its publish has left some of these to the next one.
        due = {one.held.id for one, request in self._requests() if request.offset <= self.batch.upto}
        known = [f for f in self.logged if f.offset <= self.batch.upto]
        made_of = {(f.key, f.version) for f in self._made_of(known)}
        applied, superseded = [], []
        for held in self.runtime.quarantine.open(self.target.identifier):
            if (held.key, held.version) not in made_of:
                # Not those of a batch that another run is about to publish.
                superseded += [held] if held.log_offset <= self.batch.upto else []
            elif held.id not in still and (held.id in due or (held.key, held.version) in read):
                applied.append(held)
        self.runtime.quarantine.becomes(applied, State.RELEASED)
        self.runtime.quarantine.becomes(superseded, State.SUPERSEDED)

    def _made_of(self, files: Sequence[LoggedFile]) -> Sequence[LoggedFile]:
        """The files that the table's state is a function of."""
        return made_of(files, self.target.mode, self.batch.epoch, self.batch.upto)

    def _reading(self, parts: Sequence[Part], cut: RowCut) -> Reading:
        store = self.runtime.store(self.target.source)
        files = dated((part.file for part in parts), self.logged)
        parts = [replace(part, file=file) for part, file in zip(parts, files, strict=True)]
        return Reading(self.spark, store, self.target, parts, self.contracts, cut)

    def _asked(self) -> list[Asked]:
        return [Asked(held, at) for held, at in self.runtime.quarantine.asked(self.target.identifier)]

    def _requests(self) -> list[tuple[Asked, LoggedFile]]:
        """What was asked for again, with the record that was logged for it."""
        logged = [file for file in self.logged if file.retry]
        found = ((one, request_of(one, logged)) for one in (self._asked() if logged else ()))
        return [(one, request) for one, request in found if request is not None]

    def _parts(self, files: Sequence[LoggedFile]) -> list[Part]:
        return parts_of(files, self._asked() if any(file.retry for file in files) else ())

    def _readable(self, parts: Sequence[Part]) -> tuple[list[Part], list[Held]]:
        store, found, unreadable = self.runtime.store(self.target.source), list[Part](), list[Held]()
        tables = self.runtime.lake.sources[self.target.source].tables
        files = [part.file for part in parts]
        for part in parts:
            file = part.file
            try:
                if (file.key, file.version) in self.damaged:
                    raise self.damaged[file.key, file.version]
                dms = self.contracts.at(file.offset).contract.dms
                found.append(replace(part, file=counted(store, file, dms, tables)))
            except UnreadableFile as error:
                if part.only is not None:
                    # The file is not at fault: its other rows were read by another contract.
                    self.in_vain += part.asked
                else:
                    unreadable.append(unreadable_file(self.target, file, files, error))
        return found, unreadable
