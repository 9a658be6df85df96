"""Full loads of a stream, told apart by DMS's messages that it creates their tables.

Here: pure decisions from those times and the parts' own. Not here: times of files alone (`epochs.py`), when tables were
created (`streams/stream_positions.py`).

The files in which a load lands have new names each time, and a table without changes shows no end of a load. But before
each load, DMS reports that it creates the table, and each row has the time of its transfer, on the same clock.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from lake_assets.bronze.log.known import FIRST_EPOCH
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.bronze.log.streams.stream_positions import load_number

File = NewFile | LoggedFile


def within_announced(
    epoch: int, file: File, loads: Mapping[int, Sequence[File]], created: Sequence[datetime]
) -> int:
    """The epoch nearest to `epoch` that a part may be of, by the creations of its table. `loads`: by epoch, the parts
    so far."""
    own = load_number_of(file, created)
    if own is None:
        return epoch
    # A part of the next load may be among those of a load, until the next creation has landed.
    numbers = {of: min(known) for of in loads if (known := [*_load_numbers(loads[of], created)])}
    least = max([epoch, *(of + 1 for of, number in numbers.items() if number < own)])
    return max(FIRST_EPOCH, min([least, *(of - 1 for of, number in numbers.items() if number > own)]))


def are_announced(parts: Iterable[LoggedFile], created: Sequence[datetime]) -> bool:
    """Whether DMS has said which load each part is of: it created the table before."""
    return all(load_number_of(part, created) for part in parts)


def _load_numbers(parts: Iterable[File], created: Sequence[datetime]) -> Iterator[int]:
    return (number for part in parts if (number := load_number_of(part, created)) is not None)


def load_number_of(file: File, created: Sequence[datetime]) -> int | None:
    """Which load of its table a part is of; None if nothing shows when it was transferred."""
    return None if file.first_commit_ts is None else load_number(created, file.first_commit_ts)
