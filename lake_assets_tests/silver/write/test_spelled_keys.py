"""Keys of every type, in two spellings of one value: the table has one row, and the batch is held.

Here: batches that are applied so. Not here: what a spelling means (`bronze/values/test_text_values.py`), other batches
that are held (`test_held_rows.py`).
"""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.small_table import NEVER

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("with_the_changes_since")]


@pytest.mark.parametrize(
    ("declared", "loaded_as", "now", "other"),
    [
        ("uuid", "6F9619FF-8B86-D011-B42D-00CF4FC964FF", "6f9619ff-8b86-d011-b42d-00cf4fc964ff", None),
        ("decimal(10, 2)", "1.50", "15e-1", "15.00"),
        ("date", "2026-03-01", "2026-3-1", "2026-03-02"),
        ("timestamptz", "2026-03-01 12:00:00", "2026-03-01 13:00:00+01:00", "2026-03-01 13:00:00"),
        ("timestamp", "2026-03-01 12:00:00", "2026-03-01T12:00:00.0", "2026-03-01 13:00:00"),
        ("boolean", "true", "T", "0"),
        ("time", "12:00:00", "12:00:00.000", "12:00:01"),
        ("binary", "00FF", "00ff", "00"),
    ],
    ids=lambda given: None if given is None else str(given),
)
def test_a_key_is_the_same_however_it_is_spelled(
    spark: SparkSession,
    tmp_path: Path,
    looks: list[int | None],
    declared: str,
    loaded_as: str,
    now: str,
    other: str | None,
) -> None:
    columns = {"key": f"{declared} not null", "v": "string"}
    table = {"columns": columns, "primary_key": ["key"]}
    bench, clock = Bench(tmp_path, {"public.items": table}, sections=NEVER), Clock()
    others = [] if other is None else [{"key": other, "v": "other"}]
    bench.put(load_file("public.items", [{"key": loaded_as, "v": "a"}, *others]))
    bench.apply()
    bench.put(
        cdc_file(
            "public.items", clock.now + timedelta(minutes=1), [clock.change("U", {"key": now, "v": "b"})]
        )
    )
    (batch,) = bench.apply()["items"]
    assert (batch.rows_removed, batch.rows_written, batch.rows_quarantined) == (1, 1, 0)
    assert looks == [1, 1]
    assert sorted(row["v"] for row in bench.stored()) == ["b", *(["other"] * len(others))]
