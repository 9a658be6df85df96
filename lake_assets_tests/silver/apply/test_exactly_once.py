"""Whatever dies, races or repeats: each change is in silver once.

Here: faults put in by hand, one at a time, and the turn after them. Not here: the branch protocol alone
(`iceberg/test_publish.py`), faults amid random histories (`test_random_histories.py`).
"""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.decode import files as decoding
from lake_assets.bronze.reader.arrow_frame import staged_frame
from lake_assets.errors import ApplyConflict, RowCountMismatch
from lake_assets.iceberg.publish import Attempt
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.silver.apply import apply_batch as apply
from lake_assets.silver.apply.apply_batch import apply_batch
from lake_assets.silver.apply.engine import apply_table, apply_tables
from lake_assets.silver.batch import reader as batch_reader
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.changes import staged_rows
from lake_assets.silver.changes.held_rows import HeldRows
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.changes.row_marks import RowMarks
from lake_assets.silver.changes.staged_rows import StagedRows
from lake_assets.silver.table.position import LOG_OFFSET
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.keyed_shop import KEYED, LOG, REWRITE, KeyedShop
from lake_assets_tests.helpers.processes.child import PATIENCE
from lake_assets_tests.helpers.processes.faults import Killed, killed
from lake_assets_tests.helpers.processes.same_lake import same_lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> KeyedShop:
    """A loaded table `items`."""
    shop = KeyedShop(Bench(tmp_path_factory.mktemp("once"), {"public.items": KEYED}))
    shop.load()
    shop.bench.apply()
    return shop


def test_the_same_batch_twice(shop: KeyedShop) -> None:
    shop.change()
    first, second = shop.work(), shop.work()
    assert apply_batch(first).rows == 6
    with pytest.raises(ApplyConflict, match=r"silver_shop\.items: another run published first"):
        apply_batch(second)
    assert shop.turn_of_items().batches == []
    shop.check()


@pytest.mark.parametrize("other", ["run", "maintenance"])
def test_a_lost_race_is_run_again(shop: KeyedShop, other: str) -> None:
    """Main moves between plan and publish: by another run that applies the same files, or by maintenance."""
    shop.change()
    published: list[Any] = []

    def interfere(target: Target, stage: str) -> None:
        if stage == "publish" and not published:
            published.append(stage)
            if other == "run":
                published.extend(
                    apply_table(shop.bench.reopened().runtime, target, lambda t, s: None).batches
                )
            else:
                shop.sql(REWRITE)

    result = shop.turn_of_items(interfere)
    assert result.error is None
    # What the other run applied is not applied again; what maintenance got in the way of is.
    assert (len(published) - 1, len(result.batches)) == ((1, 0) if other == "run" else (0, 1))
    shop.check()


def test_a_position_below_maintenance(shop: KeyedShop) -> None:
    """The newest snapshot rewrote files and bears no position."""
    shop.sql(REWRITE)
    assert LOG_OFFSET not in shop.bench.summary()
    assert shop.turn_of_items().batches == []
    shop.change()
    assert len(shop.turn_of_items().batches) == 1
    shop.check()


@pytest.mark.parametrize(
    "when",
    [
        "between delete and append",
        "after publishing",
        pytest.param("before publishing", marks=pytest.mark.long),
    ],
)
def test_a_killed_process(shop: KeyedShop, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    shop.change()
    whole_publish = Attempt.publish

    def dies(*anything: Any) -> Any:
        if when == "after publishing":
            whole_publish(*anything)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "drop", lambda self: None)
        if when == "between delete and append":
            patched.setattr(apply, "write_final_commit", dies)
        else:
            patched.setattr(Attempt, "publish", dies)
        with pytest.raises(Killed):
            shop.turn_of_items()
    assert any(name.startswith("apply_") for name in shop.bench.table().refs()), "what a kill leaves behind"
    restarted = shop.bench.reopened()
    result = apply_table(restarted.runtime, restarted.targets[0], lambda target, stage: None)
    assert (result.error, len(result.batches)) == (None, 0 if when == "after publishing" else 1)
    shop.check()


def test_a_branch_that_cannot_be_dropped_hides_nothing(
    shop: KeyedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another commit may get in the way of the clean-up: the batch is published all the same, and told."""
    shop.change()

    def refused(attempt: Attempt) -> None:
        raise Py4JError("org.apache.iceberg.exceptions.CommitFailedException: metadata moved")

    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "drop", refused)
        result = shop.turn_of_items()
    assert (result.error, len(result.batches)) == (None, 1)
    shop.check()


def test_a_killed_full_load(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a table that has no snapshot yet: what was written lies on a branch that nobody reads."""
    shop = KeyedShop(Bench(tmp_path_factory.mktemp("first"), {"public.items": KEYED}))
    shop.load()
    shop.bench.look()
    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "drop", lambda self: None)
        patched.setattr(apply, "write_final_commit", killed)
        with pytest.raises(Killed):
            shop.turn_of_items()
    assert shop.bench.table().current_snapshot() is None
    shop.bench.apply()
    shop.check()


def drop_a_row(frame: DataFrame) -> DataFrame:
    return frame.filter(F.col("_row") != frame.agg(F.max("_row")).first()[0])  # type: ignore[index]


