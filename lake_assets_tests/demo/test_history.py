"""A history as a whole: deterministic, complete, named as DMS names files, and what the database says it is."""

import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.replay import read_files, split_csv
from lake_assets.demo.source.bike_schema import TABLES
from lake_assets_tests.helpers.oracles.demo_history import END, differences, make_history
from lake_assets_tests.helpers.processes.faults import Killed

TRANSACTIONS: dict[str, Any] = {"preserve_transactions": True, "cdc_path": "cdc", "add_column_name": False}
SETTINGS = {
    "defaults": DmsWriterSettings(),
    "no header, gzip": DmsWriterSettings(add_column_name=False, compression="gzip"),
    "no change sequence": DmsWriterSettings(change_sequence_column=None),
    "no before images": DmsWriterSettings(before_image_prefix=None),
    "neither, no header": DmsWriterSettings(
        change_sequence_column=None, before_image_prefix=None, add_column_name=False
    ),
    "all images": DmsWriterSettings(before_image="always", delete_image="full", before_image_prefix="OLD_"),
    "no op in the full load": DmsWriterSettings(include_op_for_full_load=False, csv_null_value="\\N"),
    "parquet": DmsWriterSettings(data_format="parquet"),
    "parquet, no op, gzip": DmsWriterSettings(
        data_format="parquet", include_op_for_full_load=False, compression="gzip", change_sequence_column=None
    ),
    "whole transactions": DmsWriterSettings(**TRANSACTIONS),
    "whole transactions beside parquet loads, gzip, no sequence": DmsWriterSettings(
        **TRANSACTIONS, data_format="parquet", compression="gzip", change_sequence_column=None
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_files_reproduce_the_database(tmp_path, name):
    made = make_history(tmp_path, SETTINGS[name], changes=1_500, days=1)
    assert differences(made.folder, made.database, made.settings) == {}
    assert all(made.written.rows[table] for table in TABLES), "a table without CDC files"
    assert made.written.changes >= 1_500


def test_transaction_files_keep_the_order_of_commits_across_tables(tmp_path):
    """One file for all tables, named for its flush with 17 digits; no table has CDC files of its own."""
    made = make_history(tmp_path, DmsWriterSettings(**TRANSACTIONS), changes=1_500, days=1)
    names = [key for key in made.files() if "LOAD" not in key]
    assert len(names) == made.written.cdc_files > 5
    assert all(re.fullmatch(r"cdc/CDC_TXN-\d{17}\.csv", name) for name in names)
    rows = [row for key in names for row in split_csv(made.files()[key].decode())]
    sequences = [next(f for f, _ in reversed(row) if re.fullmatch(r"\d{35}", f)) for row in rows]
    assert sequences == sorted(sequences)
    assert {row[1][0] for row in rows} == set(TABLES)
    assert len({len(row) for row in rows}) > 3, "rows of several widths in one file"
    commits: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        commits[row[3][0]].add(row[1][0])
    assert max(map(len, commits.values())) > 1, "transactions that span tables"


def test_a_lost_file_is_noticed(tmp_path):
    made = make_history(tmp_path, changes=1_500, days=1)
    cdc_files = sorted((made.folder / "public" / "trips").glob("2*"))
    cdc_files[len(cdc_files) // 2].unlink()
    assert list(differences(made.folder, made.database, made.settings)) == ["trips"]


def test_same_arguments_same_bytes(tmp_path, history):
    again = make_history(tmp_path)
    assert again.files() == history.files()


def test_another_seed_is_another_history(tmp_path, history):
    assert make_history(tmp_path, seed=2, changes=2_500).files().keys() != history.files().keys()


def test_asked_for_changes_are_written_and_hardly_more(history):
    assert 6_000 <= history.written.changes <= 6_300
    assert history.written.changes == history.written.ops.total()
    assert history.written.load_rows["trips"] == pytest.approx(400, abs=10)


def test_load_counter_is_hexadecimal(history):
    names = sorted(path.name for path in (history.folder / "public" / "trips").glob("LOAD*"))
    assert names[8:11] == ["LOAD00000009.csv", "LOAD0000000A.csv", "LOAD0000000B.csv"]
    assert names[14:17] == ["LOAD0000000F.csv", "LOAD00000010.csv", "LOAD00000011.csv"]


def test_every_cdc_file_is_named_for_its_flush(history):
    for table in TABLES:
        _, changes = read_files(history.folder, table, history.settings)
        first_commits: dict[str, str] = {}
        for row in changes:
            first_commits.setdefault(row.key, row.committed_at)
        flushes = []
        for key, first in first_commits.items():
            name = key.split("/")[-1].removesuffix(".csv")
            assert re.fullmatch(r"\d{8}-\d{9}", name)
            flush = datetime.strptime(name + "000", "%Y%m%d-%H%M%S%f").replace(tzinfo=UTC)
            flushes.append((flush, datetime.fromisoformat(first + "+00:00")))
        for flush, first_commit in flushes[1:-1]:
            waited = flush - first_commit
            assert timedelta(hours=2) - timedelta(milliseconds=1) < waited <= timedelta(hours=2)
        assert all(flush <= END for flush, _ in flushes)


def test_order_of_commits(history):
    """Within a table the sequence rises from row to row and file to file; a transaction has one commit timestamp."""
    tables_of_commit = defaultdict(set)
    all_sequences = []
    for table in TABLES:
        _, changes = read_files(history.folder, table, history.settings)
        assert [row.key for row in changes] == sorted(row.key for row in changes)
        assert [row.committed_at for row in changes] == sorted(row.committed_at for row in changes)
        for row in changes:
            assert row.sequence is not None
            assert re.fullmatch(r"\d{35}", row.sequence)
            assert row.sequence[:16] == re.sub(r"\D", "", row.committed_at)[:16]
            assert datetime.fromisoformat(row.committed_at + "+00:00") < END
            tables_of_commit[row.committed_at].add(table)
            all_sequences.append(row.sequence)
    assert len(set(all_sequences)) == len(all_sequences)
    counters = [int(sequence[16:]) for sequence in sorted(all_sequences)]
    assert counters == sorted(counters), "the counter rises with the commit timestamp over all tables"
    assert {"trips", "station_status", "bikes", "app_events"} in tables_of_commit.values()


def test_an_existing_history_is_not_mixed_with(tmp_path):
    made = make_history(tmp_path, changes=500, days=1)
    with pytest.raises(FileExistsError):
        make_history(tmp_path, changes=500, days=1)
    made.database.unlink()
    with pytest.raises(FileExistsError, match=r"public/stations"):
        make_history(tmp_path, changes=500, days=1)


def test_a_killed_history_leaves_no_database_and_can_be_repeated(tmp_path):
    def kill(done, asked):
        if done > 300:
            raise Killed

    with pytest.raises(Killed):
        make_history(tmp_path, changes=500, days=1, progress=kill)
    assert not (tmp_path / "source.db").exists()
    made = make_history(tmp_path, changes=600, days=1, overwrite=True, end=END - timedelta(minutes=7))
    assert differences(made.folder, made.database, made.settings) == {}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"end": datetime(2026, 3, 1)}, "no time zone"),  # noqa: DTZ001 - the case
        ({"days": 0.01}, "too few"),
        ({"bikes": 1_000}, "docks"),
    ],
)
def test_impossible_arguments(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_history(tmp_path, **arguments)
    assert not list(tmp_path.glob("bronze/**/*.csv"))


def test_progress_is_reported(tmp_path):
    seen: list[tuple[int, int]] = []
    make_history(tmp_path, changes=1_000, days=1, progress=lambda *done: seen.append(done))
    assert len(seen) > 5
    assert seen == sorted(seen)
    assert seen[-1][0] >= seen[-1][1] == 1_000
