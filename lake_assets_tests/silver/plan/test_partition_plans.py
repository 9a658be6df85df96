"""The next batch of a table with `folders`: each folder is loaded and reloaded by itself."""

from typing import Any

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import OnVanished
from lake_assets.silver.plan.members import epoch_members, table_epoch
from lake_assets.silver.table.position import Position
from lake_assets_tests.helpers.files.planning import IMMEDIATELY, outcome, plan
from lake_assets_tests.helpers.files.records import logged


def of(partition: str, offset: int, name: str, **changed: Any) -> LoggedFile:
    """A record of a partition's folder; of the table's own, if it is empty."""
    own: dict[str, Any] = {"partitions": (partition,)} if partition else {}
    return logged(offset, f"public/{partition or 'items'}/{name}", **own, **changed)


def vanished(partition: str, offset: int) -> LoggedFile:
    return of(partition, offset, "", kind=FileKind.VANISHED, flush_time=None, rows=0, minute=30)


A1, B1 = of("items_a", 1, "LOAD1"), of("items_b", 2, "LOAD1", minute=1)
CHANGES = [of("items_a", 3, "c1", minute=5), of("items_b", 4, "c1", minute=5)]
LOADED = [A1, B1, *CHANGES]
APPLIED = Position(log_offset=4, epoch=2, snapshot_id=1)


def test_each_folder_has_an_epoch() -> None:
    assert table_epoch(LOADED) == 2
    assert outcome(plan(LOADED, max_files=100)) == ("full_load", [1, 2], 2, 2)
    assert outcome(plan(LOADED, Position(2, 2, snapshot_id=1))) == ("cdc", [3, 4], 4, 2)


def test_the_load_waits_until_each_folder_shows_its_end() -> None:
    without_end = [A1, B1, CHANGES[0]]
    assert outcome(plan(without_end)) == "waiting", "a change in one folder says nothing of another"
    assert outcome(plan(without_end, minute=7)) == ("full_load", [1, 2], 2, 2)


def test_a_reload_of_one_folder_keeps_the_others() -> None:
    again = of("items_a", 5, "LOAD1", minute=20, epoch=2)
    files = [*LOADED, of("items_a", 6, "c2", minute=19), of("items_b", 7, "c2", minute=19), again]
    files = sorted(files, key=lambda file: file.offset)
    found = plan(files, APPLIED, policy=IMMEDIATELY)
    assert outcome(found) == ("full_load", [2, 4, 5], 5, 3)
    assert [file.offset for file in epoch_members(files, 7)] == [2, 4, 5, 7], (
        "of a, what was flushed before is gone"
    )


def test_a_folder_that_comes_later_is_no_reload() -> None:
    later = of("items_c", 5, "LOAD1", minute=20)
    assert outcome(plan([*LOADED, later], APPLIED, policy=IMMEDIATELY)) == (
        "full_load",
        [1, 2, 3, 4, 5],
        5,
        3,
    )


def test_a_load_of_the_table_is_of_all_folders() -> None:
    files = [
        of("", 1, "LOAD1", minute=10),
        of("items_a", 2, "c1", minute=9),
        of("items_b", 3, "c1", minute=11),
    ]
    assert [file.offset for file in epoch_members(files, 3)] == [1, 3]


def test_loads_of_the_table_and_of_a_partition_are_asked_about() -> None:
    files = [of("", 1, "LOAD1"), of("items_a", 2, "LOAD1", minute=3)]
    found = plan(files, policy=IMMEDIATELY)
    assert found.stop is not None
    assert "public/items/LOAD1 and public/items_a/LOAD1 are both full loads" in found.stop.reason
    gone = [*files, vanished("", 3)]
    assert outcome(plan(gone, policy=IMMEDIATELY)) == ("full_load", [2], 2, 1)


def test_a_dropped_partition() -> None:
    files = [*LOADED, vanished("items_a", 5)]
    assert outcome(plan(files, APPLIED)) == ("cdc", [], 5, 2), "its rows are kept"
    policies: tuple[OnVanished, ...] = ("truncate", "drop")
    for policy in policies:
        found = plan(files, APPLIED, on_vanished=policy)
        assert found.batch is not None
        assert outcome(found) == ("full_load", [2, 4], 5, 1)
        assert [file.offset for file in found.batch.vanished] == [5]
        after = Position(log_offset=5, epoch=1, snapshot_id=2)
        assert outcome(plan(files, after, on_vanished=policy)) is None
    everything = [*files, vanished("items_b", 6)]
    assert outcome(plan(everything, APPLIED, on_vanished="truncate")) == ("truncate", [], 6, 2)


def test_a_share_keeps_the_rows_of_the_folders_that_no_load_supersedes() -> None:
    shares = logged(
        6, "cdc/CDC_TXN-1.csv", minute=15, partitions=("items_a", "items_b"), format="transactions"
    )
    files = [*LOADED, of("items_a", 5, "LOAD1", minute=20, epoch=2), shares]
    (last,) = [file for file in epoch_members(files, 6) if file.offset == 6]
    assert (set(last.names), last.rows) == ({"items_b"}, None)


def test_a_table_that_lacks_rows_is_computed_again() -> None:
    """Up to its position; what is pending comes after it."""
    files = [*LOADED, of("items_a", 5, "c2", minute=9)]
    one_folder = Position(log_offset=4, epoch=1, snapshot_id=1)
    found = plan(files, one_folder, lacks="It lacks rows.")
    assert outcome(found) == ("full_load", [1, 2, 3, 4], 4, 2)
    assert found.batch is not None
    assert (found.batch.again, found.note) == (True, "It lacks rows.")
    assert outcome(plan(files, APPLIED)) == ("cdc", [5], 5, 2)
    both = [of("", 1, "LOAD1"), of("items_a", 2, "LOAD1", minute=3)]
    assert plan(both, Position(2, 1, snapshot_id=1), lacks="It lacks rows.").stop is not None
