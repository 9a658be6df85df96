"""The log hands out each offset once, loses nothing and repeats nothing, whoever appends at the same time."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.schema import Schema

import lake_assets
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log import file_log, file_log_maintenance
from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.log_record import LOG_SCHEMA, to_arrow
from lake_assets.iceberg.ops_table import PROPERTIES
from lake_assets.iceberg.upkeep import ops_maintenance
from lake_assets_tests.helpers.files.records import as_logged

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def log(open_catalog):
    log = FileLog(open_catalog(), clock=lambda: NOON)
    log.ensure()
    return log


def test_a_record_survives_the_round_trip(log, open_catalog, load, cdc):
    files = [
        load(1, rows=None, columns=None, first_commit_ts=None, size=5_000_000_000, format="parquet"),
        cdc(
            1,
            compression="gzip",
            columns=("Op", "größe"),
            first_commit_ts=NOON.replace(microsecond=1),
        ),
    ]
    logged = log.append("bikeshare", files)
    assert [record.offset for record in logged] == [1, 2]
    assert logged[0].kind is FileKind.LOAD
    assert logged[1].qualified_table == "public.trips"
    assert logged[1].logged_at == NOON
    for reader in (log, FileLog(open_catalog())):
        read = reader.files()
        assert read == logged
        assert read[1].kind is FileKind.CDC
        assert read[1].columns == ("Op", "größe")
        assert all(value is None for value in (read[0].rows, read[0].columns, read[0].flush_time))
        times = (read[1].last_modified, read[1].logged_at, read[1].flush_time, read[1].first_commit_ts)
        assert {time.tzinfo for time in times if time} == {UTC}


def test_a_log_that_was_never_written_to_is_empty(open_catalog):
    log = FileLog(open_catalog())
    assert (log.files(), log.files("s", "public.trips", 3, 4), log.newest("s"), log.head()) == ([], [], {}, 0)
    assert log.append("s", []) == []
    assert not open_catalog().table_exists("lake_ops.bronze_files"), "looking creates nothing"


def test_append_creates_what_it_needs(open_catalog, load):
    assert [record.offset for record in FileLog(open_catalog()).append("s", [load(1)])] == [1]


def test_one_sequence_over_all_sources(log, load):
    assert [r.offset for r in log.append("a", [load(1), load(2)])] == [1, 2]
    assert [r.offset for r in log.append("b", [load(1)])] == [3]
    assert [r.offset for r in log.append("a", [load(3)])] == [4]
    assert log.head() == 4
    assert list(log.newest("a")) == [load(n).key for n in (1, 2, 3)]
    assert [r.offset for r in log.newest("b").values()] == [3]


def test_what_is_known_is_not_logged_again(log, open_catalog, load, cdc):
    log.append("s", [load(1), cdc(1)])
    before = open_catalog().load_table("lake_ops.bronze_files").metadata_location
    assert log.append("s", [load(1), cdc(1)]) == []
    assert FileLog(open_catalog()).append("s", [cdc(1), load(1)]) == []
    assert open_catalog().load_table("lake_ops.bronze_files").metadata_location == before, "no commit"


def test_new_content_is_a_record_of_its_own(log, load, cdc):
    log.append("s", [load(1), cdc(1)])
    (again,) = log.append("s", [load(1), cdc(1, "v2")])
    assert (again.offset, again.version, again.epoch) == (3, "v2", 1)
    (reload,) = log.append("s", [load(1, "v2")])
    assert (reload.offset, reload.epoch) == (4, 2)
    assert {r.version for r in log.newest("s").values()} == {"v2"}


@pytest.mark.parametrize("warm", [False, True])
def test_reading_a_part(log, open_catalog, load, cdc, warm):
    log.append("a", [load(1), cdc(1), cdc(2)])
    log.append("b", [load(1), cdc(1, table="stations")])
    log.append("a", [cdc(1, table="o'hare"), cdc(3)])
    reader = FileLog(open_catalog())
    if warm:
        reader.head()

    def offsets(*args, **wanted):
        return [record.offset for record in reader.files(*args, **wanted)]

    assert offsets() == [1, 2, 3, 4, 5, 6, 7]
    assert offsets("a") == [1, 2, 3, 6, 7]
    assert offsets(table="public.trips") == [1, 2, 3, 4, 7]
    assert offsets("b", "public.stations") == [5]
    assert offsets("a", "public.o'hare") == [6]
    assert offsets("a", "public.trips", after=2) == [3, 7]
    assert offsets("a", "public.trips", after=1, upto=3) == [2, 3]
    assert offsets(upto=2) == [1, 2]
    assert offsets(after=7) == offsets(upto=0) == offsets(table="public.none") == offsets("c") == []


def test_a_reader_sees_what_others_append(open_catalog, load):
    reader, writer = FileLog(open_catalog()), FileLog(open_catalog())
    for number in range(1, 5):
        writer.append("s", [load(number)])
        assert reader.head() == number
        assert len(reader.newest("s")) == len(reader.files("s")) == number


def test_a_log_that_was_dropped_or_rolled_back(open_catalog, load):
    reader, writer, catalog = FileLog(open_catalog()), FileLog(open_catalog()), open_catalog()
    writer.append("s", [load(1)])
    first = catalog.load_table("lake_ops.bronze_files").current_snapshot()
    assert first is not None
    writer.append("s", [load(2)])
    assert reader.head() == 2
    catalog.load_table("lake_ops.bronze_files").manage_snapshots().rollback_to_snapshot(
        first.snapshot_id
    ).commit()
    assert reader.head() == writer.head() == 1
    assert [record.offset for record in writer.append("s", [load(2)])] == [2]
    catalog.drop_table("lake_ops.bronze_files")
    assert (reader.head(), reader.files(), writer.head()) == (0, [], 0)
    assert [record.offset for record in writer.append("s", [load(3)])] == [1]
    assert [record.key for record in reader.files()] == [load(3).key]


def test_ensure_restores_what_the_log_rests_on(log, open_catalog, load):
    table = open_catalog().load_table("lake_ops.bronze_files")
    with table.transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "4"})
    FileLog(open_catalog()).append("s", [load(1)])
    assert open_catalog().load_table("lake_ops.bronze_files").properties["commit.retry.num-retries"] == "0"


def test_many_create_the_log_at_once(open_catalog):
    logs = [FileLog(open_catalog()) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(FileLog.ensure, logs))
    assert open_catalog().table_exists("lake_ops.bronze_files")


def test_an_append_between_reading_and_committing(log, open_catalog, load, cdc, monkeypatch):
    """Another process logs one of the two files after this one has looked: no offset twice, no file twice."""
    other = FileLog(open_catalog())
    interruptions = count()

    def interrupted(records):
        if next(interruptions) == 0:
            assert len(other.append("s", [cdc(1), cdc(9)])) == 2
        return to_arrow(records)

    monkeypatch.setattr(file_log, "to_arrow", interrupted)
    logged = log.append("s", [load(1), cdc(1)])
    assert [(record.key, record.offset) for record in logged] == [(load(1).key, 3)]
    assert [record.offset for record in FileLog(open_catalog()).files()] == [1, 2, 3]


def test_a_stale_listing_does_not_bring_back_old_content(log, open_catalog, load):
    head = log.head()
    FileLog(open_catalog()).append("s", [load(1, "newer")])
    assert log.append("s", [load(1, "older")], based_on=head) == []
    assert [record.version for record in log.files()] == ["newer"]


def test_content_that_was_logged_since_in_another_folder(log, open_catalog, cdc):
    """Nobody has asked whether that object is still there: the next scan asks, and decides."""
    head, there = log.head(), cdc(1, content="digest")
    moved = replace(there, key=there.key.replace("trips/", "trips/20240501/"))
    FileLog(open_catalog()).append("s", [there])
    assert log.append("s", [moved], based_on=head) == []
    (copy,) = log.append("s", [moved], absent=log.elsewhere("s", [moved]))
    assert copy.copy_of == 1


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_of_unknown_outcome(open_catalog, load, monkeypatch, landed):
    catalog = open_catalog()
    log = FileLog(catalog)
    log.ensure()
    commit_table, calls = catalog.commit_table, count()

    def lose_the_answer(*args):
        if next(calls) > 0:
            return commit_table(*args)
        if landed:
            commit_table(*args)
        raise CommitStateUnknownException("no answer")

    monkeypatch.setattr(catalog, "commit_table", lose_the_answer)
    assert [record.offset for record in log.append("s", [load(1), load(2)])] == [1, 2]
    assert [record.offset for record in FileLog(open_catalog()).files()] == [1, 2]


def test_gives_up_when_others_always_win(open_catalog, load, monkeypatch):
    catalog = open_catalog()
    log = FileLog(catalog)
    log.ensure()
    attempts = count()

    def refuse(*_):
        next(attempts)
        raise CommitFailedException("main has moved")

    monkeypatch.setattr(catalog, "commit_table", refuse)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    with pytest.raises(CommitFailedException):
        log.append("s", [load(1)])
    assert next(attempts) == 30
    monkeypatch.undo()
    assert log.append("s", [load(1)])[0].offset == 1, "nothing had been logged"


@pytest.mark.slow
def test_threads_that_append_at_once(open_catalog, cdc, monkeypatch):
    """Four writers with catalogs of their own, maintenance in between; each file is offered by two of them."""
    monkeypatch.setattr(file_log_maintenance, "MAX_SNAPSHOTS", 8)
    monkeypatch.setattr(ops_maintenance, "KEEP_SNAPSHOTS", 3)
    monkeypatch.setattr(file_log_maintenance, "MAX_SMALL_FILES", 8)

    def write(writer):
        log = FileLog(open_catalog())
        logged = []
        for number in range(10):
            shared = cdc(100 * (writer // 2) + number)
            logged += log.append("s", [cdc(1000 * (writer + 1) + number), shared])
        return logged

    with ThreadPoolExecutor(4) as pool:
        claimed = [record for logged in pool.map(write, range(4)) for record in logged]
    log = FileLog(open_catalog())
    assert sorted(claimed, key=lambda record: record.offset) == log.files()
    assert [record.offset for record in log.files()] == list(range(1, 61))
    assert len({record.key for record in log.files()}) == 60
    assert log.head() == len(log.newest("s")) == 60


WRITER = """
import pickle, sys
from pyiceberg.catalog.sql import SqlCatalog
from lake_assets.bronze.log.file_log import FileLog, LoggedFile

