"""Batches beside maintenance and readers, in real threads with everything of their own but the JVM.

Here: whoever comes second plans again; what is published is always one of the states that the oracle knows. Not here:
two runs of one table, lost races one at a time (`test_exactly_once.py`), killed processes.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.run.maintain import maintain
from lake_assets.errors import ApplyConflict
from lake_assets.iceberg.publish import Attempt
from lake_assets.iceberg.upkeep import table_maintenance as maintenance
from lake_assets.iceberg.upkeep.table_maintenance import TableMaintenance
from lake_assets.silver.apply import planned
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.silver.table.position import SILVER, read_position
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import quoted
from lake_assets_tests.helpers.lakes.bench import comparable
from lake_assets_tests.helpers.lakes.keyed_shop import KEYED, REWRITE, maintained_shop

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("keep_little")]
ITEMS = "silver_shop.items"
TURNS = 4


@contextmanager
def again_and_again(work: Callable[[], Any]) -> Iterator[list[Any]]:
    """Does `work` in a thread until the block ends, at least once; gives its results. Raises what it raised."""
    done, ended = [], threading.Event()
    failed: list[BaseException] = []

    def loop() -> None:
        try:
            while True:
                done.append(work())
                if ended.is_set():
                    return
        except BaseException as error:  # noqa: BLE001 - raised by the thread that can
            failed.append(error)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield done
    finally:
        ended.set()
        thread.join(120)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Maintenance that does not wait for a batch meets it."""
    monkeypatch.setattr(maintenance, "PATIENCE_SECONDS", 0.0)


@pytest.mark.long
@pytest.mark.parametrize("step", ["compact", pytest.param("expire", marks=pytest.mark.long)])
def test_batches_beside_one_step_of_maintenance(spark: SparkSession, tmp_path: Path, step: str) -> None:
    shop = maintained_shop(tmp_path)
    other = shop.bench.reopened()

    def step_once() -> Any:
        with other.runtime.sessions.isolated() as session:
            maintenance = TableMaintenance(
                session, other.runtime.catalog, ITEMS, SILVER, other.config.maintenance
            )
            return maintenance._retrying(step, getattr(maintenance, step))

    with again_and_again(step_once) as maintained:
        for _ in range(TURNS):
            shop.change()
            result = shop.turn_of_items()
            assert (result.error, len(result.batches)) == (None, 1)
    assert any(maintained), "it had something to do"
    shop.check()


@pytest.mark.long
def test_batches_and_a_reader_beside_maintenance(spark: SparkSession, tmp_path: Path) -> None:
    """Whole maintenance, again and again, while batches are applied: every read is a state that was published, and no
    read is of an older one than the read before it."""
    shop = maintained_shop(tmp_path, {"keep_snapshots": "20s"})
    states = [shop.bench.truth()]
    other, readers = shop.bench.reopened(), shop.bench.reopened()

    def read() -> list[str]:
        table = readers.runtime.catalog.load_table(ITEMS)
        return comparable(table.scan().to_arrow().to_pylist())

    with again_and_again(lambda: list(maintain(other))) as maintained, again_and_again(read) as seen:
        for _ in range(TURNS):
            shop.change()
            states.append(shop.bench.truth())
            result = shop.turn_of_items()
            assert (result.error, len(result.batches)) == (None, 1)
    failures = [str(done.error) for one in maintained for done in one if done.error is not None]
    # Maintenance may be the loser, in these words only.
    assert all("other commits came first each of the" in failure for failure in failures), failures
    places = [states.index(rows) for rows in seen]
    assert places == sorted(places)
    assert len(set(places)) > TURNS / 2
    print(f"{len(maintained)} times maintained, {len(failures)} given up, {len(seen)} reads")
    shop.check()
    shop.maintain()
    shop.check()


@pytest.mark.long
def test_two_maintenances_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Each expires what the other one has just put above its own re-stamp: the position is there all the same."""
    shop = maintained_shop(tmp_path)
    one, two = shop.bench.reopened(), shop.bench.reopened()
    for _ in range(2):
        for _ in range(2):
            shop.change()
            shop.bench.apply()
        before = read_position(shop.bench.table())
        with again_and_again(lambda: list(maintain(one))):
            list(maintain(two))
        assert read_position(shop.bench.table()).properties() == before.properties()
        shop.check()


def test_a_table_that_others_always_commit_to_first(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run gives up with an error that says what to do; the other table is applied, and so is this one later."""
    monkeypatch.setattr(planned, "ATTEMPTS", 2)
    shop = maintained_shop(tmp_path, items=KEYED, more=KEYED)
    shop.change()
    tries: list[str] = []

    def interfere(target: Target, stage: str) -> None:
        if target.name == "items" and stage == "publish":
            tries.append(stage)
            shop.sql(REWRITE)

    results = {
        result.target.name: result
        for result in apply_tables(shop.bench.lake.runtime, shop.bench.lake.targets, progress=interfere)
    }
    assert len(tries) == 2
    assert isinstance(results["items"].error, ApplyConflict)
    assert str(results["items"].error).startswith(
        "silver_shop.items: other processes committed to it first, 2 times in a row (silver_shop.items: another run "
        "published first). Nothing was applied twice or lost: its files are pending, and the next run applies them."
    )
    assert (results["more"].error, len(results["more"].batches)) == (None, 1)
    assert len(shop.turn_of_items().batches) == 1
    shop.check()


@pytest.mark.long
def test_maintenance_that_always_comes_second(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = maintained_shop(tmp_path, items=KEYED, more=KEYED)
    whole = Attempt.publish

    def publish(attempt: Attempt) -> None:
        if attempt.table == quoted(shop.bench.lake.config.catalog.name, "silver_shop", "items"):
            shop.sql(REWRITE)
        whole(attempt)

    for _ in range(2):
        shop.change()
        shop.bench.apply()
    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "publish", publish)
        done = {one.table: one for one in maintain(shop.bench.lake)}
    assert str(done[ITEMS].error) == (
        "silver_shop.items: other commits came first each of the 5 times that maintenance was about to repeat its "
        "position. Nothing is lost; run `lake-assets maintain` again when fewer batches arrive."
    )
    assert (done["silver_shop.more"].error, done["silver_shop.more"].restamped) == (None, True)
    shop.check()
    assert shop.maintain()[ITEMS].restamped
    shop.check()
