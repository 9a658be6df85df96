"""Which files enter the log, in which order, into which epoch: decisions on tables of cases."""

from dataclasses import fields

import pytest

from lake_assets.bronze.admission import Known, admit
from lake_assets.bronze.file_log import LoggedFile, NewFile


def log_passes(*passes):
    """What a log would hold after these passes: [(key, version, epoch), …] in the order of offsets."""
    known = Known()
    records: list[LoggedFile] = []
    for found in passes:
        for file, epoch in admit(found, known, based_on=len(records)):
            values = {field.name: getattr(file, field.name) for field in fields(NewFile)}
            record = LoggedFile(
                offset=len(records) + 1, source="s", logged_at=file.last_modified, epoch=epoch, **values
            )
            known.add(record)
            records.append(record)
    return [(record.key.rsplit("/")[-1].split(".")[0], record.version, record.epoch) for record in records]


L1, L2, L3 = "LOAD00000001", "LOAD00000002", "LOAD00000003"
C1, C2 = "20240501-120001000", "20240501-120002000"


@pytest.mark.parametrize(
    ("case", "passes", "expected"),
    [
        ("the first load, in one pass", "L1a L2a", [(L1, "a", 1), (L2, "a", 1)]),
        ("the first load, part by part", "L1a|L2a|L3a", [(L1, "a", 1), (L2, "a", 1), (L3, "a", 1)]),
        ("changes before any load", "C1a|L1a", [(C1, "a", 1), (L1, "a", 1)]),
        ("loads come before changes", "C2a C1a L1a", [(L1, "a", 1), (C1, "a", 1), (C2, "a", 1)]),
        ("nothing new", "L1a C1a|L1a C1a", [(L1, "a", 1), (C1, "a", 1)]),
        ("a rewritten load opens an epoch", "L1a|L1b", [(L1, "a", 1), (L1, "b", 2)]),
        (
            "its changes belong to it",
            "L1a C1a|L1b C2a",
            [(L1, "a", 1), (C1, "a", 1), (L1, "b", 2), (C2, "a", 2)],
        ),
        (
            "the other part joins it",
            "L1a L2a|L1b|L2b",
            [(L1, "a", 1), (L2, "a", 1), (L1, "b", 2), (L2, "b", 2)],
        ),
        ("both in one pass", "L1a L2a|L1b L2b", [(L1, "a", 1), (L2, "a", 1), (L1, "b", 2), (L2, "b", 2)]),
        ("in any order", "L1a L2a|L2b|L1b", [(L1, "a", 1), (L2, "a", 1), (L2, "b", 2), (L1, "b", 2)]),
        ("a new part joins it", "L1a|L1b L2a", [(L1, "a", 1), (L1, "b", 2), (L2, "a", 2)]),
        ("a new part of the old one", "L1a|L2a|L1b", [(L1, "a", 1), (L2, "a", 1), (L1, "b", 2)]),
        ("the next reload", "L1a|L1b|L1c", [(L1, "a", 1), (L1, "b", 2), (L1, "c", 3)]),
        (
            "a part that only the third load rewrites",
            "L1a L2a|L1b|L1c L2c",
            [(L1, "a", 1), (L2, "a", 1), (L1, "b", 2), (L1, "c", 3), (L2, "c", 3)],
        ),
        (
            "a reload with the content of the first",
            "L1a|L1b|L1a+9",
            [(L1, "a", 1), (L1, "b", 2), (L1, "a", 3)],
        ),
        ("old content with its old time", "L1a|L1b+1|L1a", [(L1, "a", 1), (L1, "b", 2)]),
        ("the same bytes written again", "L1a|L1a+9", [(L1, "a", 1)]),
        (
            "a part of the reload has the same bytes, and comes with it",
            "L1a L2a|L1a+8 L2b+9",
            [(L1, "a", 1), (L2, "a", 1), (L1, "a", 2), (L2, "b", 2)],
        ),
        (
            "or before it",
            "L1a L2a|L1a+8|L1a+8 L2b+9|L1a+8 L2b+9",
            [(L1, "a", 1), (L2, "a", 1), (L1, "a", 2), (L2, "b", 2)],
        ),
        (
            "or after it",
            "L1a L2a|L1b+8|L1b+8 L2a+9|L1b+8 L2a+9",
            [(L1, "a", 1), (L2, "a", 1), (L1, "b", 2), (L2, "a", 2)],
        ),
        ("a part the reload did not write", "L1a L2a|L1b+8 L2a", [(L1, "a", 1), (L2, "a", 1), (L1, "b", 2)]),
        ("changes written again", "C1a|C1b", [(C1, "a", 1), (C1, "b", 1)]),
        ("changes with the same bytes again", "C1a|C1a+9", [(C1, "a", 1)]),
        ("changes put back", "C1a|C1b+1|C1a+2", [(C1, "a", 1), (C1, "b", 1), (C1, "a", 1)]),
        ("a file found twice", "L1a L1a C1a C1a", [(L1, "a", 1), (C1, "a", 1)]),
    ],
)
def test_cases(load, cdc, case, passes, expected):
    """`L1a+9` is LOAD00000001 with content a, written nine minutes after noon."""

    def file(text):
        name, _, minutes = text.partition("+")
        build = load if name[0] == "L" else cdc
        return build(int(name[1]), name[2], **({"minutes": int(minutes)} if minutes else {}))

    assert log_passes(*([file(text) for text in found.split()] for found in passes.split("|"))) == expected


