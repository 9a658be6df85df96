"""Which files enter the log, in which order, into which epoch: decisions on tables of cases."""

from datetime import timedelta

import pytest

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.admission import admit
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.log.known import Known
from lake_assets.bronze.scan.vanished import Vanished, vanished_record
from lake_assets_tests.bronze.conftest import NOON
from lake_assets_tests.helpers.files.records import as_logged


def log_passes(*passes):
    """What a log would hold after these passes: [(key, version, epoch), …] in the order of offsets."""
    known = Known()
    records: list[LoggedFile] = []
    for found in passes:
        for file, epoch in admit(found, known, based_on=len(records)):
            record = as_logged(file, len(records) + 1, epoch)
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


def minutes(number):
    """As in `load` and `cdc`: after noon."""
    return NOON + timedelta(minutes=number)


@pytest.mark.parametrize(
    ("case", "passes", "expected"),
    [
        # A part is `L<number>@<minute of its transfer>`, of a reload under new keys `P…`; changes `C@<minute flushed>`.
        ("late, from amid the load", "L1@0 L2@9 C@20|L3@4", [1, 1, 1, 1]),
        ("late, from after the parts known, before any change", "L1@0 C@20|L2@9", [1, 1, 1]),
        ("a reload after changes", "L1@0 L2@9 C@20|P1@30 P2@31", [1, 1, 1, 2, 2]),
        ("a reload, part by part, in any order", "L1@0 C@20|P2@31|P1@30|P3@32", [1, 1, 2, 2, 2]),
        ("two reloads", "L1@0 C@20|P1@30|C@40|Q1@50", [1, 1, 2, 2, 3]),
        ("all in one pass", "L1@0 L2@9 P1@30 P2@31 Q1@50 C@20 C@40", [1, 1, 2, 2, 3, 3, 3]),
        ("a late part of the load before", "L1@0 L2@9 C@20|P1@30|L3@4", [1, 1, 1, 2, 1]),
        ("nothing tells, because nothing has changed", "L1@0 L2@9|P1@30", [1, 1, 1]),
        ("nothing tells under the task's start", "L1@0 C@20|P1@0", [1, 1, 1]),
        ("changes from before the first load", "C@-5 C@1 L1@0|L2@9", [1, 1, 1, 1]),
        # A key that comes with another minute was rewritten: a reload.
        ("a late part, seen with the reload of another", "L1@0 C@20|L1@30 L2@4", [1, 1, 2, 1]),
        ("the same after the changes", "L1@0 C@20|L1@30 L2@25", [1, 1, 2, 2]),
        ("a reload's part that came before its others", "L1@0|L2@31|L1@30", [1, 1, 2, 2]),
        ("the same, of three", "L1@0 L2@1|L3@32|L1@31|L2@30", [1, 1, 1, 2, 2, 2]),
        (
            "a part that came before its others does not hide another of it",
            "L1@0|L2@31|L1@30|L3@29",
            [1, 1, 2, 2, 2],
        ),
        ("its first part, seen with the load before", "L1@0 L2@29|L1@30", [1, 1, 2, 2]),
        ("not so, by the changes between", "L1@0 L2@20 C@21|L1@25", [1, 1, 1, 2]),
        ("a claimed part is written again", "L1@0 L2@29|L1@30|L2@33", [1, 1, 2, 2, 2]),
        ("and once more", "L1@0 L2@29|L1@30|L2@33|L2@60", [1, 1, 2, 2, 2, 3]),
        ("two reloads, of the second all parts at once", "L1@0 L2@1|L2@30|L1@60 L2@61", [1, 1, 2, 3, 3]),
        ("the same, of the first one each", "L1@0 L2@1|L2@30|L1@31 L2@61", [1, 1, 2, 2, 3]),
        ("older content that is put back is no reload", "L1@9 L2@10|L1@0", [1, 1, 1]),
        ("nothing tells: soon after the load before", "L1@0|L1@30 L2@1|L2@31", [1, 2, 1, 2]),
        ("nothing tells: soon before the reload", "L1@0|L1@30 L2@29", [1, 2, 2]),
        ("a part of the load before, copied after the reload", "L1@0 L2@1|L1@30|L3@1", [1, 1, 2, 1]),
    ],
)
def test_reloads_under_new_keys(load, cdc, case, passes, expected):
    numbers = {"L": 1, "P": 101, "Q": 201}
    known = Known()
    epochs: list[int] = []
    keys: set[str] = set()
    for found in passes.split("|"):
        files = []
        for text in found.split():
            name, _, at = text.partition("@")
            moment = minutes(int(at))
            if name == "C":
                file = cdc(int(at) * 60, first_commit_ts=moment - timedelta(seconds=40))
            else:
                file = load(numbers[name[0]] + int(name[1]), f"from minute {at}", first_commit_ts=moment)
            files.append(file)
        keys |= {file.key for file in files}
        before = len(epochs)
        for file, epoch in admit(files, known, based_on=before, listed=keys):
            known.add(as_logged(file, len(epochs) + 1, epoch))
            epochs.append(epoch)
    assert epochs == expected


