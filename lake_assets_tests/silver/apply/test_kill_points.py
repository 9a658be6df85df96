"""`lake-assets sync` dies at every step of a batch, for good: a real process, SIGKILL. The next one makes it good.

Here: the points of `faults.py` one after the other, on a lake that lives on. Not here: kills amid one table's batch and
races (`test_exactly_once.py`), killed maintenance (`test_killed_maintenance.py`).
"""

import copy
import re
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
import yaml
from pyspark.sql import SparkSession

from lake_assets.iceberg.table_io import summary
from lake_assets.orchestration.assets.bronze_assets import LAST_OFFSET
from lake_assets.orchestration.assets.silver_report import POSITION
from lake_assets.orchestration.instance import dagster_instance
from lake_assets.orchestration.lake_definitions import build_definitions, open_lake
from lake_assets.orchestration.shared.asset_keys import bronze_key
from lake_assets.orchestration.sync import sync
from lake_assets.rounds.pending_work import SyncResult
from lake_assets.schema.alter_columns import version_of
from lake_assets.silver.table.position import LOG_OFFSET, read_position
from lake_assets.spark.connect.connect_server import ConnectServer
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, csv_bytes, load_file, put
from lake_assets_tests.helpers.lakes.bench import AT_ONCE, Bench, main_snapshots
from lake_assets_tests.helpers.lakes.small_lakes import TINY, lake_config
from lake_assets_tests.helpers.processes.child import ROOT, run_python
from lake_assets_tests.helpers.processes.faults import POINTS, Point, Step, armed
from lake_assets_tests.helpers.processes.sync_process import forked

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PATIENCE = 400
"""Seconds for a process that may start a Spark of its own."""
ITEMS, NOTES = "public.items", "public.notes"
TABLES: dict[str, Any] = {
    ITEMS: {"columns": {"id": "long not null", "v": "string"}, "primary_key": ["id"]},
    NOTES: {"columns": {"id": "long not null", "n": "int"}, "primary_key": ["id"], "also": ["change_log"]},
}
AUTOMATION = {
    "apply_threads": 1,  # a point is passed by one table, and the others have not begun
    "rewrite_below_mb": 0,  # a table that is rewritten passes no delete
    "poll_interval": "10s",
}
TOGETHER = ("evolve, altered", "quarantined, done", "fast_forward, done")
"""Points at which the process dies with the Spark in it."""


@dataclass(frozen=True)
class Found:
    """What is on disk."""

    head: int
    positions: dict[str, int]
    columns: int
    contract: int
    """The version that the table of items says of itself."""
    held: int
    branches: set[str]