@pytest.mark.parametrize(
    "where", ["read", "doubled", "replayed", pytest.param("written", marks=pytest.mark.long)]
)
def test_a_batch_with_a_lost_row_is_not_published(
    shop: KeyedShop, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    shop.change()
    before = shop.bench.table().current_snapshot()
    with monkeypatch.context() as patched:
        read_by_spark(patched)
        if where in ("read", "replayed"):
            patched.setattr(staged_rows, "staged_frame", lambda *given: drop_a_row(staged_frame(*given)))
            patched.setattr(batch_reader, "is_late", lambda lowest, applied: where == "replayed")
            expected = "rows, of which 0 cannot be used, where the files hold"
        else:
            whole = Reading.images

            def images(read: Reading, marks: RowMarks) -> DataFrame:
                rows = whole(read, marks)
                return rows.limit(2) if where == "written" else rows.unionAll(rows.limit(1))

            patched.setattr(Reading, "images", images)
            expected = "was not published"
        result = shop.turn_of_items()
    assert isinstance(result.error, RowCountMismatch)
    assert expected in str(result.error)
    after = shop.bench.table().current_snapshot()
    assert before is not None
    assert after is not None
    assert before.snapshot_id == after.snapshot_id
    # The fault gone, the batch is applied.
    assert len(shop.turn_of_items().batches) == 1
    shop.check()


def read_by_spark(patched: pytest.MonkeyPatch) -> None:
    """No batch is held."""
    patched.setattr(decoding, "MOST_BYTES", -1)


@pytest.mark.parametrize("fault", ["lost", pytest.param("doubled", marks=pytest.mark.long)])
def test_held_rows_of_which_one_is_lost_are_not_published(
    shop: KeyedShop, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    whole, given = HeldRows.images, []

    def images(self: HeldRows, marks: RowMarks) -> DataFrame:
        given.append(whole(self, marks))
        return given[-1].limit(2) if fault == "lost" else given[-1].unionAll(given[-1].limit(1))

    shop.change()
    with monkeypatch.context() as patched:
        patched.setattr(HeldRows, "images", images)
        result = shop.turn_of_items()
    assert (type(result.error), result.batches, len(given)) == (RowCountMismatch, [], 2)
    assert [batch.kind for batch in shop.turn_of_items().batches] == ["cdc"]
    shop.check()


@pytest.fixture(scope="module")
def wide(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> KeyedShop:
    """Four silver tables of three source tables, nothing applied yet."""
    tables = {"public.items": KEYED | {"also": ["change_log"]}, "public.more": KEYED, "public.events": LOG}
    return KeyedShop(Bench(tmp_path_factory.mktemp("wide"), tables))


def test_two_runs_at_once(wide: KeyedShop) -> None:
    """Two threads with everything of their own but the JVM, first on tables that are not there, then on changes."""
    wide.load()
    wide.bench.look()
    published: Counter[str] = Counter()
    for _ in range(2):
        start = Barrier(2)

        def run(lake: Lake, start: Barrier = start) -> list[TableResult]:
            start.wait()
            return list(apply_tables(lake.runtime, lake.targets))

        with ThreadPoolExecutor(2) as pool:
            for results in pool.map(run, [wide.bench.reopened(), wide.bench.reopened()]):
                for result in results:
                    assert result.error is None
                    published[result.target.name] += len(result.batches)
        wide.check()
        wide.change()
    assert set(published.values()) == {2}, published
    wide.bench.apply()


def test_one_table_fails_alone(wide: KeyedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is that fails, also what no one thought of."""
    wide.change()

    plain = StagedRows._stage

    def fails_for_more(rows: StagedRows, *given: Any) -> Any:
        if rows._source.target.table == "public.more":
            raise ZeroDivisionError("nobody thought of this")
        return plain(rows, *given)

    with monkeypatch.context() as patched:
        read_by_spark(patched)
        patched.setattr(StagedRows, "_stage", fails_for_more)
        results = wide.bench.turn()
    assert {name for name, result in results.items() if result.error is not None} == {"more"}
    assert "nobody thought of this" in str(results["more"].error)
    assert all(result.batches for name, result in results.items() if name != "more")
    wide.bench.apply()
    wide.check()


@pytest.mark.long
def test_real_processes(wide: KeyedShop) -> None:
    """One is killed between delete and append; then another and this one apply the same files at once."""
    wide.change()
    start, arguments = wide.bench.folder / "start", same_lake(wide.bench)

    def process(**more: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "lake_assets_tests.helpers.processes.apply_process",
            json.dumps(arguments | more),
        ]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    killed, other = process(kill_before="write_final_commit"), process(start=str(start))
    _, errors = killed.communicate(timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL, errors[-4000:]
    assert any(_branches(wide, target.name) for target in wide.bench.lake.targets), (
        "what a kill leaves behind"
    )
    while not start.with_name("start.ready").exists():
        assert other.poll() is None, other.communicate()[1][-4000:]
        time.sleep(0.01)
    start.touch()
    results = wide.bench.turn()
    output, errors = other.communicate(timeout=PATIENCE)
    assert other.returncode == 0, errors[-4000:]
    assert [result.error for result in results.values()] == [None] * 4
    published = Counter(json.loads(output)) + Counter(
        {name: len(result.batches) for name, result in results.items()}
    )
    assert published == dict.fromkeys(("items", "items_changes", "more", "events"), 1)
    wide.check()
    assert not any(_branches(wide, target.name) for target in wide.bench.lake.targets), (
        "the next batch drops it"
    )


def _branches(shop: KeyedShop, name: str) -> set[str]:
    return {ref for ref in shop.bench.table(name).refs() if ref.startswith("apply_")}
