"""The records of one landing: its files, what it has read, and earlier parts of loads that it shows to be later ones.

Here: pure decisions from the log's records and the landing. Not here: the epoch of a file (`admission.py`), committing
(`file_log.py`).
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.admission import new_records
from lake_assets.bronze.log.created_tables import load_number_of
from lake_assets.bronze.log.known import FIRST_EPOCH, Known
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.bronze.log.streams.stream_positions import Note, merged, refuse_overtaken
from lake_assets.config import TableName


def landed_records(
    new: Collection[NewFile],
    note: Note,
    known: Known,
    history: Iterable[LoggedFile],
    *,
    source: str,
    head: int,
    now: datetime,
) -> list[LoggedFile]:
    """The records to append above the offset `head`, logged `now` (UTC); the first has the note. `known` and `history`:
    the source's records so far. Raises Overtaken if another reader has landed messages of a shard since."""
    refuse_overtaken(source, note.ranges, known.read)
    created = merged(known.created, note.created)
    # First: the new parts may be of loads that are still later.
    moved = _moved_to_later_loads(replace(known, created=created), note.created, head + 1, now)
    if moved:
        history = [*history, *moved]
        known = Known.of(history)
    first, *others = [
        *moved,
        *new_records(
            new,
            replace(known, created=created),
            history,
            source=source,
            head=head + len(moved),
            based_on=head,
            now=now,
        ),
    ]
    whole = known.transactions.with_landed(note.changes, now, note.searched)
    return [replace(first, ranges=note.text(whole)), *others]


def _moved_to_later_loads(
    known: Known, tables: Iterable[str], first_offset: int, now: datetime
) -> list[LoggedFile]:
    """Records that move parts to the loads that they are of, because DMS's message that a table was created has landed
    after rows that were transferred later. `tables`: those that were created; `known`: the records before, with all
    times of creation; `now`: UTC."""
    moved: list[LoggedFile] = []
    for table in tables:
        name = TableName.parse(table)
        epoch = known.open_epochs.get((name.schema, name.table), FIRST_EPOCH)
        parts = {
            record.key: record
            for record in known.living(name.schema, name.table)
            if record.kind is FileKind.LOAD and record.epoch == epoch
        }
        numbers = {key: load_number_of(part, known.created[table]) for key, part in parts.items()}
        later = sorted({number for number in numbers.values() if number is not None})[1:]
        for key, number in numbers.items():
            if number in later:
                moved.append(
                    replace(
                        parts[key],
                        offset=first_offset + len(moved),
                        logged_at=now,
                        epoch=epoch + 1 + later.index(number),
                        ranges=None,
                        moved_to=None,
                    )
                )
    return moved
