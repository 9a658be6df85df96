"""The erasures of a lake, in the Iceberg table `lake_ops.erasures`: what was erased when, without the keys.

An erasure that was killed is finished by the same command. What it removes from which file is noted before the file is
written: afterwards, the file does not show it. Once it is finished, its table has no value of a row any more. Here:
those notes. Not here: erasing (`commands/erase/erase.py`).
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog

from lake_assets.errors import LakeError
from lake_assets.iceberg.ops_table import OpsTable, Row, ops_schema

NAME = "erasures"
Keys = Collection[tuple[str, ...]]
"""By key, a text for each of its columns."""
_SCHEMA = ops_schema(
    id="string not null",
    source="string not null",
    table="string not null",
    began="timestamptz not null",
    finished="timestamptz",
    reference="string",
    keys="long not null",
    proof="string",
    sought="string not null",
    files="string not null",
)


@dataclass(frozen=True, slots=True)
class ErasedFile:
    """What is erased from one object."""

    key: str
    logged_as: str
    """The key of the file's first record in the log, which the quarantine names."""
    before: str
    """The version of the object with the rows."""
    rows: tuple[int, ...]
    """The places of the rows, from 0, among those of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """One erasure of one source table."""

    id: str
    source: str
    table: str
    began: datetime
    """UTC."""
    finished: datetime | None = None
    """UTC; None until it is proven that nothing is left."""
    reference: str | None = None
    """The user's own, such as the number of the request."""
    keys: int
    proof: str | None = None
    """By which the same keys are recognised until it is finished."""
    sought: frozenset[str] = frozenset()
    """Until it is finished, the values that nothing may have in the end: what is erased shows them no more."""
    files: tuple[ErasedFile, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows were removed from files."""
        return sum(len(file.rows) for file in self.files)

    def state_of(self, file: ErasedFile) -> str:
        """Names the places of the file's rows once it was written without the erased ones."""
        return f"{self.id} {file.before}"

    def with_file(self, file: ErasedFile) -> "Erasure":
        """With a further file, or with the same one noted again."""
        others = (each for each in self.files if (each.key, each.before) != (file.key, file.before))
        return replace(self, files=(*others, file))


class ErasureLog:
    """The erasures of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._table = OpsTable(catalog, NAME, _SCHEMA, _parsed)

    def states(self, source: str, table: str) -> dict[str, list[str]]:
        """By key of a file's first record in the log, the states of its places, the newest last: each erasure of rows
        moves the rows behind them."""
        found: dict[str, list[str]] = {}
        for each in self.all():
            if (each.source, each.table) == (source, table):
                for file in each.files:
                    found.setdefault(file.logged_as, []).append(each.state_of(file))
        return found

    def all(self) -> tuple[Erasure, ...]:
        """Every erasure, the oldest first."""
        return self._table.parsed()

    def unfinished(self, source: str, table: str, keys: Keys) -> Erasure | None:
        """The erasure of these keys that is not finished. Raises LakeError while one of other keys of the table is not:
        what it has removed from which file is needed to finish it."""
        for each in self.all():
            if each.finished is None and (each.source, each.table) == (source, table):
                if each.proof == _proof(each.id, keys):
                    return each
                named = f" ({each.reference})" if each.reference else ""
                raise LakeError(
                    f"{table}: the erasure of {each.began:%Y-%m-%d %H:%M} UTC{named} is not finished: run it again "
                    "first, with the same keys."
                )
        return None

    def begin(self, source: str, table: str, keys: Keys, reference: str | None) -> Erasure:
        """A new erasure, or the one of these keys that is not finished. Raises as `unfinished`."""
        if (known := self.unfinished(source, table, keys)) is not None:
            return known
        id_ = secrets.token_hex(6)
        new = Erasure(
            id=id_,
            source=source,
            table=table,
            began=datetime.now(UTC),
            reference=reference,
            keys=len(keys),
            proof=_proof(id_, keys),
        )
        self.note(new)
        return new

    def note(self, erasure: Erasure) -> None:
        """Replaces what is known of the erasure. Raises as `OpsTable.replace`."""

        def changed(known: tuple[Erasure, ...]) -> Sequence[Row]:
            return _rows([*(each for each in known if each.id != erasure.id), erasure])

        self._table.replace(changed)


def _proof(id_: str, keys: Keys) -> str:
    return hmac.digest(id_.encode(), json.dumps(sorted(keys)).encode(), hashlib.sha256).hex()


def _rows(erasures: Iterable[Erasure]) -> list[Row]:
    return [
        {
            **asdict(each),
            "sought": json.dumps(sorted(each.sought)),
            "files": json.dumps([asdict(file) for file in each.files]),
        }
        for each in erasures
    ]


def _parsed(rows: Sequence[Row]) -> tuple[Erasure, ...]:
    found = []
    for row in rows:
        files = tuple(
            ErasedFile(**{**file, "rows": tuple(file["rows"])}) for file in json.loads(row["files"])
        )
        times = {name: row[name] and row[name].astimezone(UTC) for name in ("began", "finished")}
        sought = frozenset(json.loads(row["sought"]))
        found.append(Erasure(**{**row, **times, "sought": sought, "files": files}))
    return tuple(sorted(found, key=lambda each: each.began))
