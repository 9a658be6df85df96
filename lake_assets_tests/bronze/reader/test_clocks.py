"""Local times that the clocks skip or show twice, in every kind of file and column.

Here: what becomes of a local time, and of rows with one. Not here: the table of a zone's spans
(`test_local_times.py`), what becomes of such rows in silver (`silver/test_local_times_in_silver.py`).
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.values.exact_conversions import converted
from lake_assets.local_times import LocalClock
from lake_assets_tests.helpers.files.items import Items
from lake_assets_tests.helpers.files.read_folder import Folder
from lake_assets_tests.helpers.oracles import clocks

pytestmark = pytest.mark.spark
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SKIPPED, TWICE, ONCE = "2026-03-29 02:30:00.5", "2026-10-25 02:30:00.5", "2026-10-25 03:30:00.5"
SKIP = "{name} is a time that the clocks of Europe/Berlin skip (is timestamp_zone the source's?)"
SHOW_TWICE = (
    "{name} is a time that the clocks of Europe/Berlin show twice: "
    "set ambiguous_times of the table to earlier or later"
)
AN_INSTANT = datetime(2026, 10, 25, 2, 30, 0, 500_000, UTC)
BY_SETTING: dict[str | None, Any] = {
    None: SHOW_TWICE.format(name="at"),
    "earlier": (AN_INSTANT - timedelta(hours=2),),
    "later": (AN_INSTANT - timedelta(hours=1),),
}


def walls(zone: str) -> list[datetime]:
    """Beside changes of the past and the far future, and at the ends of time."""
    found = [*clocks.changes(zone, 1840, 2040), *clocks.changes(zone, 2098, 2101)]
    found += [wall.replace(year=wall.year + 400 * 19) for wall in found if wall.year >= 2098]
    found += [wall + timedelta(microseconds=part) for wall in found[-30:] for part in (1, -1, 59_999_999)]
    return [*found, datetime(1, 1, 3), datetime(1850, 1, 1), datetime(9999, 12, 29)]  # noqa: DTZ001


def read_as(zone: str, takes: str, wall: datetime) -> int | None:
    """Microseconds since 1970."""
    found = clocks.instants(zone, wall)
    if not found or (len(found) > 1 and takes == "single"):
        return None
    return (found[-1 if takes == "later" else 0] - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize("zone", clocks.ZONES)
def test_a_local_time_is_read_as_zoneinfo_does(zone: str) -> None:
    """From a text, and from a type without a zone."""
    takes: tuple[Literal["single", "earlier", "later"], ...] = ("single", "earlier", "later")
    times = walls(zone)
    given = (pa.array([wall.isoformat(" ") for wall in times]), pa.array(times, pa.timestamp("us")))
    for values in given:
        for each in takes:
            found = converted(pa.chunked_array([values]), "timestamptz", LocalClock(zone, each))
            micros = found.cast(pa.int64()).to_pylist()
            assert micros == [read_as(zone, each, wall) for wall in times]


def test_beyond_the_last_instant_there_is_none() -> None:
    texts = pa.chunked_array([["294247-01-10 04:00:54.775807", "-290308-12-21 19:59:05.224192"]])
    for zone, known in (("Europe/Berlin", [True, False]), ("America/Sao_Paulo", [False, True])):
        read = converted(texts, "timestamptz", LocalClock(zone))
        assert read.is_valid().to_pylist() == known


@pytest.mark.parametrize("setting", [None, "later", pytest.param("earlier", marks=pytest.mark.long)])
def test_every_kind_of_file_says_the_same(spark: SparkSession, tmp_path: Path, setting: str | None) -> None:
    files = Items(tmp_path, {"at": "timestamptz"}, {"timestamp_zone": "Europe/Berlin"})
    if setting is not None:
        files.settings = {"ambiguous_times": setting}
    texts = [SKIPPED, TWICE, ONCE]
    files.csv(*texts)
    files.csv(*texts, '5" pipe')  # irregular
    files.json(*({"at": text} for text in texts))
    files.parquet({"at": pa.array(texts)})
    local = [datetime.fromisoformat(text) for text in texts]
    files.parquet({"at": pa.array(local, pa.timestamp("us"))}, version="2.6")
    files.parquet({"at": pa.array(local, pa.timestamp("ns"))}, version="2.6")
    expected = [SKIP.format(name="at"), BY_SETTING[setting], (AN_INSTANT,)]
    stray = "a quote in it neither opens nor closes a field"
    found = [row if isinstance(row, str) else row[-1:] for row in files.rows()]
    assert [row for row in found if not str(row).startswith(stray)] == expected * 6


def test_a_time_with_its_zone_needs_no_clock(spark: SparkSession, tmp_path: Path) -> None:
    files = Items(tmp_path, {"at": "timestamptz", "wall": "timestamp"}, {"timestamp_zone": "Europe/Berlin"})
    files.csv(f"{TWICE}+01,{TWICE}", f"{SKIPPED}Z,{SKIPPED}")
    wall = datetime.fromisoformat
    assert files.rows() == [
        (AN_INSTANT - timedelta(hours=1), wall(TWICE)),
        (wall(SKIPPED).replace(tzinfo=UTC), wall(SKIPPED)),
    ]


@pytest.mark.parametrize("setting", [None, "later", pytest.param("earlier", marks=pytest.mark.long)])
def test_keys_before_images_and_commit_times(
    spark: SparkSession, tmp_path: Path, setting: str | None
) -> None:
    dms = {
        "timestamp_zone": "Europe/Berlin",
        "timestamp_column_name": "commit_ts",
        "change_sequence_column": "seq",
        "before_image_prefix": "BI_",
    }
    folder = Folder(tmp_path, {"at": "timestamptz", "v": "string"}, ["at"], **dms)
    folder.table = folder.table.model_copy(update={"ambiguous_times": setting})
    rows = [
        f"U,{ONCE},{{0}},v,{'1' * 35},{{1}}\n".format(*times)
        for times in ((ONCE, ONCE), (SKIPPED, ONCE), (ONCE, SKIPPED), (TWICE, ONCE), (ONCE, TWICE))
    ]
    rows += [f"U,{at},{ONCE},v,{'1' * 35},{ONCE}\n" for at in (SKIPPED, TWICE)]
    folder.put("public/items/20261101-120000000.csv", "".join(rows).encode())
    key, before, commit = F.col("_image.at"), F.col("_before.at"), F.col("_commit_ts")
    found = folder.changes(spark).orderBy("_row")
    found = found.select("_bad", *(F.unix_micros(value) for value in (key, before, commit)))
    ours = [
        row[0] or tuple(EPOCH + timedelta(microseconds=value) for value in row[1:]) for row in found.collect()
    ]
    usual = [AN_INSTANT] * 3
    expected: list[Any] = [tuple(usual), SKIP.format(name="at"), SKIP.format(name="BI_at")]
    commit_skipped: Any = SKIP.format(name="commit_ts")
    doubled = []
    for place, name in enumerate(("at", "BI_at", "commit_ts")):
        as_set = [*usual[:place], *BY_SETTING["earlier" if setting is None else setting], *usual[place + 1 :]]
        doubled.append(SHOW_TWICE.format(name=name) if setting is None else tuple(as_set))
    assert ours == [*expected, doubled[0], doubled[1], commit_skipped, doubled[2]]
