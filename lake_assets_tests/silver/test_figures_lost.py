"""A Spark Connect server that is too busy to tell in time what it has seen of the rows that it computed.

Here: any one answer is missing, and the batch is computed again. Not here: a server that dies (`spark/`).
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.errors import SparkLost
from lake_assets.silver import planned
from lake_assets.spark.checkpoint import Observed
from lake_assets_tests.silver.test_small_tables import NEVER, Items

pytestmark = pytest.mark.spark
TOLD: Any = vars(Observed)["get"]


def deaf(observed: Observed) -> None:
    """Its figures never arrive."""
    vars(observed)["observation"] = SimpleNamespace(get={})


@pytest.mark.parametrize(("sections", "answers"), [({}, 4), (NEVER, 3)], ids=["rewritten", "marked"])
def test_a_batch_is_computed_again(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sections: dict[str, Any],
    answers: int,
) -> None:
    items = Items(tmp_path, **sections)
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
