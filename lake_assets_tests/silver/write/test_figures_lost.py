"""A Spark that does not tell what it has seen, or does not see what is there.

Here: a server that is too busy to answer in time, of which any one answer is missing; a storage that Spark cannot
reach. Not here: a server that dies (`spark/`).
"""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.decode import files as decoding
from lake_assets.errors import LakeError, SparkLost
from lake_assets.silver.apply import planned
from lake_assets.spark.checkpoint import Observed
from lake_assets_tests.helpers.files.dms_files import cdc_file
from lake_assets_tests.helpers.lakes.small_table import NAME, NEVER, SmallTable

pytestmark = pytest.mark.spark
TOLD: Any = vars(Observed)["get"]


def deaf(observed: Observed) -> None:
    """Its figures never arrive."""
    vars(observed)["observation"] = SimpleNamespace(get={})


@pytest.mark.parametrize(
    ("sections", "most_bytes", "answers"),
    [
        pytest.param(NEVER, 0, 1, id="marked as read"),
        pytest.param({}, 0, 2, id="rewritten as read"),
        pytest.param({}, 1_000, 1, id="rewritten from held rows"),
    ],
)
def test_a_batch_is_computed_again(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sections: dict[str, Any],
    most_bytes: int,
    answers: int,
) -> None:
    monkeypatch.setattr(decoding, "MOST_BYTES", most_bytes)
    items = SmallTable(tmp_path, **sections)
    items.load(1, 2, 3, 4)
    asked: list[Observed] = []
    lost = 0

    def late(observed: Observed) -> dict[str, Any]:
        if not any(known is observed for known in asked):
            asked.append(observed)
            if len(asked) == lost:
                deaf(observed)
        found: dict[str, Any] = TOLD.fget(observed)
        return found

    monkeypatch.setattr(Observed, "get", property(late))
    monkeypatch.setattr(planned, "_pause", lambda attempt: 0.0)
    items.apply(("U", 1), ("I", 10), ("D", 2))
    assert len(asked) == answers, "what a batch is told, when all goes well"
    for lost in range(1, answers + 1):
        asked.clear()
        items.apply(("U", 1), ("I", 10 + lost), ("D", 3))
        assert len(asked) > answers, "it was asked for once more"


def test_what_has_not_arrived_is_an_error_of_its_own(spark: SparkSession) -> None:
    observed = Observed()
    deaf(observed)
    with pytest.raises(SparkLost, match="has not arrived"):
        _ = observed.get


def test_a_file_that_spark_cannot_reach_stays_pending(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An expired token of Spark's, where the lake's own reads go on: the file is not quarantined."""
    monkeypatch.setattr(decoding, "MOST_BYTES", -1)
    items = SmallTable(tmp_path)
    items.load(1, 2)
    bench, clock = items.bench, items.clock
    row = clock.change("I", items.row(3, "new"))
    types = {"id": pa.int64(), "at": pa.timestamp("us", "UTC")}
    bench.put(cdc_file(NAME, clock.now, [row], extension="parquet"), types=types)
    store = bench.lake.runtime.store("shop")
    with monkeypatch.context() as patched:
        patched.setattr(type(store), "spark_uri", lambda self, key: f"file:///nowhere/{key}")
        error = bench.turn()["items"].error
    assert type(error) is LakeError
    told = r"silver_shop\.items: the batch of public/items/\S+\.parquet to .* failed: .*nowhere.*"
    assert re.fullmatch(told, str(error))
    assert bench.lake.runtime.quarantine.open() == []
    bench.apply()
    assert bench.rows() == bench.truth()
    assert len(bench.rows()) == 3
