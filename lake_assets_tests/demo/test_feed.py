"""A live feed continues, stops cleanly, and survives being killed between any two steps."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.dms.output_storage import LocalStorage
from lake_assets.demo.feed import run_feed
from lake_assets.demo.outbox import Outbox
from lake_assets.demo.replay import read_files
from lake_assets.demo.source.bike_schema import TABLES
from lake_assets_tests.helpers.oracles.demo_history import History, differences, make_history
from lake_assets_tests.helpers.processes.faults import Killed, killed


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return make_history(tmp_path_factory.mktemp("small"), changes=800, days=1)


@pytest.fixture
def copy(small, tmp_path) -> History:
    """A small history of this test's own."""
    shutil.copytree(small.folder, tmp_path / "bronze")
    shutil.copy(small.database, tmp_path / "source.db")
    return History(tmp_path / "bronze", tmp_path / "source.db", small.settings, small.written)


def feed(history: History, **arguments):
    arguments = {"rate": 1_500, "flush_seconds": 0.15, "duration": 0.5, "seed": 3, **arguments}
    return run_feed(history.folder, history.database, **arguments)


def waiting(history: History) -> int:
    connection = sqlite3.connect(history.database)
    try:
        return connection.execute("SELECT count(*) FROM _outbox").fetchone()[0]
    finally:
        connection.close()


def agree(history: History) -> bool:
    return waiting(history) == 0 and differences(history.folder, history.database, history.settings) == {}


def test_two_feeds_continue_a_history(copy):
    before = copy.files()
    began = datetime.now(UTC)
    # Seconds rather than tenths: what a feed gets done in them depends on what else the machine does.
    first, second = feed(copy, duration=3.0), feed(copy, seed=4, duration=3.0)
    assert min(first.changes, second.changes) > 100
    assert agree(copy)
    after = copy.files()
    assert before.items() <= after.items(), "no file of the history was touched"
    assert len(after) == len(before) + first.cdc_files + second.cdc_files
    for table in TABLES:
        _, changes = read_files(copy.folder, table, copy.settings)
        # In order of file names, so that a reader that goes by them is right, too.
        by_name = sorted(changes, key=lambda row: row.key)
        assert by_name == changes
        fresh = [row for row in changes if row.committed_at > began.strftime("%Y-%m-%d %H:%M:%S.%f")]
        assert fresh or table == "stations"
        assert {row.key for row in fresh}.isdisjoint(before)


def test_trips_that_were_open_end_in_the_feed(copy):
    connection = sqlite3.connect(copy.database)
    running = {trip for (trip,) in connection.execute("SELECT trip_id FROM trips WHERE ended_at IS NULL")}
    assert running
    feed(copy, duration=2.0)
    still = {trip for (trip,) in connection.execute("SELECT trip_id FROM trips WHERE ended_at IS NULL")}
    connection.close()
    assert running - still, "the history's trips are found again"
    assert still, "and new ones begin"


@pytest.mark.parametrize(
    "settings",
    [
        DmsWriterSettings(data_format="parquet"),
        DmsWriterSettings(change_sequence_column=None, add_column_name=False),
        DmsWriterSettings(preserve_transactions=True, cdc_path="cdc", add_column_name=False),
    ],
)
def test_the_feed_writes_like_its_history(tmp_path, settings):
    made = make_history(tmp_path, settings, changes=500, days=1)
    assert feed(made).changes > 50
    assert agree(made)


def test_rate(copy):
    # A busy machine may keep one of them from its pace, not all.
    tries = (feed(copy, rate=100, duration=1.0, flush_seconds=0.3) for _ in range(5))
    assert any(60 < found.changes < 160 and 3 * 2 <= found.cdc_files <= 7 * 5 for found in tries)


def test_a_history_that_ends_in_the_future(tmp_path):
    made = make_history(tmp_path, changes=500, days=1, end=datetime.now(UTC) + timedelta(hours=1))
    assert feed(made).changes > 50
    assert agree(made)
    names = [row.key for row in read_files(made.folder, "trips", made.settings)[1]]
    assert names == sorted(names)