class KilledShop:
    """Two source tables, three silver tables, a lake.yaml and a Dagster instance in `folder`."""

    def __init__(self, folder: Path, spark: dict[str, Any]) -> None:
        sections = {"automation": AUTOMATION, "spark": spark}
        self.bench = Bench(folder, copy.deepcopy(TABLES), sections=sections)
        self.clock, self.turns, self.sound = Clock(), 0, True
        self.types: dict[str, pa.DataType] = {"id": pa.int64()}
        catalog = self.bench.lake.config.catalog
        assert catalog.uri is not None
        self.lake_yaml = folder / "lake.yaml"
        tables = {name: AT_ONCE | table for name, table in copy.deepcopy(TABLES).items()}
        source = {"location": str(self.bench.location), "dms": dict(self.bench.dms), "tables": tables}
        lake = {
            "catalog": {
                "name": catalog.name,
                "uri": catalog.uri.get_secret_value(),
                "warehouse": catalog.warehouse,
            },
            "spark": {"conf": dict(TINY)} | spark,
            "sources": {"shop": source},
            "gold": {"start_date": "2026-03-01"},
            "automation": AUTOMATION,
        }
        self.lake_yaml.write_text(yaml.safe_dump(lake), encoding="utf-8")
        shutil.copy(ROOT / "dagster.yaml", folder)

    def load(self) -> None:
        rows = range(1, 61)
        self.bench.put(
            load_file(ITEMS, [{"id": n, "v": "loaded"} for n in rows], extension="parquet"), types=self.types
        )
        self.bench.put(load_file(NOTES, [{"id": n, "n": n} for n in rows]))

    def change(self) -> None:
        """A file of each table. Items: all operations, a moved key, and a column that was not there before. Notes: all
        operations, and a row that cannot be read, of which the oracle does not know."""
        self.turns += 1
        self.clock.now += timedelta(minutes=1)
        n, change, added = self.turns, self.clock.change, f"c{self.turns}"
        self.bench.tables[ITEMS]["columns"][added] = "string"
        items = [
            change("I", {"id": 1000 + n, "v": "new", added: "new"}),
            change("I", {"id": 2000 + n, "v": "new", added: "new"}),
            change("U", {"id": 1000 + n, "v": f"turn {n}", added: None}),
            change("U", {"id": 1, "v": f"turn {n}", added: f"turn {n}"}),
            change("U", {"id": 3000 + n, "v": "moved", added: "moved"}, {"id": 2000 + n}),
            change("D", {"id": 1 + n}),
        ]
        notes = [
            change("I", {"id": 1000 + n, "n": n}),
            change("U", {"id": 1, "n": n}),
            change("D", {"id": 1 + n}),
        ]
        self.clock.now += timedelta(seconds=50)
        self.bench.put(cdc_file(ITEMS, self.clock.now, items, "parquet"), types=self.types)
        known = cdc_file(NOTES, self.clock.now, notes)
        bad = change("I", {"id": 5000 + n, "n": "many"})
        whole = replace(known, rows=(*known.rows[:1], bad, *known.rows[1:]))
        assert self.bench.location is not None
        put(self.bench.location, known.key, csv_bytes(whole, ["id", "n"], ["id"], self.bench.dms))
        self.bench.bucket[known.key] = known

    def found(self) -> Found:
        """As another process sees it."""
        lake = self.bench.reopened()
        tables = {t.name: lake.runtime.catalog.load_table(t.identifier) for t in lake.targets}
        items = tables["items"]
        return Found(
            lake.runtime.file_log.head(),
            {name: read_position(table).log_offset for name, table in tables.items()},
            len(items.schema().fields),
            version_of(items),
            len(lake.runtime.quarantine.all()),
            {name for name, table in tables.items() if any(ref.startswith("apply_") for ref in table.refs())},
        )

    def synced_here(self) -> SyncResult:
        """The command in this process, which has opened nothing before."""
        with dagster_instance(self.lake_yaml.parent) as instance:
            return sync(open_lake(self.bench.lake.config, marts=()), instance)

    def forget_dagster(self) -> None:
        shutil.rmtree(self.lake_yaml.parent / ".lake" / "dagster")

    def look(self, instance: dg.DagsterInstance) -> None:
        """A tick of each of the two sensors that tell what no run has told. None requests a run."""
        definitions = build_definitions(self.bench.reopened())
        repository = definitions.get_repository_def()
        for name in ("shop_files", "freshness"):
            context = dg.build_sensor_context(instance=instance, repository_def=repository)
            outcome = repository.get_sensor_def(name).evaluate_tick(context)
            assert not outcome.run_requests, name
            for event in outcome.asset_events:
                instance.report_runless_asset_event(event)

    def check(self) -> None:
        """The oracle's rows; each file in the log once; each stretch of it in one commit; one entry of each bad row."""
        lake = self.bench.reopened()
        for target in lake.targets:
            truth = self.bench.truth(target.table, target.mode.value)
            assert self.bench.rows(target.name) == truth, target.name
            stamps = [int(s) for s in self._stamps(target.name)]
            assert stamps == sorted(set(stamps)), f"{target.name} was brought to {stamps}"
        files = lake.runtime.file_log.files()
        assert [file.offset for file in files] == list(range(1, len(files) + 1))
        assert {(file.key, file.version) for file in files} == {
            (file.key, file.version) for file in lake.runtime.file_log.newest("shop").values()
        }
        assert sorted(file.key for file in files) == sorted(self.bench.bucket)
        events = lake.runtime.catalog.load_table("lake_ops.quarantine").scan().to_arrow().to_pylist()
        assert {event["state"] for event in events} == {"held"}
        assert len(events) == len({event["id"] for event in events}) == 2 * self.turns, (
            "in each shape of notes"
        )

    def _stamps(self, name: str) -> list[str]:
        found = [summary(snapshot).get(LOG_OFFSET) for snapshot in main_snapshots(self.bench.table(name))]
        return [offset for offset in found if offset]

    def check_told(self) -> None:
        """Dagster has an event of each table as it is now, and of its last file."""
        lake, positions = self.bench.reopened(), self.found().positions
        with dagster_instance(self.lake_yaml.parent) as instance:
            self.look(instance)
            for target in lake.targets:
                assert _last(instance, dg.AssetKey(target.asset_key), POSITION) == positions[target.name], (
                    target.name
                )
                logged = lake.runtime.file_log.files("shop", target.table)
                bronze = bronze_key(lake.config, "shop", target.table)
                assert _last(instance, bronze, LAST_OFFSET) == logged[-1].offset, target.table


def _last(instance: dg.DagsterInstance, key: dg.AssetKey, name: str) -> Any:
    event = instance.get_latest_materialization_event(key)
    assert event is not None, f"Dagster knows nothing of {key}"
    assert event.asset_materialization is not None
    return event.asset_materialization.metadata[name].value


