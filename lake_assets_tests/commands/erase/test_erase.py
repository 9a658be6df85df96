"""`lake-assets erase`: nothing of the person is left, and everything else is as before.

Here: files of every format, replays and changes afterwards, refusals. Not here: kills (`test_killed_erasures.py`), the
command line with marts and Dagster (`test_erase_command.py`).
"""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets.errors import LakeError
from lake_assets.iceberg.erasure_log import ErasureLog
from lake_assets.iceberg.upkeep.parts_and_limits import Part
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets_tests.commands.erase.people import (
    HERS,
    TABLE,
    apply_all,
    erased,
    forget,
    history_of,
    left_of_her,
    people_bench,
    person,
    plan_of,
)
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FORMATS = (
    pytest.param("csv", marks=pytest.mark.long),
    "csv.gz",
    "parquet",
    "transactions",
)
TYPES = {"id": pa.int64(), "phone": pa.int64()}
TRANSACTIONS = {"preserve_transactions": True, "cdc_path": "cdc", "add_column_name": False}


def rows(bench: Bench) -> dict[str, list[str]]:
    """The rows of every shape that are not hers."""
    names = (target.name for target in bench.lake.targets)
    return {name: [row for row in bench.rows(name) if "'id': 1," not in row] for name in names}


@pytest.mark.parametrize("extension", FORMATS)
def test_nothing_is_left_and_all_else_is_as_before(
    spark: SparkSession, tmp_path: Path, extension: str
) -> None:
    bench, clock = people_bench(tmp_path, dms=TRANSACTIONS if extension == "transactions" else {}), Clock()
    apply_all(bench, history_of(extension, clock), TYPES)
    before, log = rows(bench), bench.lake.runtime.file_log
    assert len(left_of_her(tmp_path)) >= 10, "she is everywhere"
    done = erased(bench, reference="ticket 7")
    assert (done.erasure.rows, len(done.erasure.files), done.erasure.reference) == (4, 4, "ticket 7")
    assert done.rows == {
        "silver_shop.people": 0,
        "silver_shop.people_changes": 4,
        "silver_shop.people_history": 3,
    }
    assert left_of_her(tmp_path) == []
    assert rows(bench) == before
    forget(bench, 1)
    assert bench.rows("people") == bench.truth(TABLE)
    # A scan finds nothing new, a turn applies nothing, and a replay of all files gives the same.
    head = log.head()
    bench.look()
    assert log.head() == head
    assert bench.apply() == {name: [] for name in before}
    for target in bench.lake.targets:
        assert rebuild(bench.lake.runtime, target, publish=False).equal, target.name
    # A late file, which is computed again from the others, and a reload.
    late = cdc_file(
        TABLE, clock.now + timedelta(hours=1), [Clock(NOON + timedelta(minutes=4)).change("U", person(5, 9))]
    )
    bench.put(late, types=TYPES)
    bench.apply()
    bench.put(cdc_file(TABLE, clock.now + timedelta(hours=2), [clock.change("U", person(6, 9))]), types=TYPES)
    bench.apply()
    assert bench.rows("people") == bench.truth(TABLE)
    assert left_of_her(tmp_path) == []


@pytest.mark.parametrize("partition", ["bucket(3, id)", "id"])
def test_a_manifest_that_lists_removed_files_beside_others(
    spark: SparkSession, tmp_path: Path, partition: str
) -> None:
    """A maintenance after her deletion has written the file with her row again, or removed it. The manifest that lists
    the files of other people says so, with the bounds of its values, and later commits keep such a manifest. It is one
    of two, or the only one."""
    settings = {"also": [], "partition_by": [partition]}
    bench = people_bench(tmp_path, table=settings, sections={"automation": {"rewrite_below_mb": 0}})
    clock = Clock()
    gone = cdc_file(TABLE, clock.now, [clock.change("D", person(1))])
    apply_all(bench, [[load_file(TABLE, [person(number) for number in range(1, 7)], at=NOON)], [gone]])
    (target,) = bench.lake.targets
    maintain_silver(bench.lake.runtime, (), target, parts=[Part.FILES])
    erased(bench)
    assert left_of_her(tmp_path) == []
    forget(bench, 1)
    assert bench.rows("people") == bench.truth(TABLE)
    assert "commit.manifest.target-size-bytes" not in bench.table("people").properties, "as before"
    head = bench.lake.runtime.file_log.head()
    bench.turn()
    assert bench.lake.runtime.file_log.head() == head