def test_new_parts_where_those_known_are_gone_are_a_reload(load):
    """DMS has emptied the folder before it loads. If one of them is there, it has not."""
    known = Known()
    for number in (1, 2):
        known.add(as_logged(load(number), number, 1))
    new = load(3, first_commit_ts=NOON + timedelta(hours=1))
    assert [epoch for _, epoch in admit([new], known, 2, listed={new.key})] == [2]
    assert [epoch for _, epoch in admit([new], known, 2, listed={new.key, load(1).key})] == [1]
    assert [epoch for _, epoch in admit([new], known, 2)] == [1]


def test_after_the_files_have_vanished_everything_begins_anew(load, cdc):
    known = Known()
    known.add(as_logged(load(1), 1, 1))
    known.add(as_logged(cdc(1), 2, 1))
    seen = [as_logged(load(1), 1, 1)]
    gone = vanished_record(Vanished(tuple(seen), certain=True), NOON)
    new = cdc(9)
    admitted = admit([new, gone, load(7)], known, 2)
    assert [(file.kind, epoch) for file, epoch in admitted] == [
        (FileKind.VANISHED, 1),
        (FileKind.LOAD, 2),
        (FileKind.CDC, 2),
    ]
    known.add(as_logged(gone, 3, 1))
    # Nothing is left that could vanish, or somebody has logged a file since the listing.
    assert admit([gone], known, 3) == []
    known.add(as_logged(new, 4, 2))
    assert admit([gone], known, 3) == []
    assert admit([gone], known, 4) != []
    # The very same files are there again: they are logged again, the full load as a reload.
    assert [(f.key, epoch) for f, epoch in admit([load(1), cdc(1), new], known, 4)] == [
        (load(1).key, 2),
        (cdc(1).key, 2),
    ]


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
            known.add(as_logged(file, offset, epoch))
            epochs.append(epoch)
    assert epochs == [1, 1, 1, 1, 1, 2, 2]


def test_tables_have_epochs_of_their_own(load):
    passes = [[load(1, table="a"), load(1, table="b")], [load(1, "v2", table="b")], [load(2, table="a")]]
    assert [epoch for _, _, epoch in log_passes(*passes)] == [1, 1, 2, 1]


def test_what_was_logged_since_the_listing_is_left_to_the_next_pass(load, cdc):
    known = Known()
    known.add(as_logged(load(1, "newer"), 7))
    stale, unrelated = load(1, "older"), cdc(1)
    assert [file for file, _ in admit([stale, unrelated], known, based_on=6)] == [unrelated]
    assert [file for file, _ in admit([stale, unrelated], known, based_on=7)] == [stale, unrelated]
