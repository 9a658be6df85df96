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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.reader.read_changes import read_changes
from lake_assets.config import Mode
from lake_assets.errors import ApplyConflict, RowCountMismatch
from lake_assets.iceberg.publish import Attempt
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.silver.apply import apply_batch as apply
from lake_assets.silver.apply.apply_batch import apply_batch
from lake_assets.silver.apply.engine import apply_table, apply_tables
from lake_assets.silver.changes import key_states as states
from lake_assets.silver.changes import reading
from lake_assets.silver.plan.planner import Batch, plan_batch
from lake_assets.silver.table.position import LOG_OFFSET, read_position
from lake_assets.silver.table.targets import Target
from lake_assets.silver.write import upsert as keyed
from lake_assets.silver.write.batch import TableResult
from lake_assets.silver.write.batch_context import BatchContext
from lake_assets_tests.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.silver.bench import AT_ONCE, Bench

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COLUMNS = {"id": "long not null", "v": "string not null"}
KEYED: dict[str, Any] = {"columns": COLUMNS, "primary_key": ["id"]}
LOG: dict[str, Any] = {"columns": COLUMNS, "mode": "append_log"}
REWRITE = (
    "CALL {catalog}.system.rewrite_data_files("
    "table => 'silver_shop.items', options => map('rewrite-all', 'true'))"
)
PATIENCE = 300
"""Seconds for a process that starts a Spark of its own."""


class Killed(BaseException):
    """The process ends here: no handler runs that a kill would not run."""


class Shop:
    """A lake whose tables each get one more file with every `change`."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.clock = Clock()
        self.turns = 0

    def load(self) -> None:
        rows = [{"id": n, "v": "loaded"} for n in range(1, 6)]
        self.bench.put(*(load_file(table, rows) for table in self.bench.tables))

    def change(self) -> None:
        """Updates, moves, deletes and inserts where the table can; inserts in a log."""
        self.turns += 1
        self.clock.now += timedelta(minutes=1)
        n, change = self.turns, self.clock.change
        new = [change("I", {"id": 100 + n, "v": "new"}), change("I", {"id": 200 + n, "v": "new"})]
        rest = [
            change("U", {"id": 100 + n, "v": f"turn {n}"}),
            change("U", {"id": 1, "v": f"turn {n}"}),
            change("U", {"id": 300 + n, "v": "moved"}, {"id": 200 + n}),
            change("D", {"id": 1 + n, "v": None}),
        ]
        for table, config in self.bench.tables.items():
            rows = new + rest if config.get("primary_key") else new
            self.bench.put(cdc_file(table, self.clock.now, rows))
        self.bench.look()

    def check(self) -> None:
        """The oracle's rows, and each stretch of the log in one commit."""
        for target in self.bench.lake.targets:
            assert self.bench.rows(target.name) == self.bench.truth(target.table, target.mode.value), (
                target.name
            )
            offsets = [int(s) for s in self.stamps(target)]
            assert sorted(set(offsets)) == offsets, f"{target.name} was brought to {offsets}"

    def stamps(self, target: Target) -> list[str]:
        table = self.bench.table(target.name)
        found, snapshot = [], table.current_snapshot()
        while snapshot is not None:
            properties = snapshot.summary.additional_properties if snapshot.summary else {}
            found.append(properties.get(LOG_OFFSET))
            parent = snapshot.parent_snapshot_id
            snapshot = table.snapshot_by_id(parent) if parent is not None else None
        return [offset for offset in reversed(found) if offset]

    @property
    def items(self) -> Target:
        return self.bench.lake.targets[0]

    def turn_of_items(
        self, progress: Callable[[Target, str], None] = lambda target, stage: None
    ) -> TableResult:
        return apply_table(self.bench.lake.runtime, self.items, progress)

    def work(self) -> BatchContext:
        """The next batch of items, planned but not begun."""
        runtime, target = self.bench.lake.runtime, self.items
        logged = runtime.file_log.files(target.source, target.table)
        position = read_position(self.bench.table())
        policy, now = target.config.full_load_complete, datetime.now(UTC)
        batch = plan_batch(position, logged, mode=Mode.CURRENT, policy=policy, now=now, max_files=100)
        assert isinstance(batch, Batch)
        contracts = runtime.contracts.of(target.identifier)
        return BatchContext(
            runtime, runtime.sessions.root(), target.under(contracts), position, batch, logged, contracts
        )

    def sql(self, statement: str) -> None:
        name = self.bench.lake.config.catalog.name
        self.bench.lake.runtime.sessions.root().sql(
            statement.format(catalog=name, table=f"{name}.silver_shop.items")
        )


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A loaded table `items`."""
    shop = Shop(Bench(tmp_path_factory.mktemp("once"), {"public.items": KEYED}))
    shop.load()
    shop.bench.apply()
    return shop


def test_the_same_batch_twice(shop: Shop) -> None:
    shop.change()
    first, second = shop.work(), shop.work()
    assert apply_batch(first).rows == 6
    with pytest.raises(ApplyConflict, match=r"silver_shop\.items: another run published first"):
        apply_batch(second)
    assert shop.turn_of_items().batches == []
    shop.check()


@pytest.mark.parametrize("other", ["run", "maintenance"])
def test_a_lost_race_is_run_again(shop: Shop, other: str) -> None:
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


def test_a_position_below_maintenance(shop: Shop) -> None:
    """The newest snapshot rewrote files and bears no position."""
    shop.sql(REWRITE)
    assert LOG_OFFSET not in shop.bench.summary()
    assert shop.turn_of_items().batches == []
    shop.change()
    assert len(shop.turn_of_items().batches) == 1
    shop.check()


@pytest.mark.parametrize("when", ["between delete and append", "before publishing", "after publishing"])
def test_a_killed_process(shop: Shop, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    shop.change()
    whole_publish = Attempt.publish

    def dies(*anything: Any) -> Any:
        if when == "after publishing":
            whole_publish(*anything)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "drop", lambda self: None)
        if when == "between delete and append":
            patched.setattr(apply, "stamp", dies)
        else:
            patched.setattr(Attempt, "publish", dies)
        with pytest.raises(Killed):
            shop.turn_of_items()
    assert any(name.startswith("apply_") for name in shop.bench.table().refs()), "what a kill leaves behind"
    restarted = shop.bench.reopened()
    result = apply_table(restarted.runtime, restarted.targets[0], lambda target, stage: None)
    assert (result.error, len(result.batches)) == (None, 0 if when == "after publishing" else 1)
    shop.check()


def test_a_branch_that_cannot_be_dropped_hides_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
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
    shop = Shop(Bench(tmp_path_factory.mktemp("first"), {"public.items": KEYED}))
    shop.load()
    shop.bench.look()

    def dies(*anything: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "drop", lambda self: None)
        patched.setattr(apply, "stamp", dies)
        with pytest.raises(Killed):
            shop.turn_of_items()
    assert shop.bench.table().current_snapshot() is None
    shop.bench.apply()
    shop.check()


def drop_a_row(frame: DataFrame) -> DataFrame:
    return frame.filter(F.col("_row") != frame.agg(F.max("_row")).first()[0])  # type: ignore[index]


@pytest.mark.parametrize("where", ["read", "written", "doubled", "replayed"])
def test_a_batch_with_a_lost_row_is_not_published(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    shop.change()
    before = shop.bench.table().current_snapshot()
    with monkeypatch.context() as patched:
        if where == "read":
            patched.setattr(reading, "read_changes", lambda *a, **k: drop_a_row(read_changes(*a, **k)))
            expected = "holds 6 rows by its own count, the reader saw 5"
        elif where == "replayed":
            # Read the batch whole, and lose a row of the files that are read again because it is late.
            reads: list[int] = []

            def read(*a: Any, **k: Any) -> DataFrame:
                reads.append(len(a[2]))
                return drop_a_row(read_changes(*a, **k)) if len(reads) > 1 else read_changes(*a, **k)

            patched.setattr(reading, "read_changes", read)
            patched.setattr(
                "lake_assets.silver.changes.collapse.ChangeFigures.is_late", lambda self, highest: True
            )
            expected = "rows by its own count, the reader saw"
        else:
            whole = states.living

            def living(state: DataFrame) -> DataFrame:
                rows = whole(state)
                return rows.limit(2) if where == "written" else rows.unionAll(rows.limit(1))

            patched.setattr(keyed, "living", living)
            expected = f"3 rows were written, but Iceberg counts {2 if where == 'written' else 4} added"
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


@pytest.fixture(scope="module")
def wide(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Four silver tables of three source tables, nothing applied yet."""
    tables = {"public.items": KEYED | {"also": ["change_log"]}, "public.more": KEYED, "public.events": LOG}
    return Shop(Bench(tmp_path_factory.mktemp("wide"), tables))


