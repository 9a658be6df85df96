"""The quarantine: rows that cannot be used, and files that cannot be read, in the Iceberg table `lake_ops.quarantine`.

Here: its records and their states. Not here: deciding that a row is bad (`bronze/decode/changes.py`), how much may
be quarantined (`silver/batch/quarantine.py`), reading rows again (`commands/mend/quarantine_commands.py`).

Append-only: each change of state of a row or file is an event, and the newest event is its state. Silver table, file
version and place in the file identify a row, so a batch that is tried again quarantines no row twice.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum

import pyarrow as pa
from pyiceberg.catalog import Catalog

from lake_assets.iceberg.ops_table import OpsTable, Row, ops_schema
from lake_assets.table_name import TableName


class State(StrEnum):
    """The state of a row or a file."""

    HELD = "held"
    """Quarantined, and waiting for a decision."""
    RETRIED = "retried"
    """To be read again by the next batch."""
    RELEASED = "released"
    """Applied by a later batch."""
    SUPERSEDED = "superseded"
    """Its file was rewritten since, or a reload contains the row."""
    DISCARDED = "discarded"
    """Given up by a user's decision."""


OPEN = (State.HELD, State.RETRIED)

ERASED = "erased"
"""The reason of an entry whose text an erasure has removed."""
IN_NO_FILE = "stream"
"""The version of a message of a stream that cannot be read: no file has it, so that no batch decides on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A row, or a whole file if `row` is None, in one state."""

    silver_table: str
    """`namespace.table`."""
    source: str
    table: str
    """`schema.table` at the source."""
    key: str
    version: str
    log_offset: int
    row: int | None
    """From 0, without the header."""
    line: int | None
    """The line of the file in which the row begins, from 1."""
    raw: str | None
    """The row's own text; of a Parquet row, as JSON."""
    reason: str
    batch: str
    """The files of the batch that quarantined it."""
    state: State = State.HELD
    at: datetime
    """When the state began, UTC."""
    counted_among: str | None = None
    """The names among whose rows in a transaction file `row` counts (`LoggedFile.counted_among`); None if that was not
    recorded yet."""
    counted_in: str | None = None
    """The erasure that moved the file's rows last (`ErasureLog.places`); None if none has."""

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits."""
        place = f"{self.silver_table}\n{self.key}\n{self.version}\n{self.row}"
        if self.counted_among is not None and self.counted_among != TableName.parse(self.table).table:
            place += f"\n{self.counted_among}"
        return hashlib.sha256(place.encode()).hexdigest()[:12]

    def counts_among(self, names: str | None) -> bool:
        """Whether the row's place counts among the rows of these names; not known of an earlier release's entry."""
        return self.row is None or self.counted_among in (None, names)


_SCHEMA = ops_schema(
    id="string not null",
    state="string not null",
    silver_table="string not null",
    source="string not null",
    table="string not null",
    key="string not null",
    version="string not null",
    log_offset="long not null",
    row="long",
    line="long",
    raw="string",
    reason="string not null",
    batch="string not null",
    at="timestamptz not null",
    number="long not null",
    counted_among="string",
    counted_in="string",
)


@dataclass(frozen=True, slots=True)
class _Known:
    newest: Mapping[str, Quarantined]
    """By id, in the order in which they were first quarantined."""
    requested: Mapping[str, datetime]
    """By id, when the retry was requested that is pending or has led to the release."""
    number: int
    """The number of the newest event."""


class Quarantine:
    """One catalog's quarantine. May be shared between threads and processes."""

    def __init__(self, catalog: Catalog) -> None:
        self._table = OpsTable(catalog, "quarantine", _SCHEMA, _known)

    def all(self, silver_table: str | None = None) -> list[Quarantined]:
        """Everything ever quarantined, in its present state, the oldest first."""
        return [
            held for held in self._table.parsed().newest.values() if silver_table in (None, held.silver_table)
        ]

    def open(self, silver_table: str | None = None) -> list[Quarantined]:
        """What is held or retried now."""
        return [held for held in self.all(silver_table) if held.state in OPEN]

    def requested(self, silver_table: str) -> list[tuple[Quarantined, datetime]]:
        """What is being retried or was released by its retry, with the time (UTC) of the request."""
        known = self._table.parsed()
        return [
            (known.newest[id_], at)
            for id_, at in known.requested.items()
            if known.newest[id_].silver_table == silver_table
        ]

    def forget(self, silver_table: str) -> None:
        """Removes a table's entries. Raises as `OpsTable.forget`."""
        self._table.forget("silver_table", silver_table)

    def rename(self, silver_table: str, new: str) -> None:
        """Assigns a table's entries to its new name. Raises as `OpsTable.rename`."""
        self._table.rename("silver_table", silver_table, new)

    def add(self, found: Sequence[Quarantined]) -> list[Quarantined]:
        """Records the entries that are not recorded yet, in one commit, and returns them. A discarded entry stays
        discarded; a released or superseded one is recorded again."""
        again = (State.RELEASED, State.SUPERSEDED)
        return self._record(found, lambda known, held: known is None or known.state in again)

    def becomes(self, found: Iterable[Quarantined], state: State) -> list[Quarantined]:
        """Gives open entries another state, and returns those that changed."""
        now = datetime.now(UTC)
        return self._record(
            [replace(held, state=state, at=now) for held in found],
            lambda known, held: known is not None and known.state in OPEN and known.state is not held.state,
        )

    def forget_texts(self, source: str, table: str) -> None:
        """Removes texts and reasons of the entries that wait for no decision. Raises as `OpsTable.replace`."""

        def concerned(held: Quarantined) -> bool:
            shows = held.raw is not None or held.reason != ERASED
            return (held.source, held.table) == (source, table) and held.state not in OPEN and shows

        def left(known: _Known) -> list[Row]:
            found = known.newest.items()
            return _states(
                {i: replace(h, raw=None, reason=ERASED) if concerned(h) else h for i, h in found}, known
            )

        if any(map(concerned, self.all())):
            self._table.replace(left)

    def erase(
        self, source: str, table: str, key: str, rows: Collection[int], *, before: str | None, after: str
    ) -> None:
        """Forgets the entries of these rows of a file, and counts its other rows without them. `before`, `after`: the
        states of the file's places (`counted_in`); entries of another state are as they should be. Raises as
        `OpsTable.replace`."""

        def concerned(held: Quarantined) -> bool:
            in_file = (held.source, held.table, held.key) == (source, table, key) and held.row is not None
            return in_file and held.counted_in == before

        def left(known: _Known) -> list[Row]:
            kept = dict[str, Quarantined]()
            for id_, held in known.newest.items():
                place = held.row
                if not concerned(held) or place is None:
                    kept[id_] = held
                elif place not in rows:
                    place -= sum(row < place for row in rows)
                    kept[id_] = replace(held, row=place, line=None, counted_in=after)
            return _states(kept, known)

        if any(map(concerned, self.all())):
            self._table.replace(left)

    def _record(
        self, found: Sequence[Quarantined], wanted: Callable[[Quarantined | None, Quarantined], bool]
    ) -> list[Quarantined]:
        if not found:
            return []
        by_id = {held.id: held for held in found}

        def new(known: _Known) -> list[Row]:
            return _rows(
                [held for held in by_id.values() if wanted(known.newest.get(held.id), held)], known.number
            )

        return [by_id[row["id"]] for row in self._table.append(new)]