folder, files = pickle.load(sys.stdin.buffer)
uri, warehouse = f"sqlite:///{folder}/catalog.db?timeout=30", f"file://{folder}/warehouse"
log = FileLog(SqlCatalog("lake", uri=uri, warehouse=warehouse))
print(*(record.offset for file in files for record in log.append("s", [file])))
"""


@pytest.mark.slow
def test_processes_that_append_at_once(open_catalog, tmp_path, cdc):
    """Two processes, from creating the table on."""
    root = str(Path(lake_assets.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    writers = []
    for writer in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        files = [cdc(number) for number in (*range(3), *range(10 * writer + 10, 10 * writer + 15))]
        process.stdin.write(pickle.dumps((str(tmp_path), files)))
        process.stdin.close()
        writers.append(process)
    claimed = []
    for process in writers:
        assert process.stdout is not None
        claimed += [int(offset) for offset in process.stdout.read().split()]
        process.stdout.close()
        assert process.wait() == 0
    assert (
        sorted(claimed) == [record.offset for record in FileLog(open_catalog()).files()] == list(range(1, 14))
    )


def test_a_log_of_an_earlier_version_gains_the_columns_it_lacks(open_catalog, load, cdc):
    """By name: in a log that gained `irregular` later, the column has another id than in one that began with it."""
    earlier = Schema(*(field for field in LOG_SCHEMA.fields if field.name != "irregular"))
    catalog = open_catalog()
    catalog.create_namespace("lake_ops")
    table = catalog.create_table("lake_ops.bronze_files", earlier, properties=PROPERTIES)
    old = FileLog(open_catalog()).append("s", [])
    assert old == []
    known = [name for name in LOG_SCHEMA.column_names if name != "irregular" and "." not in name]
    record = as_logged(load(1), 1)
    table.append(to_arrow([record]).select(known))
    assert FileLog(open_catalog()).files()[0] == record, "readable before any writer has come"
    log = FileLog(open_catalog())
    log.ensure()
    log.append("s", [cdc(1, irregular="it has NUL characters", columns=("Op", "id"))])
    assert [file.irregular for file in FileLog(open_catalog()).files()] == [None, "it has NUL characters"]
    assert [file.columns for file in FileLog(open_catalog()).files()] == [("Op", "trip_id"), ("Op", "id")]