def test_quarantined_rows_of_the_same_files(spark: SparkSession, tmp_path: Path) -> None:
    """Hers are forgotten; others keep their state, and are found at their new places."""
    bench = people_bench(tmp_path, table={"quarantine": {"max_rows": 5}, "also": []})
    clock = Clock()
    bad = [{**person(number), "phone": "none"} for number in (2, 1, 3, 4)]
    changes = [
        clock.change("I", person(8)),
        *(clock.change("U", row) for row in bad),
        clock.change("U", person(5, 1)),
    ]
    apply_all(bench, [[load_file(TABLE, [person(number) for number in range(1, 7)])]])
    bench.put(cdc_file(TABLE, clock.now, changes))
    bench.apply()
    bench.put(cdc_file(TABLE, clock.now + timedelta(minutes=1), [clock.change("D", person(1))]))
    bench.apply()
    held = bench.lake.runtime.quarantine.all()
    assert [one.row for one in held] == [1, 2, 3, 4]
    assert any(HERS.search((one.raw or "").encode()) for one in held)
    erased(bench)
    after = bench.lake.runtime.quarantine.all()
    assert [(one.row, one.raw) for one in after] == [(1, held[0].raw), (2, held[2].raw), (3, held[3].raw)]
    assert left_of_her(tmp_path) == []
    forget(bench, 1)
    for target in bench.lake.targets:
        assert rebuild(bench.lake.runtime, target, publish=False).equal
    assert [one.row for one in bench.lake.runtime.quarantine.all()] == [1, 2, 3]


def test_a_row_whose_key_has_changed(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = people_bench(tmp_path, table={"also": []}), Clock()
    moved = clock.change("U", {**person(1), "id": 11}, before={"id": 1})
    gone = clock.change("D", {**person(1), "id": 11})
    apply_all(
        bench,
        [
            [load_file(TABLE, [person(number) for number in range(1, 4)])],
            [cdc_file(TABLE, clock.now, [moved, gone])],
        ],
    )
    with pytest.raises(LakeError, match=r"1 other key: 11\. Name these, too"):
        plan_of(bench, "1")
    with pytest.raises(LakeError, match=r"1 other key: 1\. Name these, too"):
        plan_of(bench, "11")
    erased(bench, "1", "11")
    assert left_of_her(tmp_path) == []
    forget(bench, 1, 11)
    assert bench.rows("people") == bench.truth(TABLE)


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = people_bench(tmp_path, table={"also": []}), Clock()
    with pytest.raises(LakeError, match="has not been applied yet"):
        plan_of(bench)
    load, change, *_ = history_of("csv", clock)
    apply_all(bench, [load, change])
    with pytest.raises(
        LakeError, match=r"silver_shop\.people has 1 row of the keys, so that the source has them"
    ):
        plan_of(bench)
    assert len(plan_of(bench, still_in_source=True).with_rows) == 2
    with pytest.raises(LakeError, match=r"x7: public\.people has the key id, a long"):
        plan_of(bench, "x7")
    # A copy that no scan logs, because the file itself is there.
    copy = tmp_path / "bronze/public/people/copy"
    copy.mkdir()
    (copy / "LOAD00000001.csv").write_bytes((tmp_path / "bronze/public/people/LOAD00000001.csv").read_bytes())
    with pytest.raises(
        LakeError, match=r"1 object is in the folder of public\.people and in no record of the log"
    ):
        plan_of(bench, still_in_source=True)


def test_an_unfinished_erasure_of_other_keys(spark: SparkSession, tmp_path: Path) -> None:
    bench = people_bench(tmp_path, table={"also": []})
    apply_all(bench, history_of())
    plan, log = plan_of(bench), ErasureLog(bench.lake.runtime.catalog)
    keys = plan.keys.values(plan.targets[0])
    begun = log.begin("shop", TABLE, keys, "first")
    assert log.begin("shop", TABLE, plan_of(bench, "01").keys.values(plan.targets[0]), None) == begun
    with pytest.raises(LakeError, match=r"the erasure of .* UTC \(first\) is not finished"):
        log.begin("shop", TABLE, (("2",),), None)
    erased(bench)
    (kept,) = log.all()
    assert kept.finished is not None
    assert (kept.id, kept.proof, kept.sought) == (begun.id, None, frozenset())
