"""Which load the rows of a landing are of, where rows, creations of the table and changes land in any order."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

import pytest

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.known import Known
from lake_assets.bronze.log.landed_records import landed_records
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.bronze.log.streams.stream_positions import Note
from lake_assets_tests.bronze.conftest import NOON

GAPS = (0.001, 0.5, 20, 100)
"""Seconds between two messages."""


@dataclass(frozen=True)
class Lands:
    """A file of rows, or a message that DMS has created the table."""

    load: int
    """Its number."""
    at: datetime
    what: str
    """`create`, `part` or `changes`."""


def sent(random: Random) -> list[Lands]:
    """Two to four loads of a table, each with up to four files, and the changes after it, in DMS's order."""
    found, now = list[Lands](), NOON
    for load in range(1, random.choice([2, 3, 3, 4]) + 1):
        found.append(Lands(load, now := now + timedelta(seconds=random.choice([1, 30, 400])), "create"))
        for what, most in (("part", random.randrange(1, 5)), ("changes", random.choice([0, 0, 1, 3]))):
            for _ in range(most):
                found.append(Lands(load, now := now + timedelta(seconds=random.choice(GAPS)), what))
    return found


def disordered(random: Random) -> list[Lands]:
    """As they land from several shards; of each load, some part lands before all of the next one."""
    while True:
        lag = random.choice([0, 1, 2, 3])
        places = [(place + random.uniform(0, lag + 0.5), one) for place, one in enumerate(sent(random))]
        found = [one for _, one in sorted(places, key=lambda each: each[0])]
        loads = [one.load for one in found if one.what == "part"]
        if [*dict.fromkeys(loads)] == sorted({*loads}):
            return found


def file_of(one: Lands, number: int) -> NewFile:
    is_part = one.what == "part"
    return NewFile(
        schema="public",
        table="trips",
        key=f"public/trips/{one.what}-{number}",
        version=str(number),
        kind=FileKind.LOAD if is_part else FileKind.CDC,
        format="csv",
        compression="gzip",
        size=10,
        last_modified=NOON,
        flush_time=None if is_part else one.at,
        capture_date=NOON.date(),
        rows=1,
        first_commit_ts=one.at if is_part else one.at - timedelta(seconds=0.1),
    )


def landed(random: Random, messages: list[Lands]) -> dict[int, set[int]]:
    """By load, the epochs that its files have in the end."""
    known, records, loads = Known(), list[LoggedFile](), dict[str, int]()
    while messages:
        size = random.choice([1, 1, 2, 4])
        now, messages = messages[:size], messages[size:]
        files = [file_of(one, len(loads) + place) for place, one in enumerate(now) if one.what != "create"]
        loads |= {f"public/trips/{one.what}-{len(loads) + place}": one.load for place, one in enumerate(now)}
        created = {"public.trips": [one.at for one in now if one.what == "create"]}
        carrier = [] if files else [file_of(Lands(0, NOON, "carrier"), len(loads))]
        new = landed_records(
            [*files, *carrier],
            Note({}, created if created["public.trips"] else {}),
            known,
            records,
            source="shop",
            head=len(records),
            now=NOON,
        )
        records += new
        for record in new:
            known.add(record)
    assert [record.offset for record in records] == [*range(1, len(records) + 1)]
    newest = {record.key: record for record in records if record.kind is FileKind.LOAD}
    return {
        load: {record.epoch for key, record in newest.items() if loads[key] == load}
        for load in {loads[key] for key in newest}
    }


@pytest.mark.parametrize("block", range(4))
def test_each_load_has_an_epoch_of_its_own(block):
    """The message that DMS has created the table may land after rows, and rows that were transferred later before
    others."""
    for seed in range(block * 300, block * 300 + 300):
        random = Random(seed)
        found = landed(random, disordered(random))
        assert found == {load: {load} for load in found}, f"seed {seed}"
