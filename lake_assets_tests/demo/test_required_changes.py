"""Every kind of change that breaks careless pipelines really occurs, even in a short history."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import groupby, pairwise

import pytest

from lake_assets.demo.company.vocabulary import AWKWARD_TEXTS
from lake_assets.demo.replay import FileRow, read_files
from lake_assets.demo.source.bike_schema import TABLES

KEYED = [name for name, table in TABLES.items() if table.primary_key]


@pytest.fixture(scope="module")
def files(history) -> dict[str, tuple[list[FileRow], list[FileRow]]]:
    return {table: read_files(history.folder, table, history.settings) for table in TABLES}


def key_of(table: str, row: FileRow) -> tuple:
    return tuple(row.values[name] for name in TABLES[table].primary_key)


def key_updates(files, table: str) -> list[tuple[tuple, tuple, str]]:
    """(old key, new key, commit timestamp) of every change of a key."""
    return [
        (row.before, key_of(table, row), row.committed_at)
        for row in files[table][1]
        if row.op == "U" and row.before is not None
    ]


def test_every_op_in_every_table_that_has_it(files):
    ops = {table: Counter(row.op for row in changes) for table, (_, changes) in files.items()}
    for table in ("bikes", "members", "trips", "maintenance_tickets"):
        assert all(ops[table][op] >= 3 for op in "IUD"), (table, ops[table])
    assert set(ops["app_events"]) == {"I"}
    assert ops["stations"]["U"] >= 5
    assert set(ops["station_status"]) == {"U"}


@pytest.mark.parametrize("table", ["members", "bikes", "maintenance_tickets"])
def test_keys_change(files, table):
    updates = key_updates(files, table)
    assert len(updates) >= 4
    assert all(old != new for old, new, _ in updates), "a before image only where the key changed"


def test_one_part_of_a_composite_key_changes(files):
    updates = key_updates(files, "maintenance_tickets")
    assert any(old[0] == new[0] and old[1] != new[1] for old, new, _ in updates), "the ticket's number"
    assert any(old[0] != new[0] and old[1] == new[1] for old, new, _ in updates), "the bike's"


def test_chains_of_key_changes_across_transactions(files):
    updates = key_updates(files, "members")
    chains = [
        (first[0], first[1], then[1])
        for first in updates
        for then in updates
        if first[1] == then[0] and first[2] < then[2]
    ]
    assert any(len(set(chain)) == 3 for chain in chains), "a -> b -> c"
    assert any(chain[0] == chain[2] for chain in chains), "a -> b -> a"


def test_no_key_moves_onto_a_live_one(files):
    """Swaps and `id = id + 1` need a deferred constraint, which this source does not have."""
    for table in KEYED:
        loaded, changes = files[table]
        # From the first change on, what is alive is known for every key that was seen.
        alive = {key_of(table, row): True for row in loaded}
        for row in changes:
            if row.committed_at <= loaded[0].committed_at:
                continue  # cached while the load ran
            if row.before is not None:
                assert not alive.get(key_of(table, row), False)
                alive[row.before] = False
            elif row.op == "I":
                assert not alive.get(key_of(table, row), False)
            alive[key_of(table, row)] = row.op != "D"


def test_insert_update_delete_insert_in_one_transaction(files):
    by_key = defaultdict(list)
    for row in files["members"][1]:
        by_key[row.committed_at, key_of("members", row)].append(row.op)
    assert sum(ops == ["I", "U", "D", "I"] for ops in by_key.values()) >= 3


def test_several_changes_of_a_key_in_one_transaction_and_file(files):
    in_transaction: Counter = Counter()
    in_file: Counter = Counter()
    for table in KEYED:
        for row in files[table][1]:
            in_transaction[table, row.committed_at, key_of(table, row)] += 1
            in_file[table, row.key, key_of(table, row)] += 1
    assert {table for (table, *_), count in in_transaction.items() if count > 1} >= {"bikes", "members"}
    assert max(count for (table, *_), count in in_file.items() if table == "station_status") > 10


def test_a_deleted_key_returns_in_a_later_transaction(files):
    deleted = {key_of("members", row): row.committed_at for row in files["members"][1] if row.op == "D"}
    returned = [
        row
        for row in files["members"][1]
        if row.op == "I" and deleted.get(key_of("members", row), "9") < row.committed_at
    ]
    assert returned


def test_the_full_load_overlaps_with_cached_changes(files, history):
    ops: Counter = Counter()
    for table in KEYED:
        loaded, changes = files[table]
        loaded_keys = {key_of(table, row) for row in loaded}
        for row in changes:
            if row.committed_at < loaded[0].committed_at:
                ops[row.op, key_of(table, row) in loaded_keys] += 1
                assert row.key == changes[0].key, "they wait for the load"
                name = row.key.split("/")[-1]
                flushed_at = datetime.strptime(name, "%Y%m%d-%H%M%S%f.csv").replace(tzinfo=UTC)
                load_ended = datetime.fromisoformat(loaded[-1].committed_at + "+00:00")
                assert flushed_at >= load_ended + timedelta(hours=2)
    assert ops["I", True] >= 3
    assert ops["U", True] >= 10
    assert ops["D", False] >= 2
    assert ops["U", False] >= 1, "updates of a key that was gone when the load read the table"


def test_a_table_without_a_key_has_no_overlap(files):
    loaded, changes = files["app_events"]
    newest_loaded = max(row.values["event_time"] for row in loaded)
    assert newest_loaded < min(row.values["event_time"] for row in changes)


def test_identical_rows_in_a_table_without_a_key(files):
    rows = Counter(tuple(row.values.values()) for row in files["app_events"][1])
    assert sum(count > 1 for count in rows.values()) >= 5


def test_late_corrections_of_trips_of_other_days(files):
    ended: dict[tuple, datetime] = {}
    other_fare, other_day = set(), set()
    fares: dict[tuple, Decimal | None] = {}
    loaded, changes = files["trips"]
    for row in (*loaded, *changes):
        key, ended_at = key_of("trips", row), row.values["ended_at"]
        committed_at = datetime.fromisoformat(row.committed_at + "+00:00")
        if row.op == "U" and key in ended and committed_at - ended[key] > timedelta(days=2):
            if fares[key] != row.values["fare"]:
                other_fare.add(key)
            if ended_at.date() != ended[key].date():
                other_day.add(key)
        if ended_at is not None:
            ended[key], fares[key] = ended_at, row.values["fare"]
    assert len(other_fare) >= 3
    assert len(other_day) >= 2


def test_trips_are_inserted_open_and_updated_at_their_end(files):
    inserted = [row for row in files["trips"][1] if row.op == "I"]
    assert len(inserted) > 300
    assert all(row.values["ended_at"] is None and row.values["fare"] is None for row in inserted)
    ended = [row for row in files["trips"][1] if row.op == "U" and row.values["ended_at"] is not None]
    assert len(ended) > 300
    assert any(row.values["end_station_id"] is None for row in ended), "left outside a station"


def test_a_district_is_renamed_with_all_its_stations_at_once(files):
    changes = files["stations"][1]
    transactions = Counter(row.committed_at for row in changes)
    assert 1 <= sum(count > 1 for count in transactions.values()) <= 2


def test_racks_are_empty_for_more_than_half_an_hour(files):
    empty: Counter = Counter()
    by_station = sorted(
        files["station_status"][1], key=lambda row: (key_of("station_status", row), row.committed_at)
    )
    for station, rows in groupby(by_station, key=lambda row: key_of("station_status", row)):
        for row, then in pairwise(rows):
            lasted = then.values["last_reported"] - row.values["last_reported"]
            if row.values["bikes_available"] == 0 and lasted > timedelta(minutes=30):
                empty[station] += 1
    assert empty.total() >= 5


def test_no_bike_leaves_an_empty_rack_and_none_enters_a_full_one(files):
    capacity = defaultdict(set)
    for row in (*files["stations"][0], *files["stations"][1]):
        capacity[row.values["station_id"]].add(row.values["capacity"])
    for row in files["station_status"][1]:
        bikes, docks = row.values["bikes_available"], row.values["docks_available"]
        assert bikes >= 0
        assert docks >= 0
        if row.committed_at > files["stations"][0][0].committed_at:
            assert bikes + docks in capacity[row.values["station_id"]]


def test_values_that_break_readers(files):
    for table, column in (("members", "note"), ("members", "phone")):
        values = [row.values[column] for row in files[table][1] if row.op != "D"]
        assert None in values, (table, column)
        assert "" in values, (table, column)
    texts = {
        value
        for loaded, changes in files.values()
        for row in (*loaded, *changes)
        for value in row.values.values()
        if isinstance(value, str)
    }
    assert set(AWKWARD_TEXTS) <= texts
    assert "NULL" not in texts
    assert any(text.startswith("00") for text in texts), "leading zeros"
    assert any(ord(max(text, default=" ")) > 0xFFFF for text in texts), "beyond the basic plane"
    for table, column in (("bikes", "battery_percent"), ("members", "birth_date"), ("trips", "fare")):
        assert any(row.values[column] is None for row in files[table][1] if row.op != "D")


def test_deletes_carry_only_the_key(files):
    for table in KEYED:
        key = TABLES[table].primary_key
        for row in files[table][1]:
            if row.op == "D":
                assert {name for name, value in row.values.items() if value is not None} == set(key)
