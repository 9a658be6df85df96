"""Full loads of a stream, told apart by DMS's messages that it creates their tables.

Here: pure decisions from those times and the parts' own. Not here: times of files alone (`epochs.py`), when tables were
created (`streams/stream_positions.py`).

The files in which a load lands have new names each time, and a table without changes shows no end of a load. But before
each load, DMS reports that it creates the table, and each row has the time of its transfer, on the same clock.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.known import FIRST_EPOCH, Known
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.bronze.log.streams.stream_positions import Created, load_number
from lake_assets.config import TableName

File = NewFile | LoggedFile


def loads_apart(file: File, others: Sequence[File], created: Sequence[datetime]) -> int:
    """By how many creations of its table a part is behind the load of the `others`; negative: before it."""
    numbers = [number for other in others if (number := _load_number(other, created)) is not None]
    own = _load_number(file, created)
    return 0 if own is None or not numbers else own - min(numbers)


def are_announced(parts: Iterable[LoggedFile], created: Sequence[datetime]) -> bool:
    """Whether DMS has said which load each part is of: it created the table before."""
    return all(_load_number(part, created) for part in parts)


def _load_number(file: File, created: Sequence[datetime]) -> int | None:
    return None if file.first_commit_ts is None else load_number(created, file.first_commit_ts)


def moved_to_later_loads(known: Known, created: Created, new: Sequence[LoggedFile]) -> list[LoggedFile]:
    """Records that move parts to the loads that they are of, to be appended to the `new` ones: DMS's message that a
    table was created may land after rows that were transferred later. `known`: the records before, with the times of
    `created`."""
    moved: list[LoggedFile] = []
    for table in created:
        name = TableName.parse(table)
        epoch = known.open_epochs.get((name.schema, name.table), FIRST_EPOCH)
        parts = {
            record.key: record
            for record in known.living(name.schema, name.table)
            if record.kind is FileKind.LOAD and record.epoch == epoch
        }
        numbers = {key: _load_number(part, known.created[table]) for key, part in parts.items()}
        later = sorted({number for number in numbers.values() if number is not None})[1:]
        for key, number in numbers.items():
            if number in later:
                moved.append(
                    replace(
                        parts[key],
                        offset=new[-1].offset + len(moved) + 1,
                        logged_at=new[-1].logged_at,
                        epoch=epoch + 1 + later.index(number),
                        ranges=None,
                        moved_to=None,
                    )
                )
    return moved
