"""Work on few rows has sessions in which Spark compiles nothing, and other work has the others.

Here: which work counts as few rows. Not here: what either session computes, which every other test sees.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.gold.mart import Input, Mart
from lake_assets.iceberg.table_io import current_snapshot, summary
from lake_assets.spark.session import INTERPRETED, PLANNED_ONCE, SparkSessions
from lake_assets_tests.helpers.lakes.small_lakes import TINY, lake_config
from lake_assets_tests.helpers.orchestration.kept_lake import ITEMS, Kept

pytestmark = pytest.mark.spark


def interpreted(session: SparkSession) -> bool:
    return has(session, INTERPRETED)


def has(session: SparkSession, settings: dict[str, str]) -> bool:
    return all(session.conf.get(key) == value for key, value in settings.items())


@pytest.mark.usefixtures("spark")
def test_the_two_kinds_of_sessions(tmp_path: Path) -> None:
    sessions = SparkSessions(lake_config(tmp_path, spark={"conf": {}}))
    for few in (True, False, True):
        assert interpreted(sessions.root(few_rows=few)) is few
        assert has(sessions.root(few_rows=few), PLANNED_ONCE) is few
        assert sessions.root(few_rows=few) is sessions.root(few_rows=few)
        with sessions.isolated(few_rows=few) as session:
            assert interpreted(session) is few
            assert not has(session, PLANNED_ONCE)
            assert session is not sessions.root(few_rows=few)


@pytest.mark.usefixtures("spark")
def test_settings_of_lake_yaml_win(tmp_path: Path) -> None:
    conf = {"spark.sql.codegen.wholeStage": True}
    session = SparkSessions(lake_config(tmp_path, spark={"conf": conf})).root(few_rows=True)
    assert session.conf.get("spark.sql.codegen.wholeStage") == "true"
    assert session.conf.get("spark.sql.codegen.factoryMode") == "NO_CODEGEN"


@pytest.mark.usefixtures("spark")
def test_a_table_and_a_mart_that_have_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("silver.apply.planned", "gold.compute_mart"):
        monkeypatch.setattr(f"lake_assets.{module}.FEW_ROWS", 3)
    seen: list[tuple[str, bool]] = []
    isolated, root = SparkSessions.isolated, SparkSessions.root

    @contextmanager
    def lent(self: SparkSessions, *, few_rows: bool = False) -> Iterator[SparkSession]:
        seen.append(("isolated", few_rows))
        with isolated(self, few_rows=few_rows) as session:
            yield session

    def shared(self: SparkSessions, **options: Any) -> SparkSession:
        if options:
            seen.append(("root", options["few_rows"]))
        return root(self, **options)

    monkeypatch.setattr(SparkSessions, "isolated", lent)
    monkeypatch.setattr(SparkSessions, "root", shared)
    kept = Kept(tmp_path)

    def sessions_of_a_round(*numbers: int) -> list[tuple[str, bool]]:
        seen.clear()
        kept.put(ITEMS, *numbers)
        done = kept.rounds.round()
        assert (done.batches, done.marts, done.failed) == (1, 1, [])
        return [*seen]

    # The batch, the rows of the mart, and its statements, which compute nothing.
    publish = ("isolated", False)
    assert sessions_of_a_round(1, 2) == [("isolated", True), ("root", True), publish]
    assert sessions_of_a_round(3) == [("isolated", True), ("root", True), publish]
    assert sessions_of_a_round(4) == [("isolated", False), ("root", False), publish]
    kept.rounds.close()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("key", [(), ("v",)], ids=["all rows replaced", "by key"])
def test_a_mart_without_partitions_is_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    """Although its rows come from several tasks."""
    monkeypatch.setitem(TINY, "spark.sql.shuffle.partitions", 4)
    by_value = Mart(
        name="by_value",
        description="How many items have a value.",
        inputs={"items": Input("shop", "items")},
        columns=(parse_column("v", "string not null"), parse_column("items", "long")),
        compute=lambda request: request.inputs["items"].groupBy("v").agg(F.count("*").alias("items")),
        partition_column=None,
        key=key,
    )
    kept = Kept(tmp_path, marts=[by_value])
    for start in (0, 40):
        kept.change(ITEMS, *(("I", {"id": number, "v": f"{number}"}) for number in range(start, start + 40)))
        assert kept.rounds.round().failed == []
        table = kept.bench.lake.runtime.catalog.load_table("gold.by_value")
        assert table.scan().to_arrow().num_rows == start + 40
        assert summary(current_snapshot(table))["added-data-files"] == "1"
    kept.rounds.close()
