"""What one batch is applied with: the table, its position, the files, a Spark session.

Here: those, reading files with them, and what is set aside on the way. Not here: what is done with the rows
(`apply.py`, `keyed.py`, `logs.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from lake_assets.bronze.file_log import LoggedFile
from lake_assets.bronze.inspect import UnreadableFile
from lake_assets.bronze.quarantine import Held, State
from lake_assets.bronze.recount import counted
from lake_assets.config import Mode
from lake_assets.iceberg.publish import Attempt
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.contract import Contracts
from lake_assets.silver.batch import Stopwatch
from lake_assets.silver.collapse import ChangeFigures
from lake_assets.silver.plan import Batch, epoch_members, newest_versions
from lake_assets.silver.position import Position
from lake_assets.silver.reading import Reading
from lake_assets.silver.setting_aside import bad_rows, refuse_too_many_files, unreadable_file
from lake_assets.silver.targets import Target

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
    stage: Callable[[str], None] = lambda name: None
    """Told the name of each stage as it begins."""
    damaged: Damaged = field(default_factory=dict)
    """Files that a reader failed on though they look whole."""
    watch: Stopwatch = field(default_factory=Stopwatch)
    replayed_bytes: int = 0
    """Bytes read again because a file came late."""
    only: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By key, the places of the rows that are read of a file that was applied before."""
    again: bool = False
    """Whether the batch's files were applied before, and their keys are computed anew from everything."""
    before_publish: "Callable[[Work, Attempt], None]" = lambda work, current: None
    held: list[Held] = field(default_factory=list)
    """What of the batch's files is set aside."""

    @property
    def retries(self) -> bool:
        """Whether the batch has rows that were set aside earlier."""
        return any(file.retry for file in self.batch.files)

    def read_batch(self) -> Reading | None:
        """The batch's files; None when none of them can be read. Raises TableStopped for columns that do not fit the
        contract, and for too many files that cannot be read."""
        files, unreadable = self._readable(self.batch.files)
        refuse_too_many_files(self.target, unreadable)
        self.held += unreadable
        self.only = self._only()
        return self._reading(files, self.only) if files else None

    def read_again(self, files: Sequence[LoggedFile]) -> Reading | None:
        """Files that were applied before; those that were set aside whole are left out again."""
        self.replayed_bytes += sum(file.size for file in files)
        found, _ = self._readable(files)
        return self._reading(found) if found else None

    def seen(self, reading: Reading) -> ChangeFigures:
        """The figures of the batch's own files, once they have been read. Raises TableStopped for more bad rows than
        the table's limits allow, and RowCountMismatch."""
        figures = reading.figures()
        store = self.runtime.store(self.target.source)
        known = self.runtime.quarantine.all(self.target.identifier) if figures.bad_rows else []
        self.held += bad_rows(self.target, store, reading, figures, self.contracts, known)
        return figures

    def set_aside(self) -> None:
        """Records what is held, before the batch is published: done twice, it is recorded once."""
        self.runtime.quarantine.set_aside(self.held)
        self.runtime.quarantine.becomes(self.held, State.HELD)  # those that were asked for again in vain

    def release(self) -> None:
        """Once the batch is published: what was held of its files and is not any more was applied, and what was held of
        files that the table is no longer made of is nobody's concern."""
        still = {held.id for held in self.held}
        read = {(file.key, file.version) for file in self.batch.files if file.key not in self.only}
        # A run that died after its publish has left some of these to the next one.
        asked = {(f.key, f.version) for f in self.logged if f.retry and f.offset <= self.batch.upto}
        known = [f for f in self.logged if f.offset <= self.batch.upto]
        made_of = {(f.key, f.version) for f in self._made_of(known)}
        applied, superseded = [], []
        for held in self.runtime.quarantine.open(self.target.identifier):
            if (held.key, held.version) not in made_of:
                # Not those of a batch that another run is about to publish.
                superseded += [held] if held.log_offset <= self.batch.upto else []
            elif held.id not in still and (held.key, held.version) in (
                read if held.state is State.HELD else asked
            ):
                applied.append(held)
        self.runtime.quarantine.becomes(applied, State.RELEASED)
        self.runtime.quarantine.becomes(superseded, State.SUPERSEDED)

    def _made_of(self, files: Sequence[LoggedFile]) -> Sequence[LoggedFile]:
        """The files that the table's state is a function of."""
        if self.target.mode is Mode.CHANGE_LOG:
            return newest_versions(files)
        return epoch_members(files, self.batch.epoch, self.batch.upto)

    def _reading(
        self, files: Sequence[LoggedFile], only: Mapping[str, Sequence[int]] | None = None
    ) -> Reading:
        store = self.runtime.store(self.target.source)
        return Reading(self.spark, store, self.target, files, self.contracts, only)

    def _only(self) -> dict[str, list[int]]:
        """Of files that were applied before, by key, the places of the rows to be read again; a file that was held
        whole is read whole, as are all the files that a table is made anew from."""
        if self.batch.kind == "full_load" or self.again:
            return {}
        applied = {(f.key, f.version) for f in self.logged if f.offset <= self.position.log_offset}
        again = {
            (f.key, f.version): list[int]()
            for f in self.batch.files
            if f.retry and (f.key, f.version) in applied
        }
        for held in self.runtime.quarantine.open(self.target.identifier) if again else ():
            places = again.get((held.key, held.version))
            if held.state is State.RETRIED and places is not None:
                if held.row is None:
                    del again[held.key, held.version]
                else:
                    places.append(held.row)
        return {key: sorted(places) for (key, _), places in again.items()}

    def _readable(self, files: Sequence[LoggedFile]) -> tuple[list[LoggedFile], list[Held]]:
        store, found, unreadable = self.runtime.store(self.target.source), [], []
        tables = self.runtime.lake.sources[self.target.source].tables
        for file in files:
            if (file.key, file.version) in self.damaged:
                error = self.damaged[file.key, file.version]
                unreadable.append(unreadable_file(self.target, file, files, error))
                continue
            try:
                dms = self.contracts.at(file.offset).contract.dms
                found.append(counted(store, file, dms, tables))
            except UnreadableFile as error:
                unreadable.append(unreadable_file(self.target, file, files, error))
        return found, unreadable
