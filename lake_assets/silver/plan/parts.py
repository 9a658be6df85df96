"""Which rows of a file are read through which of its records in the log: a pure decision.

A file is read through the record that logged its content, by that record's contract. Rows that were quarantined and
requested again are read through the record that `quarantine retry` has added for them, and through no other: in every
replay, a row without a request stays out, and a good row has the values of its first read. Here: that choice. Not here:
which records a batch consists of (`planner.py`), reading (`silver/changes/reading.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.quarantine.quarantine_log import Quarantined, State


@dataclass(frozen=True, slots=True)
class Requested:
    """A row or a file that was quarantined, and for which `quarantine retry` was requested."""

    held: Quarantined
    at: datetime
    """When it was requested, UTC."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one record of the log contributes to a reading."""

    file: LoggedFile
    only: frozenset[int] | None = None
    """The places of the rows that are read, from 0; None for all."""
    without: frozenset[int] = frozenset()
    """The places of the rows that are not read, if all others are."""
    requested: tuple[Quarantined, ...] = ()
    """The rows or file for which the record was logged, as far as they are read."""

    @property
    def rows(self) -> int:
        """Number of rows, by the file's own count."""
        return len(self.only) if self.only is not None else (self.file.rows or 0) - len(self.without)


def request_of(requested: Requested, logged: Iterable[LoggedFile]) -> LoggedFile | None:
    """The record that was logged for the request; None when the command died before it logged one. The command records
    the state before it logs the record, so an earlier record is not for this request."""
    held = requested.held
    return next(
        (
            file
            for file in logged
            if file.retry
            and (file.key, file.version) == (held.key, held.version)
            and file.logged_at >= requested.at
        ),
        None,
    )


def parts_of(files: Sequence[LoggedFile], requested: Iterable[Requested]) -> list[Part]:
    """The rows to read through each record. `files` are log records, by offset: data files, and retry requests for
    quarantined rows. A request whose data file is not in `files` belongs to a file that an earlier batch has read.
    Leaves out a record through which nothing is read."""
    whole = {(file.key, file.version): file for file in files if not file.retry}
    given: dict[int, list[Quarantined]] = {}
    rows: list[tuple[Quarantined, LoggedFile]] = []
    requests = [file for file in files if file.retry]
    for one in requested if requests else ():
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
        base = whole.get((held.key, held.version))
        # A reload of one partition supersedes some rows of a transaction file, and the places of the others change. The
        # quarantined row is then read again, and is as bad as before by the contract of that time.
        if base is not None and not (base.partitions and base.rows is None):
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