def test_order_over_tables(load, cdc):
    found = [
        cdc(2, table="a"),
        cdc(1, table="z"),
        cdc(2, table="A"),
        load(2, table="b"),
        load(1, table="b"),
        load(1, table="a"),
        load(1, table="z", schema="a", key="a/z/LOAD00000001.csv"),
    ]
    assert [file.key for file, _ in admit(found, Known(), 0)] == [
        "a/z/LOAD00000001.csv",
        "public/a/LOAD00000001.csv",
        "public/b/LOAD00000001.csv",
        "public/b/LOAD00000002.csv",
        "public/z/20240501-120001000.csv",
        "public/A/20240501-120002000.csv",
        "public/a/20240501-120002000.csv",
    ]


def test_the_parts_of_a_parallel_load(load):
    """The same counter in two folders is two files of one epoch; whichever is rewritten first opens the next."""

    def part(folder, version="v1"):
        return load(1, version, key=f"public/trips/{folder}LOAD00000001.csv")

    folders = ["", "SEGMENT1_", "p0/", "p1/"]
    known = Known()
    passes = [[part(f) for f in reversed(folders)], [part("p9/")], [part("p1/", "v2")], [part("", "v2")]]
    offset, epochs = 0, []
    for found in passes:
        admitted = admit(found, known, based_on=offset)
        assert [file.key for file, _ in admitted] == sorted(file.key for file in found)
        for file, epoch in admitted:
            offset += 1
            values = {field.name: getattr(file, field.name) for field in fields(NewFile)}
            known.add(
                LoggedFile(offset=offset, source="s", logged_at=file.last_modified, epoch=epoch, **values)
            )
            epochs.append(epoch)
    assert epochs == [1, 1, 1, 1, 1, 2, 2]


def test_tables_have_epochs_of_their_own(load):
    passes = [[load(1, table="a"), load(1, table="b")], [load(1, "v2", table="b")], [load(2, table="a")]]
    assert [epoch for _, _, epoch in log_passes(*passes)] == [1, 1, 2, 1]


def test_what_was_logged_since_the_listing_is_left_to_the_next_pass(load, cdc):
    known = Known()
    values = {field.name: getattr(load(1, "newer"), field.name) for field in fields(NewFile)}
    known.add(LoggedFile(offset=7, source="s", logged_at=load(1).last_modified, epoch=1, **values))
    stale, unrelated = load(1, "older"), cdc(1)
    assert [file for file, _ in admit([stale, unrelated], known, based_on=6)] == [unrelated]
    assert [file for file, _ in admit([stale, unrelated], known, based_on=7)] == [stale, unrelated]
