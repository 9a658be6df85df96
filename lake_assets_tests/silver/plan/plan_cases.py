"""What is planned from which files: a table of cases. Not here: the tests (`test_plan.py`)."""

from datetime import timedelta
from typing import Any

from lake_assets.config import Mode
from lake_assets.silver.plan.plan import Plan
from lake_assets.silver.table.position import Position
from lake_assets_tests.helpers.files.dms_files import NOON
from lake_assets_tests.helpers.files.planning import (
    AT,
    AT_QUIET,
    DMS,
    IMMEDIATELY,
    LOADED,
    QUIET,
    QUIET_TABLE,
    RELOADED,
    TASK_START,
    plan,
    vanished,
)
from lake_assets_tests.helpers.files.records import logged

CASES: dict[str, tuple[Plan, Any]] = {
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
        "stopped",
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
