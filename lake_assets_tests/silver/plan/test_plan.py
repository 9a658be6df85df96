"""The next batch of a silver table, case by case; no Spark, no files."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lake_assets.bronze.log.epochs import epoch_start
from lake_assets.config import Mode, OnVanished
from lake_assets.silver.plan.members import epoch_members
from lake_assets.silver.table.position import Position
from lake_assets_tests.helpers.files.dms_files import NOON
from lake_assets_tests.helpers.files.planning import (
    AT,
    AT_QUIET,
    IMMEDIATELY,
    LOADED,
    QUIET,
    QUIET_TABLE,
    outcome,
    plan,
    vanished,
)
from lake_assets_tests.helpers.files.records import logged
from lake_assets_tests.silver.plan.plan_cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_next_batch(name: str) -> None:
    found, expected = CASES[name]
    assert outcome(found) == expected


def test_waiting_says_what_for_and_how_long() -> None:
    waiting = plan(LOADED[:2], minute=2)
    assert waiting.waiting == (
        "full load of 2 files: waiting for the first CDC file or 240 more seconds without a new LOAD file"
    )
    waiting = plan(LOADED, minute=2, policy=QUIET)
    assert "waiting for 240 more seconds" in (waiting.waiting or "")


def test_left_out_files_are_counted() -> None:
    files = [*LOADED, logged(4, "c4", minute=-1), logged(5, "c5", minute=9), logged(6, "c6", minute=-2)]
    batch = plan(files, AT).batch
    assert batch is not None
    assert batch.superseded_files == 2


@pytest.mark.parametrize("max_files", [1, 2, 3, 100])
@pytest.mark.parametrize("mode", Mode)
def test_batches_end_and_account_for_every_file(mode: Mode, max_files: int) -> None:
    files = [
        *LOADED,
        logged(4, "c4", minute=6),
        logged(5, "c3", minute=5),
        logged(6, "LOAD3", minute=7),
        logged(7, "c7", minute=-1),
        logged(8, "c8", minute=8),
        logged(9, "LOAD1", minute=20, epoch=2),
        logged(10, "c10", minute=19, epoch=2),
        logged(11, "c11", minute=21, epoch=2),
    ]
    position, batches = Position(), 0
    while batch := plan(files, position, mode=mode, policy=IMMEDIATELY, max_files=max_files).batch:
        assert batch.upto > position.log_offset
        assert all(file.offset <= batch.upto for file in batch.files)
        position, batches = Position(log_offset=batch.upto, epoch=batch.epoch), batches + 1
        assert batches <= len(files)
    assert (position.log_offset, position.epoch) == (11, 2)


def test_members_are_what_the_table_stands_on() -> None:
    files = [
        *LOADED,
        logged(4, "c4", minute=-1),
        logged(5, "LOAD1", minute=20, epoch=2),
        logged(6, "c6", minute=21),
    ]
    assert [file.offset for file in epoch_members(files, 4)] == [2, 3]
    assert [file.offset for file in epoch_members(files, 6)] == [5, 6]


def test_a_request_for_held_rows_hides_no_content() -> None:
    """Wherever a batch ends, the file is there; of one that was written again, nothing is asked for."""
    cdc = logged(3, "c3", minute=6)
    other = logged(4, "c4", minute=7)
    asked = replace(cdc, offset=5, retry=True)
    files = [*LOADED, cdc, other, asked]
    assert [[f.offset for f in epoch_members(files, upto)] for upto in (3, 4, 5)] == [
        [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]
    ]  # fmt: skip
    position = Position(log_offset=2, epoch=1)
    assert outcome(plan(files, position, max_files=1)) == ("cdc", [3], 3, 1)
    assert outcome(plan(files, Position(log_offset=4, epoch=1))) == ("cdc", [5], 5, 1)
    assert outcome(plan(files, position, mode=Mode.CHANGE_LOG, max_files=1)) == ("cdc", [3], 3, 1)
    rewritten = [*files, logged(6, "c3", minute=6)]
    assert [f.offset for f in epoch_members(rewritten, 6)] == [1, 2, 4, 6]
    part = replace(LOADED[0], offset=7, retry=True)
    assert outcome(plan([*files, part], Position(log_offset=5, epoch=1)))[0] == "full_load"  # type: ignore[index]


def test_an_epoch_starts_with_its_first_transfer() -> None:
    parts = [
        logged(1, "LOAD1", minute=3),
        logged(2, "LOAD2", minute=2),
        logged(3, "LOAD3", first_commit_ts=None),
    ]
    assert epoch_start(parts) == NOON + timedelta(minutes=2)
    assert epoch_start([]) is None


def test_what_is_to_be_decided_is_said() -> None:
    stop = plan([*QUIET_TABLE, logged(3, "p0/LOAD1", minute=40)], AT_QUIET, minute=60).stop
    assert stop is not None
    assert stop.reason == (
        "p0/LOAD1 arrived after its full load of 2 files had been applied, and nothing shows whether it is a late part "
        "of it or of a reload (1 such file)."
    )
    assert stop.next_step == (
        "Run `lake-assets full-load public.items --reload` if DMS has loaded the table again, or `lake-assets "
        "full-load public.items --same-load` if it has not."
    )
    stop = plan([*LOADED, logged(4, "c4", minute=6), vanished(5)], AT).stop
    assert stop is not None
    assert stop.reason == "c4, which the next batch needs, has vanished from the bucket."
    assert stop.next_step.startswith("Put it back")
    stop = plan([*LOADED, logged(4, "c4", minute=6), logged(5, "c5", minute=7), vanished(6)], AT).stop
    assert stop is not None
    assert stop.reason.startswith(
        "2 files that the next batch needs have vanished from the bucket, the first of"
    )
    assert stop.next_step.startswith("Put them back")


def test_a_batch_names_the_times_that_all_files_had_vanished() -> None:
    policies: tuple[OnVanished, ...] = ("keep", "truncate")
    for policy in policies:
        batch = plan([*LOADED, vanished(4), vanished(5)], AT, on_vanished=policy).batch
        assert batch is not None
        assert [mark.offset for mark in batch.vanished] == [4, 5]
