"""The next batch of a silver table, case by case; no Spark, no files."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from lake_assets.bronze.file_log import LoggedFile
from lake_assets.bronze.keys import FileKind
from lake_assets.config import FullLoadComplete, Mode, OnVanished
from lake_assets.silver.plan import Batch, Gate, Waiting, epoch_members, epoch_start, plan_batch
from lake_assets.silver.position import Position

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FIRST_CDC = FullLoadComplete.model_validate("first_cdc")
IMMEDIATELY = FullLoadComplete.model_validate("immediately")
QUIET = FullLoadComplete.model_validate({"quiet_period": "5m"})


def logged(offset: int, key: str, *, minute: float = 0, epoch: int = 1, **changed: Any) -> LoggedFile:
    """A record of the log: LOAD objects were modified, and their first row transferred, at `minute` past noon; CDC
    files were flushed then."""
    at = NOON + timedelta(minutes=minute)
    load = "LOAD" in key
    record = LoggedFile(
        offset=offset,
        source="shop",
        schema="public",
        table="items",
        key=key,
        version=f"v{offset}",
        kind=FileKind.LOAD if load else FileKind.CDC,
        format="csv",
        compression="none",
        size=10,
        last_modified=at,
        logged_at=at,
        flush_time=None if load else at,
        capture_date=date(2026, 3, 1),
        epoch=epoch,
        rows=1,
        columns=None,
        first_commit_ts=at if load else at - timedelta(minutes=1),
    )
    return replace(record, **changed)


def plan(
    files: list[LoggedFile],
    position: Position | None = None,
    *,
    mode: Mode = Mode.CURRENT,
    policy: FullLoadComplete = FIRST_CDC,
    minute: float = 1,
    max_files: int = 100,
    on_vanished: OnVanished = "keep",
    gate: Gate | None = None,
) -> Batch | Waiting | None:
    return plan_batch(
        position or Position(),
        files,
        mode=mode,
        policy=policy,
        now=NOON + timedelta(minutes=minute),
        max_files=max_files,
        on_vanished=on_vanished,
        gate=gate,
    )


def vanished(offset: int, minute: float = 30) -> LoggedFile:
    """All files before it have vanished."""
    return logged(offset, "public/items/", minute=minute, kind=FileKind.VANISHED, flush_time=None, rows=0)


def outcome(batch: Batch | Waiting | None) -> tuple[str, list[int], int, int] | str | None:
    """A batch as (kind, offsets of its files, upto, epoch); `waiting`; `stopped`; None."""
    if isinstance(batch, Batch):
        if batch.stop is not None:
            return "stopped"
        return batch.kind, [file.offset for file in batch.files], batch.upto, batch.epoch
    return "waiting" if batch is not None else None


DMS = FullLoadComplete.model_validate("dms")
AT = Position(log_offset=3, epoch=1, snapshot_id=1)
LOADED = [logged(1, "LOAD1"), logged(2, "LOAD2", minute=1), logged(3, "c3", minute=5)]
QUIET_TABLE = [logged(1, "LOAD1"), logged(2, "LOAD2", minute=1)]
AT_QUIET = Position(log_offset=2, epoch=1, snapshot_id=1)
RELOADED = [*LOADED, logged(4, "LOAD1", minute=20, epoch=2)]
TASK_START = NOON - timedelta(hours=1)

CASES: dict[str, tuple[Batch | Waiting | None, Any]] = {
    "nothing logged": (plan([]), None),
    "nothing new": (plan(LOADED, AT), None),
    # When a full load counts as complete.
    "first_cdc, none yet": (plan(LOADED[:2]), "waiting"),
    "first_cdc, five quiet minutes": (plan(LOADED[:2], minute=6), ("full_load", [1, 2], 2, 1)),
    "first_cdc, and here it is": (plan(LOADED, minute=1.1), ("full_load", [1, 2], 2, 1)),
    "first_cdc, but that CDC is older than the load": (
        plan([logged(1, "LOAD1", minute=10), logged(2, "c2", minute=9)], minute=11),
        "waiting",
    ),
    "quiet_period does not mind CDC": (plan(LOADED, policy=QUIET), "waiting"),
    "quiet_period is over": (plan(LOADED, policy=QUIET, minute=6), ("full_load", [1, 2], 2, 1)),
    "quiet_period counts from the newest part": (plan(LOADED, policy=QUIET, minute=5.9), "waiting"),
    "immediately": (plan(LOADED[:1], policy=IMMEDIATELY, minute=0), ("full_load", [1], 1, 1)),
    # A part that comes after the table was loaded makes it anew, with the CDC up to it.
    "late LOAD part": (
        plan(
            [*LOADED, logged(4, "c4", minute=6), logged(5, "LOAD3", minute=2), logged(6, "c6", minute=7)], AT
        ),
        ("full_load", [1, 2, 3, 4, 5], 5, 1),
    ),
    "late LOAD part below what was applied": (
        plan([logged(1, "LOAD1"), logged(2, "c2", minute=5), logged(3, "LOAD2", minute=1)], Position(2, 1)),
        ("full_load", [1, 2, 3], 3, 1),
    ),
    # Reloads.
    "a reload waits for its own CDC": (
        plan([*LOADED, logged(4, "LOAD1", minute=20, epoch=2)], AT, minute=21),
        "waiting",
    ),
    "a reload replaces": (
        plan(
            [*LOADED, logged(4, "LOAD1", minute=20, epoch=2), logged(5, "c5", minute=22, epoch=2)],
            AT,
            minute=23,
        ),
        ("full_load", [4], 4, 2),
    ),
    "CDC waits with the reload": (
        plan([*LOADED, logged(4, "c4", minute=19), logged(5, "LOAD1", minute=20, epoch=2)], AT, minute=21),
        "waiting",
    ),
    "a reload keeps the CDC written since it began, also if logged before": (
        plan([*LOADED, logged(4, "c4", minute=21), logged(5, "LOAD1", minute=20, epoch=2)], AT, minute=30),
        ("full_load", [4, 5], 5, 2),
    ),
    "two reloads at once: only the last counts": (
        plan(
            [
                *LOADED,
                logged(4, "LOAD1", minute=20, epoch=2),
                logged(5, "LOAD1", minute=30, epoch=3),
                logged(6, "c6", minute=32, epoch=3),
            ],
            AT,
            minute=33,
        ),
        ("full_load", [5], 5, 3),
    ),
    "a reload without transfer times starts with its oldest object": (
        plan(
            [
                *LOADED,
                logged(4, "c4", minute=19),
                logged(5, "LOAD1", minute=20, epoch=2, first_commit_ts=None),
                logged(6, "c6", minute=22, epoch=2),
            ],
            AT,
            minute=23,
        ),
        ("full_load", [5], 5, 2),
    ),
    # What shows that a reload of a running task is over, and what does not.
    "a reload, and changes that DMS still had from before it": (
        plan([*RELOADED, logged(5, "c5", minute=20.5, first_commit_ts=NOON + timedelta(minutes=19))], AT),
        "waiting",
    ),
    "a reload, and a change from just before it by a fast clock": (
        plan([*RELOADED, logged(5, "c5", minute=21.4, first_commit_ts=NOON + timedelta(minutes=20.5))], AT),
        "waiting",
    ),
    "a reload, and a file that began before it and ends after": (
        plan([*RELOADED, logged(5, "c5", minute=23, first_commit_ts=NOON + timedelta(minutes=19.9))], AT),
        "waiting",
    ),
    "a reload, and changes without a commit time": (
        plan([*RELOADED, logged(5, "c5", minute=23, first_commit_ts=None)], AT),
        "waiting",
    ),
    "a reload, its changes, and a part that was transferred after them": (
        plan([*RELOADED, logged(5, "c5", minute=22), logged(6, "LOAD2", minute=23, epoch=2)], AT),
        "waiting",
    ),
    "a reload, and the first of two files that is its own": (
        plan(
            [
                *RELOADED,
                logged(5, "c5", minute=20.5, first_commit_ts=NOON + timedelta(minutes=19)),
                logged(6, "c6", minute=22),
            ],
            AT,
        ),
        ("full_load", [4], 4, 2),
    ),
    "the first load of a table that had changes before": (
        plan([logged(1, "c1", minute=-2), logged(2, "c2", minute=0.5), logged(3, "LOAD1")]),
        "waiting",
    ),
    "a reload under the task's start as time of all transfers": (
        plan(
            [
                logged(1, "LOAD1", first_commit_ts=TASK_START),
                logged(2, "c2", minute=5),
                logged(3, "c3", minute=19),
                logged(4, "LOAD1", minute=20, epoch=2, first_commit_ts=TASK_START),
                logged(5, "c5", minute=22, epoch=2),
            ],
            Position(2, 1, snapshot_id=1),
        ),
        ("full_load", [4], 4, 2),
    ),
    # Parts under new keys after the table was loaded: late ones, a reload's, or nobody knows.
    "a part from amid the load comes late": (
        plan([*QUIET_TABLE, logged(3, "LOAD3", minute=0.5)], AT_QUIET, minute=60),
        ("full_load", [1, 2, 3], 3, 1),
    ),
    "a part from after the load, and no change since": (
        plan([*QUIET_TABLE, logged(3, "p0/LOAD1", minute=40)], AT_QUIET, minute=60),
        "stopped",
    ),
    "the same with a quiet period": (
        plan([*QUIET_TABLE, logged(3, "p0/LOAD1", minute=40)], AT_QUIET, policy=QUIET, minute=60),
        "stopped",
    ),
    "the same by DMS's word": (
        plan([*QUIET_TABLE, logged(3, "p0/LOAD1", minute=40)], AT_QUIET, policy=DMS, minute=60),
        "stopped",
    ),
    "immediately: whatever comes is the load's": (
        plan([*QUIET_TABLE, logged(3, "p0/LOAD1", minute=40)], AT_QUIET, policy=IMMEDIATELY, minute=60),
        ("full_load", [1, 2, 3], 3, 1),
    ),
    "a part from after a change, logged before the change was": (
        plan([*LOADED, logged(4, "p0/LOAD1", minute=40)], AT, minute=60),
        "stopped",
    ),
    "a part without a transfer time": (
        plan([*LOADED, logged(4, "LOAD3", minute=2, first_commit_ts=None)], AT, minute=60),
        "stopped",
    ),
    "a part under the task's start as time of all transfers": (
        plan(
            [
                logged(1, "LOAD1", first_commit_ts=TASK_START),
                logged(2, "c2", minute=5),
                logged(3, "LOAD2", minute=40, first_commit_ts=TASK_START),
            ],
            Position(2, 1, snapshot_id=1),
            minute=60,
        ),
        "stopped",
    ),
    "somebody has said: the same load": (
        plan(
            [
                *QUIET_TABLE,
                logged(3, "LOAD3", minute=40, version="v"),
                logged(4, "LOAD3", minute=40, version="v"),
            ],
            AT_QUIET,
            minute=60,
        ),
        ("full_load", [1, 2, 4], 4, 1),
    ),
    "somebody has said: a reload": (
        plan(
            [
                *QUIET_TABLE,
                logged(3, "LOAD3", minute=40, version="v"),
                logged(4, "LOAD3", minute=40, version="v", epoch=2),
            ],
            AT_QUIET,
            minute=60,
        ),
        ("full_load", [4], 4, 2),
    ),
    "not applied yet: the parts gather": (
        plan([logged(1, "LOAD1"), logged(2, "LOAD2", minute=4)], minute=10),
        ("full_load", [1, 2], 2, 1),
    ),
    # DMS's word.
    "DMS says no": (plan(LOADED, policy=DMS, minute=60, gate=lambda parts: "no"), "waiting"),
    "DMS says yes": (plan(LOADED, policy=DMS, gate=lambda parts: None), ("full_load", [1, 2], 2, 1)),
    # All files of the table vanish.
    "vanished, and nothing happens": (plan([*LOADED, vanished(4)], AT), ("cdc", [], 4, 1)),
    "vanished, and changes go on": (
        plan([*LOADED, vanished(4), logged(5, "c5", minute=31, epoch=2)], AT),
        ("cdc", [5], 5, 1),
    ),
    "vanished before it was applied": (
        plan([*LOADED, logged(4, "c4", minute=6), vanished(5)], AT),
        "stopped",
    ),
    "vanished, and a file comes back": (
        plan([*LOADED, vanished(4), logged(5, "c3", minute=5, version="v3", epoch=2)], AT),
        "stopped",
    ),
    "truncate": (plan([*LOADED, vanished(4)], AT, on_vanished="truncate"), ("truncate", [], 4, 1)),
    "truncate once": (
        plan([*LOADED, vanished(4)], Position(4, 1, snapshot_id=1), on_vanished="truncate"),
        None,
    ),
    "truncate skips what cannot be read any more": (
        plan([*LOADED, logged(4, "c4", minute=6), vanished(5)], AT, on_vanished="truncate"),
        ("truncate", [], 5, 1),
    ),
    "truncate, then the changes since": (
        plan(
            [*LOADED, vanished(4), logged(5, "c5", minute=31, epoch=2)],
            Position(4, 1, snapshot_id=1),
            on_vanished="truncate",
        ),
        ("cdc", [5], 5, 1),
    ),
    "truncate, then a reload": (
        plan(
            [
                *LOADED,
                vanished(4),
                logged(5, "LOAD1", minute=31, epoch=2),
                logged(6, "c6", minute=33, epoch=2),
            ],
            Position(4, 1, snapshot_id=1),
            on_vanished="truncate",
        ),
        ("full_load", [5], 5, 2),
    ),
    "a rebuild begins after the truncation": (
        plan([*LOADED, vanished(4), logged(5, "c5", minute=31, epoch=2)], on_vanished="truncate"),
        ("cdc", [5], 5, 0),
    ),
    "twice": (
        plan([*LOADED, vanished(4), logged(5, "c5", minute=31), vanished(6)], AT, on_vanished="truncate"),
        ("truncate", [], 6, 1),
    ),
    "drop empties first": (plan([*LOADED, vanished(4)], AT, on_vanished="drop"), ("truncate", [], 4, 1)),
    "drop": (
        plan([*LOADED, vanished(4)], Position(4, 1, snapshot_id=1), on_vanished="drop"),
        ("drop", [], 4, 1),
    ),
    "dropped": (plan([*LOADED, vanished(4)], on_vanished="drop"), None),
    "not dropped any more": (
        plan(
            [*LOADED, vanished(4), logged(5, "c5", minute=31)],
            Position(4, 1, snapshot_id=1),
            on_vanished="drop",
        ),
        ("cdc", [5], 5, 1),
    ),
    "a change log takes nothing back": (
        plan(
            [*LOADED, vanished(4), logged(5, "c5", minute=31, epoch=2)],
            AT,
            mode=Mode.CHANGE_LOG,
            on_vanished="truncate",
        ),
        ("cdc", [5], 5, 2),
    ),
    "a change log knows what comes back": (
        plan(
            [*LOADED, vanished(4), logged(5, "c3", minute=5, version="v3", epoch=2)], AT, mode=Mode.CHANGE_LOG
        ),
        ("cdc", [], 5, 2),
    ),
    # CDC.
    "the next files": (
        plan([*LOADED, logged(4, "c4", minute=6), logged(5, "c5", minute=7)], AT),
        ("cdc", [4, 5], 5, 1),
    ),
    "no more than max_files": (
        plan([*LOADED, logged(4, "c4", minute=6), logged(5, "c5", minute=7)], AT, max_files=1),
        ("cdc", [4], 4, 1),
    ),
    "superseded by the load": (plan([*LOADED, logged(4, "c4", minute=-1)], AT), ("cdc", [], 4, 1)),
    "superseded among others": (
        plan([*LOADED, logged(4, "c4", minute=-1), logged(5, "c5", minute=9)], AT),
        ("cdc", [5], 5, 1),
    ),
    "a first load without transfer times supersedes nothing": (
        plan(
            [logged(1, "LOAD1", minute=10, first_commit_ts=None), logged(2, "c2", minute=-5)], Position(1, 1)
        ),
        ("cdc", [2], 2, 1),
    ),
    "a table that was never loaded": (plan([logged(1, "c1"), logged(2, "c2")]), ("cdc", [1, 2], 2, 0)),
    "its first load": (
        plan(
            [logged(1, "c1", minute=-2), logged(2, "c2", minute=3), logged(3, "LOAD1")],
            Position(2, 0),
            minute=9,
        ),
        ("full_load", [2, 3], 3, 1),
    ),
    # Objects that were written again under their keys: only the newest content can be read.
    "rewritten before it was applied": (
        plan([*LOADED, logged(4, "c4", minute=6), logged(5, "c4", minute=6)], AT),
        ("cdc", [5], 5, 1),
    ),
    "rewritten before it was applied, in the next batch": (
        plan([*LOADED, logged(4, "c4", minute=6), logged(5, "c4", minute=6)], AT, max_files=1),
        ("cdc", [], 4, 1),
    ),
    "rewritten after it was applied: the table is made anew": (
        plan([*LOADED, logged(4, "c4", minute=6), logged(5, "c3", minute=5)], AT),
        ("full_load", [1, 2, 4, 5], 5, 1),
    ),
    "rewritten after it was applied, a table never loaded": (
        plan([logged(1, "c1"), logged(2, "c2"), logged(3, "c1")], Position(2, 0)),
        ("full_load", [2, 3], 3, 0),
    ),
    "rewritten, but superseded": (
        plan([*LOADED, logged(4, "c4", minute=-1), logged(5, "c4", minute=-1)], Position(4, 1)),
        ("cdc", [], 5, 1),
    ),
    "a load that leaves out what was rewritten since": (
        plan([logged(1, "LOAD1"), logged(2, "c2", minute=5), logged(3, "LOAD2"), logged(4, "c2", minute=5)]),
        ("full_load", [1, 3], 3, 1),
    ),
    # Logs.
    "an append_log waits for its full load": (plan(LOADED[:2], mode=Mode.APPEND_LOG), "waiting"),
    "an append_log is replaced by a reload": (
        plan([*LOADED, logged(4, "LOAD1", minute=20, epoch=2)], AT, mode=Mode.APPEND_LOG, policy=IMMEDIATELY),
        ("full_load", [4], 4, 2),
    ),
    "a change log waits for nothing": (plan(LOADED[:2], mode=Mode.CHANGE_LOG), ("cdc", [1, 2], 2, 1)),
    "a change log keeps what a load supersedes, and the load": (
        plan(
            [*LOADED, logged(4, "c4", minute=-1), logged(5, "LOAD1", minute=20, epoch=2)],
            AT,
            mode=Mode.CHANGE_LOG,
        ),
        ("cdc", [4, 5], 5, 2),
    ),
    "a change log in pieces": (plan(LOADED, mode=Mode.CHANGE_LOG, max_files=2), ("cdc", [1, 2], 2, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_next_batch(name: str) -> None:
    found, expected = CASES[name]
    assert outcome(found) == expected


def test_waiting_says_what_for_and_how_long() -> None:
    waiting = plan(LOADED[:2], minute=2)
    assert isinstance(waiting, Waiting)
    assert waiting.reason == (
        "full load of 2 files: waiting for the first CDC file or 240 more seconds without a new LOAD file"
    )
    waiting = plan(LOADED, minute=2, policy=QUIET)
    assert isinstance(waiting, Waiting)
    assert "waiting for 240 more seconds" in waiting.reason


def test_left_out_files_are_counted() -> None:
    batch = plan(
        [*LOADED, logged(4, "c4", minute=-1), logged(5, "c5", minute=9), logged(6, "c6", minute=-2)], AT
    )
    assert isinstance(batch, Batch)
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
    while (batch := plan(files, position, mode=mode, policy=IMMEDIATELY, max_files=max_files)) is not None:
        assert isinstance(batch, Batch)
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
    assert [file.offset for file in epoch_members(files, 1, 4)] == [2, 3]
    assert [file.offset for file in epoch_members(files, 2, 6)] == [5, 6]


def test_a_request_for_held_rows_hides_no_content() -> None:
    """Wherever a batch ends, the file is there; of one that was written again, nothing is asked for."""
    cdc = logged(3, "c3", minute=6)
    other = logged(4, "c4", minute=7)
    asked = replace(cdc, offset=5, retry=True)
    files = [*LOADED, cdc, other, asked]
    assert [[f.offset for f in epoch_members(files, 1, upto)] for upto in (3, 4, 5)] == [
        [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]
    ]  # fmt: skip
    position = Position(log_offset=2, epoch=1)
    assert outcome(plan(files, position, max_files=1)) == ("cdc", [3], 3, 1)
    assert outcome(plan(files, Position(log_offset=4, epoch=1))) == ("cdc", [5], 5, 1)
    assert outcome(plan(files, position, mode=Mode.CHANGE_LOG, max_files=1)) == ("cdc", [3], 3, 1)
    rewritten = [*files, logged(6, "c3", minute=6)]
    assert [f.offset for f in epoch_members(rewritten, 1, 6)] == [1, 2, 4, 6]
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
    batch = plan([*QUIET_TABLE, logged(3, "p0/LOAD1", minute=40)], AT_QUIET, minute=60)
    assert isinstance(batch, Batch)
    assert batch.stop is not None
    assert batch.stop.reason == (
        "p0/LOAD1 came after its full load of 2 files had been applied, and nothing tells whether it is a late part of "
        "it or of a reload (1 such files)."
    )
    batch = plan([*LOADED, logged(4, "c4", minute=6), vanished(5)], AT)
    assert isinstance(batch, Batch)
    assert batch.stop is not None
    assert batch.stop.reason.startswith(
        "1 files that it needs have vanished from the bucket, the first of them c4"
    )


def test_a_batch_names_the_times_that_all_files_had_vanished() -> None:
    policies: tuple[OnVanished, ...] = ("keep", "truncate")
    for policy in policies:
        batch = plan([*LOADED, vanished(4), vanished(5)], AT, on_vanished=policy)
        assert isinstance(batch, Batch)
        assert [mark.offset for mark in batch.vanished] == [4, 5]
