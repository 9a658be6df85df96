"""A finite history: a full load and days of CDC files, as fast as the machine can write them.

Here: the DMS task over simulated time: when the load reads, when each table flushes. Not here: the events in the city
(`demo/company/simulation.py`), a file's content (`demo/dms/dms_files.py`). `feed.py` continues where a history ends.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from lake_assets.demo.company.city import City
from lake_assets.demo.company.population import populate
from lake_assets.demo.company.simulation import Simulation
from lake_assets.demo.dms.dms_files import cdc_key, encode_cdc_file, encode_file, load_key, stream_of
from lake_assets.demo.dms.dms_layout import DmsLayout
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.dms.output_storage import ObjectStorage, open_storage
from lake_assets.demo.dms.written_files import WrittenFiles
from lake_assets.demo.source.bike_schema import SCHEMA, TABLES
from lake_assets.demo.source.source_changes import Change
from lake_assets.demo.source.source_database import SourceDatabase

Progress = Callable[[int, int], None]
"""Called with the changes so far and the requested changes, about once per flushed file."""

_TRANSFER_TIME_PER_ROW = timedelta(microseconds=1300)


class _HistoryTask:
    """A DMS task over simulated time: receives the database's changes and writes a stream's file at its flush time."""

    def __init__(
        self,
        database: SourceDatabase,
        storage: ObjectStorage,
        settings: DmsWriterSettings,
        flush_interval: timedelta,
    ) -> None:
        self._database = database
        self._storage = storage
        self._settings = settings
        self._flush_interval = flush_interval
        self._pending: dict[str, list[Change]] = {stream_of(name, settings): [] for name in TABLES}
        self._flush_at: dict[str, datetime] = {}
        self._loaded_at: datetime | None = None
        self.taken = 0
        self.newest_keys: dict[str, str] = {}
        self.written = WrittenFiles()

    def commit(self, changes: Sequence[Change]) -> None:
        """Take a transaction's changes."""
        # Without a key, a cached change cannot be distinguished from a row that the full load has already; so changes
        # of a keyless table before its load are only in the load.
        self.written.transactions += 1
        for change in changes:
            if self._loaded_at is not None or TABLES[change.table].primary_key:
                self.taken += 1
                stream = stream_of(change.table, self._settings)
                pending = self._pending[stream]
                if not pending and self._loaded_at is not None:
                    self._flush_at[stream] = self._database.last_commit + self._flush_interval
                pending.append(change)

    def full_load(self, read_at: datetime, part_rows: int) -> None:
        """Write the LOAD files: all tables as they are at `read_at`, transferred row by row from then on."""
        transferred_at = read_at
        for name, table in TABLES.items():
            layout = DmsLayout(table, self._settings)
            rows = list(self._database.stored_rows(name))
            for part, start in enumerate(range(0, len(rows), part_rows), start=1):
                content = layout.full_load(
                    rows[start : start + part_rows], transferred_at, _TRANSFER_TIME_PER_ROW
                )
                self._storage.write(
                    load_key(name, part, self._settings), encode_file(content, self._settings)
                )
                transferred_at += len(content.rows) * _TRANSFER_TIME_PER_ROW
                self.written.load_files += 1
                self.written.load_rows[name] += len(content.rows)
        self._loaded_at = transferred_at
        # DMS applies the changes that it cached only after the load.
        for name, pending in self._pending.items():
            if pending:
                self._flush_at[name] = transferred_at + self._flush_interval

    def flush_due(self, now: datetime) -> bool:
        """Write the files of all tables whose flush time is no later than `now`; returns whether there were any."""
        due = [name for name, at in self._flush_at.items() if at <= now]
        for name in sorted(due, key=lambda name: (self._flush_at[name], name)):
            self._write(name, self._flush_at.pop(name))
        return bool(due)

    def stop(self, at: datetime) -> None:
        """Write the remaining changes, as DMS does when a task is stopped."""
        for name in list(self._flush_at):
            self._write(name, at)
        self._flush_at.clear()

    def _write(self, name: str, flushed_at: datetime) -> None:
        changes, self._pending[name] = self._pending[name], []
        data, rows = encode_cdc_file(name, changes, self._settings)
        key = self.newest_keys[name] = cdc_key(name, flushed_at, self._settings)
        self._storage.write(key, data)
        self.written.cdc_files += 1
        for (table, op), number in rows.items():
            self.written.rows[table] += number
            self.written.ops[op] += number


