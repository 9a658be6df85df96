"""The files of the benchmark: a full load, and batches of changes of a valid history.

Updates and deletes are of existing rows, inserts of new keys. Here: which keys, and the files as DMS writes them
(Parquet with row groups of 10,024 rows, format 1.0; or CSV). Not here: who applies them (`contenders.py`).
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks import reading

COLUMNS = reading.COLUMNS | {"station": "long", "city": "string", "counter": "long"}
BEGUN = datetime(2026, 3, 1, 12, tzinfo=UTC)
LOADED = BEGUN - timedelta(hours=1)
FORMATS = {
    "parquet": "FORMAT parquet, COMPRESSION gzip, PARQUET_VERSION v1, ROW_GROUP_SIZE 10_024",
    "csv": "FORMAT csv, HEADER",
}


def values(note: str) -> str:
    """The columns of a row of `id` and `version`, with this text."""
    return f"""
    id,
    'customer ' || (id % 997) AS name,
    {note} AS note,
    ((id + version) % 10000 / 100)::DECIMAL(12, 2) AS price,
    ((id + version) % 50)::INTEGER AS quantity,
    TIMESTAMPTZ '2026-03-01 12:00:00+00' + INTERVAL (id % 86400) SECOND AS started_at,
    DATE '2026-01-01' + (id % 365)::INTEGER AS day,
    id % 3 = 0 AS active,
    (id + version) / 7.0::DOUBLE AS score,
    id % 5000 AS station,
    'city ' || (id % 77) AS city,
    version AS counter
"""


NOTE = "'a note about ' || id || ' of version ' || version"
VALUES = values(NOTE)


@dataclass(frozen=True, slots=True)
class Workload:
    """A kind of batch."""

    name: str
    changes: int
    files: int = 8
    newest: float = 1.0
    """Updates and deletes are of this share of the keys, the newest ones."""
    inserts_only: bool = False


WORKLOADS = (
    Workload("1,000 uniform", 1_000, files=1),
    Workload("100,000 uniform", 100_000),
    Workload("1,000,000 uniform", 1_000_000),
    Workload("1,000,000 of the newest 5 %", 1_000_000, newest=0.05),
    Workload("1,000,000 inserts", 1_000_000, inserts_only=True),
    Workload("100,000 in 500 files", 100_000, files=500),
)


@dataclass
class Source:
    """A source table and its DMS files in `folder`."""

    folder: Path
    rows: int
    table: str = "items"
    ending: str = "parquet"
    """Parquet or csv."""
    values: str = VALUES
    chosen: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    batches: int = 0
    change: int = 1
    """The number of the next change. It is not 0: the lake itself makes sequences that end with zeros."""

    def __post_init__(self) -> None:
        self.alive = np.arange(self.rows, dtype=np.int64)
        """The keys of the source's rows, in order."""
        self.next_key = self.rows
        self._versions = np.zeros(self.rows, np.int64)
        """By key, also of deleted rows, the newest version."""
        self._duckdb = duckdb.connect()
        self._duckdb.execute("SET TimeZone = 'UTC'")
        (self.folder / "public" / self.table).mkdir(parents=True)

    def load(self, files: int = 8) -> list[Path]:
        """Writes the full load."""
        written = []
        for number, keys in enumerate(np.array_split(self.alive, files)):
            rows = pa.table({"id": keys, "version": np.zeros(len(keys), np.int64)})
            extra = f"'I' AS Op, '{LOADED:%Y-%m-%d %H:%M:%S}.{number:06d}' AS commit_ts"
            written.append(self._write(rows, f"LOAD{number + 1:08d}", extra, "'' AS change_seq"))
        return written

    def changes(self, workload: Workload) -> list[Path]:
        """Writes a batch: 80 % updates, 10 % inserts, 10 % deletes, in random order, or inserts only."""
        self.batches += 1
        inserted = workload.changes if workload.inserts_only else workload.changes // 10
        deleted = 0 if workload.inserts_only else inserted
        updated = workload.changes - inserted - deleted
        pool = self.alive[len(self.alive) - int(len(self.alive) * workload.newest) :]
        gone = self.chosen.choice(pool, deleted, replace=False)
        kept = np.setdiff1d(pool, gone, assume_unique=True)
        fresh = np.arange(self.next_key, self.next_key + inserted, dtype=np.int64)
        # Some rows are updated several times.
        again = self.chosen.choice(kept, updated) if updated else fresh[:0]
        ops = np.repeat(["I", "U", "D"], [inserted, updated, deleted])
        keys = np.concatenate([fresh, again, gone])
        order = self.chosen.permutation(len(keys))
        self.next_key += inserted
        self.alive = np.concatenate([np.setdiff1d(self.alive, gone, assume_unique=True), fresh])
        number = np.arange(self.change, self.change + len(keys), dtype=np.int64)
        self.change += len(keys)
        rows = pa.table({"Op": ops[order], "id": keys[order], "version": number + 1, "number": number})
        self._versions = np.append(self._versions, np.zeros(inserted, np.int64))
        self._versions[keys[order]] = number + 1  # the last one of a key stays
        return [self._file(rows, part, place) for place, part in enumerate(self._parts(rows, workload.files))]

    def expected(self) -> Path:
        """Writes the rows that the source has now, without any columns of DMS, as one Parquet file."""
        rows = pa.table({"id": self.alive, "version": self._versions[self.alive]})
        self._duckdb.register("given", rows)
        path = self.folder.parent / f"{self.table}.parquet"
        self._duckdb.execute(f"COPY (SELECT {self.values} FROM given) TO '{path}' ({FORMATS['parquet']})")
        return path

    def _parts(self, rows: pa.Table, files: int) -> list[tuple[int, int]]:
        each = -(-rows.num_rows // files)
        return [(first, each) for first in range(0, rows.num_rows, each)]

    def _file(self, rows: pa.Table, part: tuple[int, int], place: int) -> Path:
        flushed = BEGUN + timedelta(minutes=self.batches, milliseconds=place)
        committed = flushed - timedelta(seconds=30)
        extra = f"Op, '{committed:%Y-%m-%d %H:%M:%S.%f}' AS commit_ts"
        sequence = f"'{committed:%Y%m%d%H%M%S}00' || lpad(number::VARCHAR, 19, '0') AS change_seq"
        name = f"{flushed:%Y%m%d-%H%M%S}{flushed.microsecond // 1000:03d}"
        return self._write(rows.slice(*part), name, extra, sequence)

    def _write(self, rows: pa.Table, name: str, before: str, after: str) -> Path:
        path = self.folder / f"public/{self.table}/{name}.{self.ending}"
        hidden = path.with_name(f".{path.name}")
        self._duckdb.register("given", rows)
        rows_of_file = f"SELECT {before}, {self.values}, {after} FROM given"
        if self.ending == "csv":  # without the zone
            rows_of_file = f"SELECT * REPLACE (started_at::TIMESTAMP AS started_at) FROM ({rows_of_file})"
        self._duckdb.execute(f"COPY ({rows_of_file}) TO '{hidden}' ({FORMATS[self.ending]})")
        hidden.replace(path)
        return path