def _states(kept: Mapping[str, Quarantined], known: _Known) -> list[Row]:
    """The entries as events, each in its newest state; `kept`: by their former ids."""
    events: list[Quarantined] = []
    for id_, held in kept.items():
        if held.state is State.RELEASED and id_ in known.requested:
            events.append(replace(held, state=State.RETRIED, at=known.requested[id_]))
        events.append(held)
    return _rows(events, known.number)


def newest_states(rows: pa.Table) -> pa.Table:
    """The events of the table without those that a newer one of the same entry has replaced."""
    known = _known(rows.to_pylist())
    return pa.Table.from_pylist(_states(known.newest, known), schema=rows.schema)


def _rows(events: Iterable[Quarantined], before: int) -> list[Row]:
    """The events as rows; `before`: the number of the newest one that there is."""
    return [
        {**asdict(held), "id": held.id, "number": number}
        for number, held in enumerate(events, start=before + 1)
    ]


def _known(rows: Sequence[Row]) -> _Known:
    found: dict[str, Quarantined] = {}
    requested: dict[str, datetime] = {}
    number = 0
    for row in sorted(rows, key=lambda row: int(row["number"])):
        # A later release may have added columns.
        values = {field.name: row[field.name] for field in fields(Quarantined) if field.name in row}
        values["state"], values["at"] = State(values["state"]), values["at"].astimezone(UTC)
        found[row["id"]], number = Quarantined(**values), row["number"]
        if values["state"] is State.RETRIED:
            requested[row["id"]] = values["at"]
        elif values["state"] is not State.RELEASED:
            requested.pop(row["id"], None)
    return _Known(found, requested, number)
