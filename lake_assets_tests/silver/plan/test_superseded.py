"""Which files a later full load has superseded, case by case.

Here: the decision over records. Not here: what else needs a file, and deleting it (`rounds/test_superseded_files.py`).
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lake_assets.bronze.log.copies import originals
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.silver.plan.ambiguous_parts import LOADS_APART
from lake_assets.silver.plan.superseded import Former, has_former_loads, superseded_files, without_evidence
from lake_assets_tests.helpers.files.dms_files import NOON
from lake_assets_tests.helpers.files.records import logged

DAY = 24 * 60
RELOADED = [
    logged(1, "LOAD1"),
    logged(2, "LOAD2", minute=1),
    logged(3, "c3", minute=5),
    logged(4, "c4", minute=10),
    logged(5, "LOAD1", minute=3 * DAY, epoch=2),
    logged(6, "c6", minute=3 * DAY + 5, epoch=2),
]
"""A load of two parts with two files of changes; three days later a load of one part, with one file."""


def offsets(files: list[LoggedFile], *positions: int) -> list[int]:
    former = found(files, *positions)
    return [each.file.offset for each in without_evidence(former.files, former.parts)]


def found(files: list[LoggedFile], *positions: int) -> Former:
    return superseded_files(originals(files), positions or [files[-1].offset], files[-1].offset)


def changed(offset: int, **more: Any) -> list[LoggedFile]:
    """The records with another one at the offset."""
    return [replace(file, **more) if file.offset == offset else file for file in RELOADED]


def test_files_of_the_former_load_are_superseded() -> None:
    """The first part is overwritten: its key has the new load's content."""
    assert offsets(RELOADED) == [2, 3, 4]
    (first, *_, last) = found(RELOADED).files
    assert (first.load, first.since, last.order) == (
        NOON + timedelta(days=3),
        NOON + timedelta(days=3),
        (5, 4),
    )
    assert offsets(RELOADED[:4]) == []
    assert (has_former_loads(RELOADED), has_former_loads(RELOADED[:4])) == (True, False)


@pytest.mark.parametrize(("position", "going"), [(4, []), (5, [2, 3, 4]), (6, [2, 3, 4])])
def test_every_commit_must_have_the_newest_load(position: int, going: list[int]) -> None:
    """A table that is taken back to the commit of that position applies the files since."""
    assert offsets(RELOADED, 6, position) == going
    kept = "it has commits from before its newest full load"
    assert found(RELOADED, 6, position).kept == ("" if going else kept)


def test_changes_shortly_before_the_load_stay() -> None:
    """A part of the load may arrive late that was transferred before its other parts."""
    edge = NOON + timedelta(days=3) - LOADS_APART
    assert offsets(changed(4, flush_time=edge)) == [2, 3]
    assert offsets(changed(4, flush_time=edge - timedelta(milliseconds=1))) == [2, 3, 4]


def test_a_load_without_timestamps_supersedes_nothing_for_certain() -> None:
    """The user may still say that it is no reload: `full-load --same-load`."""
    kept = "nothing in its newest full load shows when DMS transferred it"
    for stamp in (None, NOON):
        files = changed(5, first_commit_ts=stamp)
        assert (offsets(files), found(files).kept) == ([], kept)
    # Without its own, a former part stays: the same rows in another folder would be taken for this file, moved.
    # The changes after it stay as well: they show that it is not of the newest load.
    assert offsets(changed(2, first_commit_ts=None)) == []


def test_a_file_that_was_logged_late_is_superseded_late() -> None:
    late = logged(7, "c7", minute=15, epoch=2, logged_at=NOON + timedelta(days=9))
    assert [each.since for each in found([*RELOADED, late]).files][-1] == NOON + timedelta(days=9)
    assert offsets([*RELOADED, late], 6) == [2, 3, 4], "it is above the position"


def test_files_without_a_flush_time_and_requests_stay() -> None:
    assert offsets(changed(4, flush_time=None)) == [2, 3]
    assert offsets([*RELOADED, replace(RELOADED[2], offset=7, retry=True)]) == [2, 3, 4]


def test_a_part_that_returned_to_the_former_load_has_it_back() -> None:
    """`full-load --same-load`: the reload was none, so that all files are needed."""
    denied = replace(RELOADED[4], offset=7, epoch=1, first_commit_ts=NOON)
    assert offsets([*RELOADED, denied]) == []


def test_a_folder_without_a_load_of_its_own_keeps_its_files() -> None:
    """A table with `folders`: the load of one folder says nothing of another one."""
    other = [logged(7, "p/c7", minute=5, partitions=("items_p1",)), *RELOADED]
    ordered = [replace(file, offset=number) for number, file in enumerate(other, start=1)]
    assert offsets(ordered) == [3, 4, 5]
    of_both = [replace(ordered[0], partitions=("items", "items_p1")), *ordered[1:]]
    assert offsets(of_both) == [3, 4, 5], "the file has rows of both"
