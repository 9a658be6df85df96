"""The consistent cut, situation by situation.

Here: which cut, which rows wait for it, and what goes wrong. Not here: histories by chance (`test_cut_histories.py`).
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from lake_assets.bronze.files.keys import FileKind
from lake_assets.config import ConsistentCut, LakeConfig, Mode
from lake_assets.errors import RowCountMismatch, TableStopped
from lake_assets.silver.apply.cut_tags import SourceCut, cut_of, cut_tags, shows, tag_of
from lake_assets.silver.plan.cut import Cut, source_cut
from lake_assets.silver.plan.plan import Plan
from lake_assets.silver.plan.planner import plan_batch
from lake_assets.silver.table.position import Position, read_position
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, cdc_file, load_file
from lake_assets_tests.helpers.files.planning import IMMEDIATELY
from lake_assets_tests.helpers.files.records import logged
from lake_assets_tests.helpers.lakes.bank import quiet
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.small_lakes import lake_config
from lake_assets_tests.helpers.processes.faults import Killed, killed

SETTINGS = ConsistentCut(interval=timedelta(seconds=60), margin=timedelta(seconds=10))
SECOND = timedelta(seconds=1)


def test_the_cut_is_the_newest_flush_less_interval_and_margin() -> None:
    files = [logged(1, "LOAD1"), logged(2, "c1", minute=5), logged(3, "c0", minute=4.99)]
    now = NOON + timedelta(minutes=6)
    assert source_cut(SETTINGS, files, now) == Cut(NOON + timedelta(seconds=230), timedelta(seconds=10))
    by_minute = SETTINGS.model_copy(update={"every": timedelta(minutes=1)})
    assert source_cut(by_minute, files, now).upto == NOON + timedelta(minutes=3)
    assert source_cut(None, files, now).upto is None
    assert source_cut(SETTINGS, files[:1], NOON).upto is None, "nobody knows how far DMS is"
    assert source_cut(SETTINGS, [], NOON).upto is None


def test_a_quiet_source_is_there_whole() -> None:
    files = [logged(1, "LOAD1"), logged(2, "c1", minute=5)]
    late = NOON + timedelta(minutes=5, seconds=139)
    assert not source_cut(SETTINGS, files, late).quiet
    found = source_cut(SETTINGS, files, late + SECOND)
    assert (found.upto, found.quiet) == (NOON + timedelta(minutes=5, seconds=11), True)
    loads = source_cut(SETTINGS, files[:1], NOON + timedelta(minutes=3))
    assert (loads.upto, loads.quiet) == (NOON + timedelta(seconds=11), True)


def plan(files: list[Any], position: Position, seconds: float, mode: Mode = Mode.CURRENT) -> Plan:
    """What a table does next when the cut is so many seconds after noon."""
    cut = Cut(NOON + timedelta(seconds=seconds), timedelta(seconds=10))
    return plan_batch(
        position, files, mode=mode, policy=IMMEDIATELY, now=NOON, max_files=100, on_vanished="keep", cut=cut
    )


AT = Position(log_offset=3, epoch=0, snapshot_id=1, cut=NOON + timedelta(seconds=60), waiting=4)
FILES = [logged(1, "c1", minute=0.5), logged(2, "c2", minute=0.9), logged(3, "c3", minute=2)]


@pytest.mark.parametrize("mode", [Mode.CURRENT, Mode.CHANGE_LOG])
def test_files_of_which_rows_wait_are_read_again(mode: Mode) -> None:
    batch = plan(FILES, AT, 90, mode).batch
    assert batch is not None
    # c2 was flushed before the cut, but by less than the margin.
    assert ([f.offset for f in batch.files], batch.reopened, batch.upto) == ([2, 3], frozenset((2, 3)), 3)
    more = plan([*FILES, logged(4, "c4", minute=3)], AT, 90, mode).batch
    assert more is not None
    assert ([f.offset for f in more.files], more.reopened, more.upto) == ([2, 3, 4], frozenset((2, 3)), 4)
    assert more.cut == NOON + timedelta(seconds=90)


def test_until_the_cut_moves_on_later_files_wait() -> None:
    later = logged(4, "c4", minute=3)
    for files, told in (
        (FILES, "4 rows were committed after the consistent cut"),
        ([*FILES, later], "4 rows and the rows of 1 file were committed after"),
    ):
        assert told in (plan(files, AT, 60).waiting or "")
    late = plan([*FILES, logged(4, "c0", minute=0.8)], AT, 60).batch
    assert late is not None
    assert late.files, "a late file has rows for this cut"
    across = logged(4, "c4", minute=1.5)
    assert across.flush_time is not None
    assert across.first_commit_ts is not None
    assert across.flush_time > NOON + timedelta(seconds=60) > across.first_commit_ts
    batch = plan([*FILES, across], AT, 60).batch
    assert batch is not None
    assert batch.upto == 4, "a file flushed after the cut may have commits from before it"
    nothing_waits = Position(log_offset=3, snapshot_id=1, cut=AT.cut)
    assert plan(FILES, nothing_waits, 90) == Plan()


def test_a_table_never_goes_back() -> None:
    """Switched on beside rows that are newer, or asked with an older look at the log."""
    newer = Position(log_offset=2, snapshot_id=1, max_commit_ts=NOON + timedelta(seconds=100))
    for files, position, seconds, cut in (
        (FILES, newer, 60, newer.max_commit_ts),
        ([*FILES, logged(4, "c0", minute=0.8)], AT, 30, AT.cut),
    ):
        batch = plan(files, position, seconds).batch
        assert batch is not None
        assert batch.cut == cut


def test_names_of_tags() -> None:
    moment = datetime(2026, 3, 1, 8, 15, tzinfo=UTC)
    assert tag_of(moment) == "cut_20260301T081500Z"
    assert cut_of("cut_20260301T081500Z") == moment
    assert cut_of("release_1") is None


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"consistent_cut": {"every": "500ms"}}, "every must be a whole number of seconds"),
        ({"consistent_cut": {"intervall": "60s"}}, "intervall"),
        (
            {"consistent_cut": True, "dms": {"add_column_name": True}},
            "consistent_cut needs dms.timestamp_column_name",
        ),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, source: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        lake_config(tmp_path, source=source)


def test_true_is_the_defaults(tmp_path: Path) -> None:
    config: LakeConfig = lake_config(tmp_path, source={"consistent_cut": True})
    assert config.sources["shop"].consistent_cut == ConsistentCut()


TABLE = "public.items"
CUT = {"consistent_cut": {"interval": "10s", "margin": "2s", "every": "1s", "keep": 2}}


def items(folder: Path, **source: Any) -> Bench:
    table = {"columns": {"id": "long not null", "v": "string"}, "primary_key": ["id"]}
    return Bench(folder, {TABLE: table}, source=CUT | source)


def changes(clock: Clock, *values: str) -> list[dict[str, Any]]:
    return [clock.change("I", {"id": number, "v": value}) for number, value in enumerate(values)]


@pytest.mark.spark
@pytest.mark.slow
def test_a_file_of_waiting_rows_that_is_gone_stops_the_table(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = items(tmp_path), Clock()
    rows = changes(clock, *"abcdefgh")
    first = cdc_file(TABLE, rows[5]["commit_ts"] + SECOND, rows[:6])
    bench.put(first)
    (batch,) = bench.apply()["items"]
    assert (batch.rows_read, batch.position.waiting, len(bench.rows())) == (6, 6, 0)
    gone = tmp_path / "bronze" / first.key
    content = gone.read_bytes()
    gone.unlink()
    bench.put(cdc_file(TABLE, rows[7]["commit_ts"] + 13 * SECOND, rows[6:]))
    error = bench.turn()["items"].error
    assert isinstance(error, TableStopped), error
    assert "but 6 rows of files that silver_shop.items has read still wait for the consistent cut" in str(
        error
    )
    gone.write_bytes(content)
    bench.apply()
    assert len(bench.rows()) == read_position(bench.table()).rows == 8


@pytest.mark.spark
@pytest.mark.slow
def test_clocks_that_differ_by_more_than_the_margin_stop_the_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench, clock = items(tmp_path), Clock()
    rows = changes(clock, *"abcdefghijklmnopqrst")
    early = cdc_file(TABLE, rows[0]["commit_ts"] + SECOND, [rows[0], rows[14]])
    bench.put(early, cdc_file(TABLE, rows[13]["commit_ts"], rows[1:14]))
    bench.apply()
    bench.put(cdc_file(TABLE, rows[19]["commit_ts"] + 12 * SECOND, rows[15:]))
    error = bench.turn()["items"].error
    assert isinstance(error, RowCountMismatch), error
    assert "1 row should wait for the consistent cut now, 0 do" in str(error)
    assert "consistent_cut.margin" in str(error)
    wider = {"interval": "10s", "margin": "40s", "every": "1s"}
    bench.edit_source(consistent_cut=ConsistentCut.model_validate(wider))
    bench.put(cdc_file(TABLE, rows[19]["commit_ts"] + 60 * SECOND, []))
    bench.apply()
    assert len(bench.rows()) == 20


@pytest.mark.spark
@pytest.mark.slow
def test_a_row_behind_the_cut_is_applied_and_told(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = items(tmp_path), Clock()
    rows = changes(clock, *"abcdefghijklmnop")
    bench.put(cdc_file(TABLE, rows[-1]["commit_ts"], rows[4:]))
    (batch,) = bench.apply()["items"]
    shown = [row for row in rows[4:] if row["commit_ts"] <= batch.position.cut]
    assert (batch.rows_behind_cut, len(bench.rows())) == (0, len(shown))
    assert shown
    bench.put(cdc_file(TABLE, rows[4]["commit_ts"], rows[:4]))
    (batch,) = bench.apply()["items"]
    assert (batch.rows_behind_cut, len(bench.rows())) == (4, len(shown) + 4)
    assert batch.replayed_bytes


@pytest.mark.spark
@pytest.mark.slow
def test_switched_on_and_off(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = items(tmp_path, consistent_cut=None), Clock()
    rows = changes(clock, *"abcdefghijklmnopqrstuvwxyz")
    bench.put(load_file(TABLE, [{"id": 99, "v": "loaded"}]), cdc_file(TABLE, rows[9]["commit_ts"], rows[:10]))
    bench.apply()
    assert len(bench.rows()) == 11
    bench.edit_source(consistent_cut=ConsistentCut.model_validate(CUT["consistent_cut"]))
    bench.put(cdc_file(TABLE, rows[14]["commit_ts"], rows[10:15]))
    bench.apply()
    assert len(bench.rows()) == 11, "nothing that was shown is taken back"
    assert not cut_tags(bench.table())
    bench.put(cdc_file(TABLE, rows[-1]["commit_ts"], rows[15:]))
    bench.apply()
    position = read_position(bench.table())
    assert position.waiting + len(bench.rows()) == 27
    assert list(cut_tags(bench.table())) == [position.cut]
    bench.edit_source(consistent_cut=None)
    bench.apply()
    assert (len(bench.rows()), read_position(bench.table()).cut) == (27, None)


@pytest.mark.spark
@pytest.mark.slow
def test_killed_between_publish_and_tag_the_next_turn_tags(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, clock = items(tmp_path), Clock()
    rows = changes(clock, *"abcdefghijklmnop")
    bench.put(cdc_file(TABLE, rows[-1]["commit_ts"], rows))
    with monkeypatch.context() as patched:
        patched.setattr(SourceCut, "tag", killed)
        with pytest.raises(Killed):
            bench.turn()
    assert not cut_tags(bench.table())
    assert bench.apply() == {"items": []}
    assert list(cut_tags(bench.table())) == [read_position(bench.table()).cut]


@pytest.mark.spark
@pytest.mark.slow
def test_a_few_tags_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = items(tmp_path), Clock()
    tags = []
    for number in range(3):
        rows = [clock.change("I", {"id": 10 * number + n, "v": "x"}) for n in range(9)]
        bench.put(cdc_file(TABLE, rows[-1]["commit_ts"], rows))
        bench.apply()
        tags.append(max(cut_tags(bench.table()), default=None))
    found = sorted(cut_tags(bench.table()))
    assert found == tags[-2:]
    assert None not in tags
    quiet(bench)
    bench.apply()
    assert len(bench.rows()) == 27
    assert bench.apply() == {"items": []}


@pytest.mark.spark
@pytest.mark.slow
def test_a_late_file_after_the_cut_was_switched_off(spark: SparkSession, tmp_path: Path) -> None:
    """A snapshot from before, at a cut, lacks rows of files that it counts as read: it is nothing to go on from."""
    bench, clock = items(tmp_path), Clock()
    rows = [clock.change("I", {"id": n, "v": "first"}) for n in range(8)]
    early = clock.change("U", {"id": 1, "v": "late"})
    rows += [clock.change("U", {"id": n, "v": "last"}) for n in range(8)]
    bench.put(cdc_file(TABLE, rows[-1]["commit_ts"], rows))
    (batch,) = bench.apply()["items"]
    assert batch.position.waiting
    bench.edit_source(consistent_cut=None)
    bench.apply()
    bench.put(cdc_file(TABLE, early["commit_ts"], [early]))
    bench.apply()
    assert bench.rows() == bench.truth()


def test_a_file_written_anew_while_its_rows_wait_is_taken_whole() -> None:
    anew = replace(FILES[2], offset=6, version="v6")
    files = [*FILES, logged(4, "c4", minute=2.1), logged(5, "c5", minute=2.2), anew]
    cut = Cut(NOON + timedelta(seconds=90), timedelta(seconds=10))
    found = plan_batch(AT, files, mode=Mode.CURRENT, policy=IMMEDIATELY, now=NOON, max_files=1, cut=cut)
    batch = found.batch
    assert batch is not None
    assert (batch.kind, [file.offset for file in batch.files]) == ("full_load", [1, 2, 4, 5, 6])


def test_a_name_from_the_future_does_not_take_the_cut_there() -> None:
    ahead = logged(2, "c1", minute=600, logged_at=NOON + timedelta(minutes=5))
    found = source_cut(SETTINGS, [logged(1, "LOAD1"), ahead], NOON + timedelta(minutes=6))
    assert found.upto == NOON + timedelta(seconds=230)


def test_an_emptied_table_is_not_shown_at_an_earlier_cut(tmp_path: Path) -> None:
    (target,) = items(tmp_path).lake.targets
    mark = logged(2, "public/items/", minute=10, kind=FileKind.VANISHED, flush_time=None, rows=0)
    emptied = Position(log_offset=2, snapshot_id=1)
    for minute, shown in ((9, False), (11, True)):
        cut = Cut(NOON + timedelta(minutes=minute), timedelta(seconds=10))
        assert shows(target, emptied, [logged(1, "c1", minute=1), mark], cut) is shown


@pytest.mark.spark
@pytest.mark.slow
def test_a_source_is_quiet_only_if_the_bucket_is(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = items(tmp_path), Clock()
    rows = changes(clock, *"abcdefghijklmnop")
    bench.put(cdc_file(TABLE, rows[7]["commit_ts"], rows[:8]))
    bench.look()
    later = cdc_file(TABLE, rows[-1]["commit_ts"], rows[8:])
    bench.put(later)
    long_after = datetime.now(UTC) + timedelta(hours=1)
    assert not SourceCut.of(bench.lake.runtime, "shop", long_after).cut.quiet, "nobody has looked since"
    bench.look()
    assert SourceCut.of(bench.lake.runtime, "shop", long_after).cut.quiet
    # A copy of the bucket has other times; what the files say is known.
    (tmp_path / "bronze" / later.key).touch()
    assert SourceCut.of(bench.lake.runtime, "shop", long_after).cut.quiet


@pytest.mark.spark
@pytest.mark.slow
def test_a_repair_of_a_quiet_source_moves_its_tag(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = items(tmp_path), Clock()
    rows = changes(clock, *"abcdef")
    bench.put(cdc_file(TABLE, rows[-1]["commit_ts"], rows[2:]))
    quiet(bench)
    bench.apply()
    bench.put(cdc_file(TABLE, rows[1]["commit_ts"], rows[:2]))
    bench.apply()
    table = bench.table()
    (snapshot,) = {cut_tags(table)[max(cut_tags(table))]}
    assert table.scan(snapshot_id=snapshot).to_arrow().num_rows == 6
