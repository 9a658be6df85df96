"""Which rows of a file are read by which of its records in the log: a pure decision.

A file is decided by the record that brought its content, under that record's contract. Rows that were set aside and
asked for again are decided by the record that `quarantine retry` has added for them, and by no other: in every replay,
a row that nobody asked for stays out, and a good row says what it said when it was first read. Here: that choice. Not
here: which records a batch is made of (`planner.py`), reading (`silver/changes/reading.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.quarantine.quarantine_log import Held, State


@dataclass(frozen=True, slots=True)
class Asked:
    """A row or a file that was set aside and asked for again."""

    held: Held
    at: datetime
    """UTC; when it was asked for."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one record of the log contributes to a reading."""

    file: LoggedFile
    only: frozenset[int] | None = None
    """The places of the rows that are read, from 0; None for all."""
    without: frozenset[int] = frozenset()
    """Of all rows, the places of those that are not."""
    asked: tuple[Held, ...] = ()
    """What the record was logged for, as far as it is read."""

    @property
    def rows(self) -> int:
        """By the file's own count."""
        return len(self.only) if self.only is not None else (self.file.rows or 0) - len(self.without)


def request_of(asked: Asked, logged: Iterable[LoggedFile]) -> LoggedFile | None:
    """The record that was logged for it; None when the one who asked died before that. The state is recorded before
    the record is logged, so that no earlier record is meant."""
    held = asked.held
    return next(
        (
            file
            for file in logged
            if file.retry
            and (file.key, file.version) == (held.key, held.version)
            and file.logged_at >= asked.at
        ),
        None,
    )


def parts_of(files: Sequence[LoggedFile], asked: Iterable[Asked]) -> list[Part]:
    """What is read of `files`, records in the order of their offsets: one with the content of a file, and those that
    ask for rows of it; without the former, it was read by an earlier batch. A record of which nothing is to be read is
    left out."""
    whole = {(file.key, file.version): file for file in files if not file.retry}
    given: dict[int, list[Held]] = {}
    rows: list[tuple[Held, LoggedFile]] = []
    requests = [file for file in files if file.retry]
    for one in asked if requests else ():
        held, request = one.held, request_of(one, requests)
        place = held.key, held.version
        if request is None or (place not in whole and held.state is not State.RETRIED):
            continue
        if held.row is None:
            whole[place] = request
            given[request.offset] = [held]
        else:
            rows.append((held, request))
    only: dict[int, set[int]] = {}
    without: dict[int, set[int]] = {}
    for held, request in rows:
        assert held.row is not None, "those of whole files were handled above"
        only.setdefault(request.offset, set()).add(held.row)
        given.setdefault(request.offset, []).append(held)
        if (base := whole.get((held.key, held.version))) is not None:
            without.setdefault(base.offset, set()).add(held.row)
    read_whole = {file.offset for file in whole.values()}
    return [
        Part(
            file,
            None if file.offset in read_whole else frozenset(only[file.offset]),
            frozenset(without.get(file.offset, ())),
            tuple(given.get(file.offset, ())),
        )
        for file in files
        if file.offset in read_whole or file.offset in only
    ]