def _clear(storage: ObjectStorage, database_path: Path, cdc_path: str | None, *, overwrite: bool) -> None:
    folders = [f"{SCHEMA}/{name}/" for name in TABLES] + ([f"{cdc_path}/CDC_TXN-"] if cdc_path else [])
    existing = [key for folder in folders for key in storage.list(folder)]
    if not overwrite and (existing or database_path.exists()):
        found = existing[0] if existing else database_path
        raise FileExistsError(
            f"{found} exists already, from a history that a new one would mix with; use overwrite=True"
        )
    for key in existing:
        storage.remove(key)
    for suffix in ("", "-wal", "-shm"):
        database_path.with_name(database_path.name + suffix).unlink(missing_ok=True)


def generate_history(
    location: str | Path,
    database_path: Path,
    *,
    seed: int = 1,
    changes: int = 200_000,
    days: float = 7,
    end: datetime,
    settings: DmsWriterSettings | None = None,
    flush_interval: timedelta = timedelta(hours=3),
    stations: int = 60,
    bikes: int = 700,
    members: int = 2_500,
    past_trips: int = 20_000,
    load_part_rows: int = 2_000,
    load_duration: timedelta = timedelta(minutes=15),
    endpoint_url: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> WrittenFiles:
    """Write a full load and at least `changes` rows of CDC files to `location`, and the source to `database_path`.

    The history lasts `days` and ends at `end` (with a zone): no commit and no file name is later. The same arguments
    give the same files, byte for byte. `past_trips` are in the full load; LOAD files hold up to `load_part_rows` rows;
    commits of the first `load_duration` are in the full load and (except for `app_events`) in CDC files too.

    The database is moved to its path after everything is written, so an existing one is complete. After a kill, call
    again with `overwrite`, which first removes the seven tables' files and the database.

    Raises FileExistsError without `overwrite` if either exists, ValueError for arguments that do not make a city.
    """
    began = time.monotonic()
    if end.tzinfo is None:
        raise ValueError(f"end {end} has no time zone")
    end = end.astimezone(UTC)
    start = end - timedelta(days=days)
    read_at = start + load_duration
    if not read_at + load_duration < end:
        raise ValueError(f"{days} days are too few for a full load of {load_duration}")
    settings = settings or DmsWriterSettings()
    storage = open_storage(location, endpoint_url=endpoint_url)
    _clear(storage, database_path, settings.cdc_path, overwrite=overwrite)

    database_path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = database_path.with_name(f".{database_path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    database = SourceDatabase(unfinished, create=True, commit_each=False)
    rng = Random(seed)
    populate(database, rng, start, stations=stations, bikes=bikes, members=members, past_trips=past_trips)
    city = City(database, rng)
    task = _HistoryTask(database, storage, settings, flush_interval)
    database.sink = task
    simulation = Simulation(city, start, end, changes=changes, written=lambda: task.taken)
    simulation.plan(read_at)
    simulation.schedule(read_at, lambda at: task.full_load(at, load_part_rows))
    for now in simulation.run():
        if task.flush_due(now) and progress is not None:
            progress(task.taken, changes)
    task.stop(end)

    for name, key in task.newest_keys.items():
        # The first file of a feed must come after this one, whatever the clock says then.
        database.connection.execute("INSERT INTO _files VALUES (?, ?, '', 1)", (key, name))
    database.set_state("settings", settings.to_json())
    database.save()
    database.close()
    unfinished.replace(database_path)
    task.written.seconds = time.monotonic() - began
    if progress is not None:
        progress(task.taken, changes)
    return task.written