def check_left_behind(point: Point, before: Found, found: Found) -> None:
    """The process died where the point says."""
    moved = {name for name, position in found.positions.items() if position > before.positions[name]}
    logged, column = found.head - before.head, found.columns - before.columns
    version, held = found.contract - before.contract, found.held - before.held
    if point.step is Step.LISTING or point.name in ("log append, begun", "log append, uncommitted"):
        assert found == before
        return
    assert logged == 2
    if point.name == "log append, untold":
        return  # the batches begin before Dagster knows of the files: how far they have come is open
    if point.step is Step.LOGGING:
        assert replace(found, head=before.head) == before
    elif point.step is Step.ALTERING:
        assert (moved, column, version, held) == (set(), point.when == "after", 0, 0)
    elif point.name.startswith("quarantined"):
        assert (moved, held, "notes" in found.branches) == ({"items"}, point.when == "after", True)
    elif point.step is Step.WRITING:
        assert (moved, column, version, "items" in found.branches) == (set(), 1, 0, True)
    else:
        assert point.step is Step.PUBLISHED
        # Batches of other tables go on while Dagster reports one.
        assert moved == {"items"} or (point.name == "report, under way" and "items" in moved)
        assert column == 1
        # What a kill between the two has left to do comes with the next batch.
        assert (version > 0) == (point.name not in ("fast_forward, done", "evolve, published"))


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KilledShop]:
    """By where its Spark is, the lake that lives on from test to test."""
    return {}


def living_shop(
    shops: dict[str, KilledShop], folder: Path, mode: str, spark: dict[str, Any]
) -> tuple[KilledShop, bool]:
    """The lake with one more batch before it, and whether it is new. A lake whose last test failed is given up."""
    new = mode not in shops or not shops[mode].sound
    if new:
        shops[mode] = KilledShop(folder, spark)
        shops[mode].load()
    shops[mode].sound = False
    return shops[mode], new


@pytest.mark.parametrize(
    "name", [TOGETHER[0], *(pytest.param(name, marks=pytest.mark.long) for name in TOGETHER[1:])]
)
def test_killed_with_its_spark(
    spark: SparkSession,
    shops: dict[str, KilledShop],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """Of the three steps at which something is on disk that is not published, or published and not told."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    small = {"master": "local[1]", "conf": {**TINY, "spark.driver.memory": "700m"}}
    shop, new = living_shop(shops, tmp_path, "embedded", small)
    if new:
        assert not shop.synced_here().failed
    shop.change()
    before = shop.found()
    program = "lake_assets_tests.helpers.processes.sync_process"
    killed = run_python("-m", program, shop.lake_yaml, name, timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL, killed.stdout[-2000:] + killed.stderr[-4000:]
    check_left_behind(POINTS[name], before, shop.found())
    if name == "quarantined, done":
        shop.forget_dagster()
    result = shop.synced_here()
    assert not result.failed, result.failed
    shop.check()
    shop.check_told()
    assert shop.synced_here().nothing_pending
    shop.sound = True


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A Spark Connect server that outlives its clients, as lake.yaml names it."""
    folder = tmp_path_factory.mktemp("server")
    spark = {
        "mode": "connect",
        "remote": f"sc://127.0.0.1:{free_port()}",
        "conf": {**TINY, "spark.driver.memory": "1g"},
    }
    server = ConnectServer(lake_config(folder, spark=spark), folder)
    server.start()
    yield spark
    server.stop()


@pytest.mark.long
@pytest.mark.parametrize(("name", "forgets"), [(name, n % 2 == 1) for n, name in enumerate(POINTS)])
def test_killed_beside_its_spark(
    remote: dict[str, Any], shops: dict[str, KilledShop], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str,
    forgets: bool,
) -> None:  # fmt: skip
    """At every point; every other time Dagster's storage goes too."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    shop, new = living_shop(shops, tmp_path, "connect", remote)

    def sync(point: str | None, expected: int) -> str:
        code, output = forked(shop.lake_yaml, point, PATIENCE)
        assert code == expected, output[-6000:]
        return output

    if new:
        shop.change()
        sync(None, 0)
    shop.change()
    before = shop.found()
    sync(name, -signal.SIGKILL)
    check_left_behind(POINTS[name], before, shop.found())
    if forgets:
        shop.forget_dagster()
    sync(None, 0)
    shop.check()
    time.sleep(1)  # what the killed run says of itself is a second old by now
    shop.check_told()
    assert "Nothing was pending" in sync(None, 0)
    shop.sound = True


def test_the_points_cover_every_step_of_the_argument() -> None:
    """docs/how_it_works.md and the table of points name the same steps, and every point names one that is there."""
    page = (ROOT / "docs" / "how_it_works.md").read_text(encoding="utf-8")
    _, argument = page.split("## Exactly once: the argument")
    rows = re.findall(r"^\| (.+?) \|", argument, re.MULTILINE)
    assert rows[0] == "killed"
    assert rows[1:] == [str(step) for step in Step]
    assert {point.step for point in POINTS.values()} == set(Step) - {Step.LANDING, Step.MAINTAINING}
    steps = (
        "list",
        "log append",
        "read",
        "evolve",
        "delete",
        "append",
        "quarantined",
        "fast_forward",
        "report",
    )
    assert {name.split(",")[0] for name in POINTS} == set(steps)
    assert set(TOGETHER) <= set(POINTS)
    for point in POINTS.values():
        with armed(point):  # raises if the function has moved
            pass
