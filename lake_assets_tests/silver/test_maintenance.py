"""Maintained tables say what untended ones would, know how far they are, and stay small.

Here: one thing after the other. Not here: maintenance beside batches and readers (`test_races.py`), killed maintenance
(`test_killed_maintenance.py`), marts (`gold/test_mart_maintenance.py`), the choice of snapshots alone
(`iceberg/test_retention.py`).
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.show.status import status
from lake_assets.errors import ApplyConflict
from lake_assets.iceberg.publish import Attempt, attempt
from lake_assets.iceberg.table_io import RESTAMP_OF, current_snapshot, live_rows, summary
from lake_assets.iceberg.upkeep import table_maintenance as maintenance
from lake_assets.iceberg.upkeep.restamp import restamp
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets.silver.table.position import LOG_OFFSET, SILVER, TOUCHED_DAYS, read_position
from lake_assets.silver.table.targets import UNTRACKED, Tracked
from lake_assets_tests.helpers.lakes.keyed_shop import (
    KEYED,
    REWRITE,
    MaintainedShop,
    maintained_shop,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("keep_little")]
ITEMS = "silver_shop.items"


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> MaintainedShop:
    shop = maintained_shop(tmp_path_factory.mktemp("maintained"))
    shop.bench.tracked["items"] = Tracked(days=("at",)) if "at" in KEYED["columns"] else UNTRACKED
    return shop


@pytest.mark.parametrize("version", [3, pytest.param(2, marks=pytest.mark.long)])
def test_the_position_survives(spark: SparkSession, tmp_path: Path, version: int) -> None:
    """Files are rewritten, everything but the newest snapshot expires, and the next batch begins where it must."""
    columns = KEYED["columns"] | {"at": "timestamptz"}
    shop = maintained_shop(tmp_path, items=KEYED | {"columns": columns, "format_version": version})
    shop.bench.tracked["items"] = Tracked(days=("at",))
    for _ in range(2):
        shop.change()
        shop.bench.apply()
    before = summary(current_snapshot(shop.bench.table()))
    chain = shop.chain()
    was, (line,) = read_position(shop.bench.table()), status(shop.bench.lake)
    assert any(name.startswith(TOUCHED_DAYS) for name in before)

    maintained = shop.maintain()
    ops = ("erasures", "bronze_files", "batches", "quarantine", "contracts", "findings", "alarms")
    assert set(maintained) == {ITEMS, *(f"lake_ops.{name}" for name in ops)}
    done = maintained[ITEMS]
    assert (done.files_rewritten, done.files_after, done.restamped) == (2, 2, True)
    assert (done.snapshots_before, done.snapshots_after) == (len(chain), 1)
    (left,) = shop.chain()
    after = summary(left)
    position = read_position(shop.bench.table())
    assert position.properties() == was.properties()
    assert position.rows == live_rows(after) == len(shop.bench.rows())
    assert {k: v for k, v in before.items() if k.startswith("lake.") and not k.startswith(TOUCHED_DAYS)} == {
        k: v for k, v in after.items() if k.startswith("lake.") and k not in (RESTAMP_OF, "lake.applied-at")
    }
    assert not any(name.startswith(TOUCHED_DAYS) for name in after), "they would be requested again"
    (line_after,) = status(shop.bench.lake)
    assert (line_after.last_batch, line_after.last_applied) == (line.last_batch, line.last_applied)

    assert shop.turn_of_items().batches == []
    assert shop.maintain()[ITEMS].files_rewritten == 0
    assert shop.chain() == [left], "nothing to do, so nothing was committed"
    shop.change()
    assert len(shop.turn_of_items().batches) == 1
    shop.check()


@pytest.mark.long
def test_without_a_re_stamp_the_position_would_be_lost(shop: MaintainedShop) -> None:
    """What maintenance must keep: `StampRule` names the right property, and Iceberg's own expiry would take it."""
    shop.sql(REWRITE)
    assert LOG_OFFSET not in shop.bench.summary()
    shop.maintain()
    assert LOG_OFFSET in shop.bench.summary()
    shop.sql(
        "CALL {catalog}.system.expire_snapshots("
        "table => 'silver_shop.items', older_than => current_timestamp(), retain_last => 1)"
    )
    shop.change()
    assert len(shop.turn_of_items().batches) == 1
    shop.check()


@pytest.mark.long
def test_tags_and_recent_snapshots_stay(spark: SparkSession, tmp_path: Path) -> None:
    shop = maintained_shop(tmp_path, {"keep_snapshots": "1h"})
    tagged, loaded = shop.bench.table().current_snapshot(), shop.bench.rows()
    assert tagged is not None
    shop.sql(f"ALTER TABLE {{table}} CREATE TAG audit AS OF VERSION {tagged.snapshot_id}")
    for _ in range(2):
        shop.change()
        shop.bench.apply()
    before = {snapshot.snapshot_id for snapshot in shop.bench.table().snapshots()}
    shop.maintain()
    table = shop.bench.table()
    assert before <= {snapshot.snapshot_id for snapshot in table.snapshots()}

    shop.bench.lake = shop.bench.reopened()
    object.__setattr__(shop.bench.lake.config.maintenance, "keep_snapshots", timedelta(0))
    shop.maintain()
    table = shop.bench.table()
    assert {s.snapshot_id for s in table.snapshots()} == {
        tagged.snapshot_id,
        table.metadata.current_snapshot_id,
    }
    assert table.scan(snapshot_id=tagged.snapshot_id).to_arrow().num_rows == len(loaded)
    shop.check()


