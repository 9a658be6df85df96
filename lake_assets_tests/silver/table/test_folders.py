"""What a change of `folders` or `ignore_case` means for the rows of a table, by the log's records."""

from typing import Any

import pytest

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import SourceConfig, TableName
from lake_assets.silver.table.folders import FolderChange, folder_change, lacking_rows, other_folders
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.targets import Target, source_targets
from lake_assets_tests.helpers.files.records import logged

CHANGED = "CDC_TXN-1.csv"


def target(*folders: str, ignore_case: bool = False) -> Target:
    table = {"columns": {"id": "long not null"}, "mode": "append_log", "folders": list(folders)}
    source = {"location": "b", "ignore_case": ignore_case, "tables": {"public.items": table}}
    (found,) = source_targets("shop", SourceConfig.model_validate(source))
    return found


def record(of: Target, offset: int, name: str, key: str = CHANGED, **changed: Any) -> LoggedFile:
    """The record of a name in a transaction file, as the log reads it for a target."""
    own = of.folder_rule.joins(TableName("public", name))
    partitions = () if name == "items" or not own else (name,)
    return logged(
        offset,
        key,
        version="v1",
        schema="public",
        table="items" if own else name,
        partitions=partitions,
        format="transactions",
        **changed,
    )


FILE = ((1, "items"), (2, "items_a"), (3, "items_b"), (4, "other"))


def change(before: Target, now: Target, position: int, *names: tuple[int, str]) -> FolderChange:
    at = Position(log_offset=position, snapshot_id=1, folders=before.folder_rule.text)
    return folder_change(now, at, [record(now, offset, name) for offset, name in names or FILE])


def offsets(records: tuple[LoggedFile, ...]) -> list[int]:
    return [found.offset for found in records]


@pytest.mark.parametrize(
    ("before", "now", "position", "lacking", "left", "upto"),
    [
        ([], ["items_*"], 1, [2, 3], [], 3),
        (["items_a"], ["items_*"], 2, [3], [], 3),
        (["items_b"], ["items_*"], 3, [2], [], 3),
        (["items_*"], ["items_a"], 3, [], [3], 2),
        (["items_*"], [], 3, [], [2, 3], 1),
        (["items_a"], ["items_b"], 2, [3], [2], 3),
        (["items_*"], ["items_?"], 3, [], [], 3),
        (["items_*", "old_*"], ["items_*"], 3, [], [], 3),
    ],
)
def test_globs(
    before: list[str], now: list[str], position: int, lacking: list[int], left: list[int], upto: int
) -> None:
    found = change(target(*before), target(*now), position)
    assert (offsets(found.lacking), offsets(found.left), found.upto) == (lacking, left, upto)


def test_a_file_of_which_only_a_left_name_was_passed() -> None:
    found = change(target("items_a"), target("items_b"), 1, (1, "items_a"), (2, "items_b"))
    assert (offsets(found.lacking), offsets(found.left), found.upto) == ([2], [1], 2)


def test_a_file_without_a_name_that_was_passed() -> None:
    now = target("items_*")
    keys = ((1, "items", "CDC_TXN-1.csv"), (2, "items_a", "CDC_TXN-2.csv"), (3, "items", "CDC_TXN-3.csv"))
    found = folder_change(now, Position(log_offset=3, snapshot_id=1), [record(now, *one) for one in keys])
    assert (offsets(found.lacking), found.upto) == ([2], 3)


def test_files_above_the_position_are_pending() -> None:
    """Only what the table has passed is lacking; the rest is applied as ever."""
    now = target("items_*")
    at = Position(log_offset=1, snapshot_id=1)
    later = [record(now, 2, "items_a", key="CDC_TXN-2.csv"), record(now, 3, "items", key="CDC_TXN-2.csv")]
    found = folder_change(now, at, [record(now, 1, "items"), *later])
    assert (found.lacking, found.left, found.upto) == ((), (), 1)
    assert target().folder_rule.text == "", "what commits of earlier versions have"


def test_a_mark_of_vanished_files_has_no_rows() -> None:
    now = target("items_*")
    marks = [record(now, 2, "items_a", kind=FileKind.VANISHED), record(now, 5, "items")]
    assert folder_change(now, Position(log_offset=5, snapshot_id=1), marks).lacking == ()


def test_case() -> None:
    exact, folded = target("items_*"), target("items_*", ignore_case=True)
    names = ((1, "items"), (2, "Items_A"))
    assert offsets(change(exact, folded, 1, *names).lacking) == [2]
    assert offsets(change(folded, exact, 2, *names).left) == [2]
    error = other_folders(
        exact, Position(2, folders=folded.folder_rule.text), change(folded, exact, 2, *names)
    )
    assert error is not None
    assert (
        'it had folders: ["items_*"] and ignore_case: true, and now has folders: ["items_*"].' in error.reason
    )


def test_many_names_and_files() -> None:
    now = target("items_*")
    names = [record(now, offset, f"items_{offset}", key=f"CDC_TXN-{offset}.csv") for offset in range(1, 6)]
    assert lacking_rows(now, names) == (
        "silver_shop.items lacks the rows of public.items_1, public.items_2, public.items_3 and 2 more tables: "
        'lake.yaml joins them to public.items (folders: ["items_*"]) only since their files were logged, 5 files, '
        "the first of them CDC_TXN-1.csv."
    )