def test_two_runs_at_once(wide: Shop) -> None:
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


def test_one_table_fails_alone(wide: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is that fails, also what no one thought of."""
    wide.change()

    def fails_for_more(*a: Any, **k: Any) -> DataFrame:
        if k["name"] == "public.more":
            raise ZeroDivisionError("nobody thought of this")
        return read_changes(*a, **k)

    with monkeypatch.context() as patched:
        patched.setattr(reading, "read_changes", fails_for_more)
        results = wide.bench.turn()
    assert {name for name, result in results.items() if result.error is not None} == {"more"}
    assert "nobody thought of this" in str(results["more"].error)
    assert all(result.batches for name, result in results.items() if name != "more")
    wide.bench.apply()
    wide.check()


@pytest.mark.long
def test_real_processes(wide: Shop) -> None:
    """One is killed between delete and append; then another and this one apply the same files at once."""
    wide.change()
    catalog, start = wide.bench.lake.config.catalog, wide.bench.folder / "start"
    assert catalog.uri is not None
    arguments = {
        "folder": str(wide.bench.folder),
        "tables": {"public.items": AT_ONCE | dict(wide.bench.tables["public.items"])},
        "dms": wide.bench.dms,
        "catalog": {
            "name": catalog.name,
            "uri": catalog.uri.get_secret_value(),
            "warehouse": catalog.warehouse,
        },
    }

    def process(**more: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "lake_assets_tests.silver.apply.apply_process",
            json.dumps(arguments | more),
        ]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    killed, other = process(kill_before="stamp"), process(start=str(start))
    _, errors = killed.communicate(timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL, errors[-4000:]
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
