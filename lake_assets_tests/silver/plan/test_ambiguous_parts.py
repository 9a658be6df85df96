"""Which full-load files are asked about: decisions on cases."""

from datetime import timedelta

import pytest

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.silver.plan.ambiguous_parts import Stamps, ambiguous_parts
from lake_assets.silver.plan.members import epoch_of
from lake_assets.silver.table.position import Position
from lake_assets_tests.helpers.files.dms_files import NOON
from lake_assets_tests.helpers.files.planning import AT, LOADED
from lake_assets_tests.helpers.files.records import logged

APPLIED = Position(log_offset=1, epoch=1, snapshot_id=1)
START = NOON - timedelta(hours=1)


@pytest.mark.parametrize(
    ("case", "files", "position", "expected"),
    [
        ("a corrected part has its former stamp", [*LOADED, logged(4, "LOAD2", minute=1)], AT, []),
        ("older content was put back", [*LOADED, logged(4, "LOAD2", minute=0.5)], AT, [4]),
        (
            "all parts have the task's start",
            [
                logged(1, "LOAD1", first_commit_ts=START),
                logged(2, "LOAD2", first_commit_ts=START),
                logged(3, "LOAD1", first_commit_ts=START),
            ],
            Position(2, 1, snapshot_id=1),
            [3],
        ),
        (
            "two loads, seen together",
            [logged(1, "LOAD1", minute=7 * 60), logged(2, "LOAD2")],
            Position(),
            [1],
        ),
        ("one load of an hour", [logged(1, "LOAD1"), logged(2, "LOAD2", minute=60)], Position(), []),
        (
            "somebody has said that it is one",
            [
                logged(1, "LOAD1", minute=7 * 60, version="v"),
                logged(2, "LOAD2"),
                logged(3, "LOAD1", minute=7 * 60, version="v"),
            ],
            Position(),
            [],
        ),
        (
            "a first load without stamps may have been copied for days",
            [
                logged(1, "LOAD1", first_commit_ts=None),
                logged(2, "LOAD2", minute=7 * 60, first_commit_ts=None),
            ],
            Position(),
            [],
        ),
        (
            "a reload without stamps, and a part that was touched long before",
            [
                logged(1, "LOAD1", first_commit_ts=None),
                logged(2, "LOAD1", minute=1000, epoch=2, first_commit_ts=None, content="b"),
                logged(3, "LOAD2", minute=100, epoch=2, first_commit_ts=None, content="c"),
            ],
            APPLIED,
            [2],
        ),
        (
            "a reload of which one part has no row, and so no stamp",
            [
                logged(1, "LOAD1"),
                logged(2, "LOAD1", minute=100, epoch=2, content="b"),
                logged(3, "LOAD2", minute=1000, epoch=2, first_commit_ts=None, content="c"),
            ],
            APPLIED,
            [],
        ),
        (
            "a reload whose stamps are no later",
            [logged(1, "LOAD1", minute=9), logged(2, "p0/LOAD1", minute=3, epoch=2)],
            APPLIED,
            [2],
        ),
        (
            "a later part of the reload came first, and was logged with the load before",
            [
                logged(1, "LOAD1"),
                logged(2, "LOAD2", minute=100, version="v"),
                logged(3, "LOAD1", minute=99, epoch=2, content="b"),
                logged(4, "LOAD2", minute=100, epoch=2, version="v"),
            ],
            Position(log_offset=2, epoch=1, snapshot_id=1),
            [],
        ),
        (
            "the same file that had vanished is back",
            [logged(1, "LOAD1", content="a"), logged(2, "LOAD1", epoch=2, content="a", version="other")],
            APPLIED,
            [],
        ),
        (
            "too large to be compared, no stamps, the same size",
            [
                logged(1, "LOAD1", first_commit_ts=None, rows=None),
                logged(2, "LOAD1", epoch=2, first_commit_ts=None, rows=None),
            ],
            APPLIED,
            [2],
        ),
    ],
)
def test_cases(case: str, files: list[LoggedFile], position: Position, expected: list[int]) -> None:
    epoch = max(file.epoch for file in files)
    ambiguity = ambiguous_parts(files, epoch, position, Stamps.TRANSFER)
    assert ([part.offset for part in ambiguity.parts] if ambiguity is not None else []) == expected


@pytest.mark.parametrize(
    ("one_stamp", "stamps", "asked"),
    [
        (False, Stamps.TRANSFER, False),
        (False, Stamps.TASK_START, True),
        (True, Stamps.TRANSFER, True),
        (None, Stamps.TRANSFER, True),
        (None, Stamps.ANNOUNCED, False),
    ],
)
def test_equal_stamps_that_may_be_the_tasks_start_say_nothing(
    one_stamp: bool | None, stamps: Stamps, asked: bool
) -> None:
    files = [logged(n, "LOAD1", first_commit_ts=START, one_stamp=one_stamp) for n in (1, 2)]
    change = logged(3, "20260301-121000000", minute=10)
    for known, position in ((files, APPLIED), ([*files, change], Position())):
        ambiguity = ambiguous_parts(known, 1, position, stamps)
        assert ([part.offset for part in ambiguity.parts] if ambiguity is not None else []) == (
            [2] if asked else []
        )
    assert ambiguous_parts(files, 1, Position(), stamps) is None, "nothing depends on it"


@pytest.mark.parametrize(
    ("case", "files", "asked"),
    [
        ("a correction, or a reload", ["1 LOAD1 a", "C", "2 LOAD1 b"], [3]),
        ("of a part of two", ["1 LOAD1 a", "1 LOAD2 x", "C", "2 LOAD1 b"], [4]),
        (
            "of both, and the changes may be in them",
            ["1 LOAD1 a", "1 LOAD2 x", "C", "2 LOAD1 b", "2 LOAD2 y"],
            [4, 5],
        ),
        ("no changes, all parts: it makes no difference", ["1 LOAD1 a", "2 LOAD1 b"], []),
        (
            "no changes, one of two parts: the other's rows would go",
            ["1 LOAD1 a", "1 LOAD2 x", "2 LOAD1 b"],
            [3],
        ),
        ("a reload, by its answer", ["1 LOAD1 a", "C", "2 LOAD1 b", "2 LOAD1 b"], []),
        (
            "and a further part of it",
            ["1 LOAD1 a", "1 LOAD2 x", "C", "2 LOAD1 b", "2 LOAD1 b", "2 LOAD2 y"],
            [],
        ),
        ("the same load, by its answer", ["1 LOAD1 a", "C", "2 LOAD1 b", "1 LOAD1 b"], []),
    ],
)
def test_other_rows_without_timestamps(case: str, files: list[str], asked: list[int]) -> None:
    records: list[LoggedFile] = []
    for offset, text in enumerate(files, 1):
        if text == "C":
            records.append(logged(offset, "20260301-121000000", minute=10))
            continue
        epoch, key, version = text.split()
        minute = 0 if epoch == "1" and version in "ax" else 60
        records.append(
            logged(
                offset,
                key,
                minute=minute,
                epoch=int(epoch),
                version=version,
                content=version,
                first_commit_ts=None,
            )
        )
    applied = next(n for n, text in enumerate([*files, "2"]) if text[0] == "2")
    position = Position(log_offset=applied, epoch=1, snapshot_id=1)
    ambiguity = ambiguous_parts(records, epoch_of(records), position, Stamps.TRANSFER)
    assert ([part.offset for part in ambiguity.parts] if ambiguity is not None else []) == asked