@pytest.mark.parametrize("moment", ["before the write", "after the write", "before the file is forgotten"])
def test_a_kill_between_the_steps_of_a_flush(copy, monkeypatch, moment):
    write, forget = LocalStorage.write, Outbox._forget
    died_at: list[str] = []

    def dying_write(self, key, data):
        if moment == "after the write":
            write(self, key, data)
        died_at.append(key)
        raise Killed

    def dying_forget(self, key, *rest):
        died_at.append(key)
        raise Killed

    if moment == "before the file is forgotten":
        monkeypatch.setattr(Outbox, "_forget", dying_forget)
    else:
        monkeypatch.setattr(LocalStorage, "write", dying_write)
    with pytest.raises(Killed):
        feed(copy)
    monkeypatch.undo()
    assert forget is Outbox._forget
    assert waiting(copy) > 0
    [key] = died_at
    existed = copy.files().get(key)
    assert (existed is None) == (moment == "before the write")

    feed(copy, duration=0)
    assert agree(copy)
    if existed is not None:
        assert copy.files()[key] == existed, "the same name and the same bytes"
    feed(copy, duration=0.15)
    assert agree(copy)


_RUN = """
import sys, pathlib
from lake_assets.demo.feed import run_feed
print("running", flush=True)
run_feed(sys.argv[1], pathlib.Path(sys.argv[2]), rate=3000, flush_seconds=0.02)
print("stopped", flush=True)
"""


def start_process(history: History) -> subprocess.Popen:
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, str(history.folder), str(history.database)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )


def wait_for_files(history: History, more: int) -> None:
    wanted = len(list(history.folder.rglob("2*.csv"))) + more
    deadline = time.monotonic() + 20
    while len(list(history.folder.rglob("2*.csv"))) < wanted:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_sigkill_and_sigterm(copy):
    lost_for_now = 0
    for _ in range(2):
        process = start_process(copy)
        wait_for_files(copy, 9)
        process.kill()
        process.wait()
        lost_for_now += waiting(copy)
    assert lost_for_now > 0, "at no kill was anything waiting: the test is too slow for its purpose"
    process = start_process(copy)
    wait_for_files(copy, 5)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out.split() == ["running", "stopped"]
    assert agree(copy), "a stopped feed has flushed everything, also what the killed ones left"


def test_stop_event(copy):
    stop = threading.Event()
    thread = threading.Thread(
        target=feed, args=(copy,), kwargs={"stop": stop, "duration": None, "flush_seconds": 60}
    )
    thread.start()
    time.sleep(0.15)
    stop.set()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert agree(copy)


def test_a_kill_in_the_flush_of_whole_transactions(tmp_path, monkeypatch):
    settings = DmsWriterSettings(preserve_transactions=True, cdc_path="cdc", add_column_name=False)
    made = make_history(tmp_path, settings, changes=500, days=1)

    with monkeypatch.context() as patch:
        patch.setattr(Outbox, "_forget", killed)
        with pytest.raises(Killed):
            feed(made)
    assert waiting(made) > 0
    before = made.files()
    feed(made, duration=0)
    assert made.files() == before, "the same name and the same bytes"
    assert agree(made)


def test_signal_handlers_are_given_back(copy):
    before = signal.getsignal(signal.SIGTERM)
    feed(copy, duration=0)
    assert signal.getsignal(signal.SIGTERM) is before


def test_only_one_feed_at_a_time(copy):
    stop = threading.Event()
    thread = threading.Thread(target=feed, args=(copy,), kwargs={"stop": stop, "duration": 30})
    thread.start()
    try:
        wait_for_files(copy, 1)
        with pytest.raises(RuntimeError, match="another feed"):
            feed(copy)
    finally:
        stop.set()
        thread.join()
    assert agree(copy)


def test_wrong_calls(copy, tmp_path):
    with pytest.raises(FileNotFoundError, match="generate_history"):
        run_feed(copy.folder, tmp_path / "none.db")
    with pytest.raises(ValueError, match="positive"):
        feed(copy, rate=0)
