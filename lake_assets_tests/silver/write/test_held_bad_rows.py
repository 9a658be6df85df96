"""Bad rows of a batch that this process holds: they are quarantined, and the others are written as without them.

Here: those. Not here: limits of bad rows, and files that stop their table (`test_bad_rows.py`), other batches that are
held (`test_held_rows.py`).
"""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.files.dms_files import NOON, Clock, cdc_file, load_file
from lake_assets_tests.helpers.files.held_batches import read_by
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import HOUR, ITEMS, changed, loaded, values

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("with_the_changes_since")]
LATER = NOON + HOUR


def test_unusable_rows_are_quarantined(spark: SparkSession, tmp_path: Path, looks: list[int | None]) -> None:
    """The other rows are held. Nor does Spark read a file that Arrow does not parse."""
    columns = {"id": "long not null", "v": "string", "n": "int", "need": "string not null"}
    bench, clock = Bench(tmp_path, {"public.items": {"columns": columns, "primary_key": ["id"]}}), Clock()
    row = {"v": "a", "n": 1, "need": "x"}
    bench.put(load_file("public.items", [{"id": 1, **row}]))
    bench.apply()
    cases: dict[str, tuple[dict[str, Any], int]] = {
        "usual": ({"id": 2, **row}, 0),
        "another spelling of a number": ({"id": 3, **row, "n": " 7"}, 0),
        "a carriage return": ({"id": 4, **row, "v": "a\rb"}, 0),
        "no number, in a row with a quote": ({"id": 5, **row, "n": "seven", "v": 'a"b'}, 1),
        "a required value is missing": ({"id": 6, **row, "need": None}, 1),
    }
    quarantined = 0
    for name, (values_of, bad) in cases.items():
        changes = [clock.change("U", {"id": 1, **row}), clock.change("I", values_of)]
        bench.put(cdc_file("public.items", clock.now + timedelta(minutes=1), changes))
        (batch,) = bench.apply()["items"]
        quarantined += bad
        assert batch.rows_quarantined == bad, name
        assert "foresee" in batch.reason or batch.strategy == "rewrite", name
    assert values(bench) == {1: "a", 2: "a", 3: "a", 4: "a\rb"}
    reasons = {one.reason for one in bench.lake.runtime.quarantine.open("silver_shop.items")}
    assert reasons == {"n is not a valid int: 'seven'", "need is NULL"}
    assert quarantined == 2
    assert looks == [1] * 6


@pytest.mark.parametrize("way", ["process", "Spark"])
def test_the_sequence_and_time_of_a_bad_row_do_not_count(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    """Else a row with an impossible one would make all later batches late."""
    bench, clock = Bench(tmp_path, {"public.items": ITEMS}), Clock()
    bench.put(loaded({1: "a"}))
    bench.apply()
    good, bad = clock.change("U", {"id": 1, "v": "b"}), clock.change("I", {"id": 2, "v": "c"})
    with read_by(way):
        bench.put(cdc_file("public.items", clock.now + timedelta(minutes=1), [good]))
        (before,) = bench.apply()["items"]
        bench.put(cdc_file("public.items", clock.now + timedelta(minutes=2), [bad | {"change_seq": "later"}]))
        (after,) = bench.apply()["items"]
    assert after.rows_quarantined == 1
    assert after.position.max_sequence == before.position.max_sequence
    assert after.position.max_commit_ts == before.position.max_commit_ts
    assert values(bench) == {1: "b"}


def test_text_that_is_not_utf_8(shop: Bench, looks: list[int | None]) -> None:
    file = changed(Clock(LATER), ("U", 1, "x"), ("I", 2, "y"))
    file = replace(file, key=file.key.replace(".csv", ".parquet"))
    shop.put(file, types={"id": pa.int64(), "v": pa.string()})
    path = shop.folder / "bronze" / file.key
    rows = pq.read_table(path)
    place = rows.column_names.index("v")
    pq.write_table(rows.set_column(place, "v", pa.array([b"x", b"\xff"]).view(pa.string())), path)
    (batch,) = shop.apply()["items"]
    assert (values(shop), batch.rows_quarantined) == ({1: "x", 3: "c", 4: "new"}, 1)
    assert looks[-1] == 1
