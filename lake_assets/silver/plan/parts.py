"""Which rows of a file are read through which of its records in the log: a pure decision.

A file is read through the record that logged its content, by that record's contract. Rows that were quarantined and
requested again are read through the record that `quarantine retry` has added for them, and through no other: in every
replay, a row without a request stays out, and a good row has the values of its first read. Here: that choice. Not here:
which records a batch consists of (`planner.py`), reading (`silver/changes/reading.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

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

    def takes(self, place: int) -> bool:
        """Whether the row at the place is read."""
        return place in self.only if self.only is not None else place not in self.without

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


def parts_of(
    files: Sequence[LoggedFile],
    requested: Iterable[Requested] = (),
    counted_among: Mapping[tuple[str, str], str | None] = MappingProxyType({}),
) -> list[Part]:
    """The rows to read through each record. `files` are log records, by offset: data files, and retry requests for
    quarantined rows. A request whose data file is not in `files` belongs to a file that an earlier batch has read.
    Leaves out a record through which nothing is read. `counted_among`: by key and version, that of the files from which
    the table is computed today."""
    whole = {(file.key, file.version): file for file in files if not file.retry}
    today = {**counted_among, **{place: file.counted_among for place, file in whole.items()}}
    given: dict[int, list[Quarantined]] = {}
    rows: list[tuple[Quarantined, LoggedFile]] = []
    requests = [file for file in files if file.retry]
    for one in requested if requests else ():
        held, request = one.held, request_of(one, requests)
        place = held.key, held.version
        if request is None or (place not in whole and held.state is not State.RETRIED):
            continue
        # Other globs, or a reload of one partition: the place is another row's now. The row was read with all others by
        # the contract of that time, and is held once more.
        if not held.counts_among(today.get(place)):
            continue
        if held.row is None:
            whole[place] = _of_names(request, today.get(place))
            given[request.offset] = [held]
        else:
            rows.append((held, request))
    read = {file.offset: file for file in whole.values()}
    only: dict[int, set[int]] = {}
    without: dict[int, set[int]] = {}
    for held, request in rows:
        assert held.row is not None, "those of whole files were handled above"
        place = held.key, held.version
        given.setdefault(request.offset, []).append(held)
        if place in whole:
            without.setdefault(whole[place].offset, set()).add(held.row)
        if request.offset not in read or request.offset in only:
            only.setdefault(request.offset, set()).add(held.row)
            read[request.offset] = _of_names(request, today.get(place))
    return [
        Part(
            read[file.offset],
            frozenset(only[file.offset]) if file.offset in only else None,
            frozenset(without.get(file.offset, ())),
            tuple(given.get(file.offset, ())),
        )
        for file in files
        if file.offset in read
    ]


def _of_names(request: LoggedFile, names: str | None) -> LoggedFile:
    """The request, for the rows of these names; lake.yaml may have had others when it was logged."""
    if names is None or names == request.counted_among:
        return request
    return replace(request, partitions=tuple(names.split("\n")), rows=None)