@pytest.mark.long
def test_only_the_branches_of_dead_attempts_are_dropped(
    shop: MaintainedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the age of the snapshot that they start at."""
    monkeypatch.setattr(maintenance, "PATIENCE_SECONDS", 0.0)
    shop.change()
    shop.bench.apply()
    head = shop.bench.table().current_snapshot()
    assert head is not None
    now = datetime.now(UTC)
    names = {
        age: f"apply_{int((now - timedelta(hours=age)).timestamp())}_{uuid4().hex}"
        for age in (0, 23, 25, 900)
    }
    for name in (*names.values(), "audit", "apply_by_hand"):
        shop.sql(f"ALTER TABLE {{table}} CREATE BRANCH {name} AS OF VERSION {head.snapshot_id}")
    done = shop.maintain()[ITEMS]
    assert done.branches_dropped == 2
    assert set(shop.bench.table().refs()) == {"main", names[0], names[23], "audit", "apply_by_hand"}
    for name in (names[0], names[23], "audit", "apply_by_hand"):
        shop.sql(f"ALTER TABLE {{table}} DROP BRANCH {name}")
    shop.check()


def test_an_attempt_under_way_keeps_what_it_stands_on(
    shop: MaintainedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch has begun when maintenance rewrites and expires: it is read and written to its end, and refused."""
    monkeypatch.setattr(maintenance, "PATIENCE_SECONDS", 0.0)
    for _ in range(2):
        shop.change()
        shop.bench.apply()
    catalog, session = shop.bench.lake.config.catalog.name, shop.bench.lake.runtime.sessions.root()
    planned = shop.bench.table().current_snapshot()
    assert planned is not None
    with attempt(session, catalog, ITEMS, planned.snapshot_id) as current:
        assert shop.maintain()[ITEMS].files_rewritten > 1
        assert session.sql(f"SELECT * FROM {current.table} VERSION AS OF {planned.snapshot_id}").count() > 0
        session.sql(f"DELETE FROM {current.address} WHERE id > 0")
        with pytest.raises(ApplyConflict):
            current.publish()
    shop.maintain()
    assert planned.snapshot_id not in {s.snapshot_id for s in shop.bench.table().snapshots()}

    # One that slept so long between plan and beginning that its snapshot is gone plans anew as well.
    with pytest.raises(ApplyConflict):
        Attempt(session, catalog, ITEMS).start(planned.snapshot_id)
    shop.check()


def test_a_position_is_not_repeated_above_a_newer_one(
    shop: MaintainedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow process repeats it. Meanwhile its branch is dropped as a dead attempt's, and Iceberg creates it again."""
    shop.sql(REWRITE)
    session, writes_nothing = shop.bench.lake.runtime.sessions.root(), Attempt.write_nothing

    def write_late(current: Attempt, properties: Mapping[str, str]) -> None:
        monkeypatch.undo()
        current.drop()
        shop.change()
        assert len(shop.turn_of_items().batches) == 1
        current.start(shop.bench.table().metadata.current_snapshot_id)
        writes_nothing(current, properties)

    monkeypatch.setattr(Attempt, "write_nothing", write_late)
    with pytest.raises(ApplyConflict, match="dropped while it was written to"):
        restamp(session, shop.bench.lake.runtime.catalog, ITEMS, SILVER)
    shop.check()


@pytest.mark.long
def test_an_attempt_that_was_given_up_for_dead(shop: MaintainedShop) -> None:
    """Its branch dropped under its hands, it is planned again rather than written to wherever main is by then."""
    shop.change()
    dropped: list[str] = []

    def interfere(target: object, stage: str) -> None:
        if stage == "write" and not dropped:
            dropped.extend(name for name in shop.bench.table().refs() if name.startswith("apply_"))
            for name in dropped:
                shop.sql(f"ALTER TABLE {{table}} DROP BRANCH {name}")

    result = shop.turn_of_items(interfere)
    assert dropped
    assert (result.error, len(result.batches)) == (None, 1)
    shop.check()


def test_a_table_without_a_position_is_left_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing was published yet: a killed full load has left a branch."""
    shop = MaintainedShop(maintained_shop(tmp_path).bench)
    shop.sql("CREATE OR REPLACE TABLE {table} (id BIGINT) USING iceberg")
    assert shop.maintain()[ITEMS].error is None


def test_maintenance_without_a_session_is_a_failure_of_the_table(
    shop: MaintainedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other tables are maintained."""
    lake = shop.bench.lake

    def lost(*given: object, **more: object) -> None:
        raise ConnectionError("no server answers")

    monkeypatch.setattr(lake.runtime.sessions, "isolated", lost)
    done = maintain_silver(lake.runtime, (), next(each for each in lake.targets if each.identifier == ITEMS))
    assert (done.table, str(done.error)) == (ITEMS, "no server answers")


@pytest.mark.long
def test_thirty_batches_stay_small(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snapshots, live data files, metadata and files in the folder, with maintenance after every fifth batch."""
    monkeypatch.setattr(maintenance, "MIN_SMALL_FILES", 3)
    shop = maintained_shop(tmp_path)
    peaks: list[tuple[int, int, int, int]] = []
    for number in range(1, 31):
        shop.change()
        shop.bench.apply()
        if number % 5 == 0:
            shop.maintain()
            table = shop.bench.table()
            folder = Path(table.location().removeprefix("file://"))
            snapshot = table.current_snapshot()
            assert snapshot is not None
            files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
            size = sum(path.stat().st_size for path in files)
            peaks.append(
                (len(table.snapshots()), int(summary(snapshot)["total-data-files"]), len(files), size)
            )
    print("snapshots, live data files, files, bytes:", *peaks, sep="\n")
    assert max(peak[0] for peak in peaks) == 1
    assert max(peak[1] for peak in peaks) <= 3
    assert max(peak[2] for peak in peaks) <= min(peak[2] for peak in peaks) + 3
    assert peaks[-1][3] < 1.5 * peaks[1][3]
    shop.check()
