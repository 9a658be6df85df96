"""The mixture's verdict finds what is wrong, and a minute of the mixture is right.

Here: reads that are judged, without a lake; in the long tests, one minute of everything. Not here: the ten minutes
whose results are in docs/chaos.md (`make mixture`).
"""

from pathlib import Path
from typing import Any

import pytest

from lake_assets_tests.helpers.processes.child import output_of, run_python
from lake_assets_tests.mixture.people import CITIES, KEEP_SECONDS, SILVER, People, by_city, rows_at
from lake_assets_tests.mixture.programs import digest
from lake_assets_tests.mixture.verdict import Judged, judged

BATCH, MERGED, MART = 11, 12, 13
"""Snapshots: of a batch, of a maintenance after it, of a mart that has consumed that one."""
CHAIN = [[BATCH, None, 2, {}], [MERGED, BATCH, None, {}], [MART, None, None, {SILVER: MERGED}]]
GONE = "FileNotFoundError: [Errno 2] No such file or directory"


@pytest.fixture
def people(tmp_path: Path) -> People:
    found = People(tmp_path, seed=1)
    for _ in range(3):
        found.change()
    return found


def verdict(people: People, erasures: Any = (), **read: Any) -> Judged:
    given = {"table": SILVER, "began": 100.0, "ended": 101.0, "snapshot": MERGED, "chain": CHAIN, "rows": 1}
    offsets = {file.key: number for number, file in enumerate(people.files, 1)}
    return judged([given | read], people.files, offsets, erasures)


def test_reads_are_compared_with_the_source_at_their_position(people: People) -> None:
    offsets = {file.key: number for number, file in enumerate(people.files, 1)}
    then, later = (rows_at(people.files, offsets, position) for position in (2, 3))
    assert digest(then) != digest(later)
    for table, snapshot, shown in ((SILVER, MERGED, list), (CITIES, MART, by_city)):
        right = verdict(people, table=table, snapshot=snapshot, digest=digest(shown(then)))
        assert (right.compared, right.wrong) == (1, [])
        wrong = verdict(people, table=table, snapshot=snapshot, digest=digest(shown(later)))
        assert "are not those of the source at offset 2" in wrong.wrong[0]


@pytest.mark.parametrize(
    ("error", "ended", "erased_at", "expected"),
    [
        (GONE, 101.0, None, (0, 0, 1)),
        (GONE, 101.0 + KEEP_SECONDS, None, (1, 0, 0)),
        (GONE, 101.0, 99.0, (0, 1, 0)),
        (GONE, 101.0, 102.0, (0, 0, 1)),
        ("ValueError: a row is NULL", 101.0 + KEEP_SECONDS, 99.0, (0, 0, 1)),
    ],
)
def test_only_a_snapshot_that_may_be_gone_excuses_an_error(
    people: People, error: str, ended: float, erased_at: float | None, expected: tuple[int, int, int]
) -> None:
    erasures = () if erased_at is None else ((erased_at, erased_at + 1.5, (1,)),)
    found = verdict(people, erasures, error=error, ended=ended)
    assert (found.expired, found.purged, len(found.wrong)) == expected


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_a_minute_of_the_mixture() -> None:
    done = run_python("-m", "lake_assets_tests.mixture", "--minutes", "1", "--seed", "3", timeout=1100)
    assert "No reader failed" in output_of(done)
