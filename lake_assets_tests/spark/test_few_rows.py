"""Work on few rows has sessions in which Spark compiles nothing, and other work has the others.

Here: which work counts as few rows. Not here: what either session computes, which every other test sees.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.spark.session import INTERPRETED, SparkSessions
from lake_assets_tests.helpers.lakes.small_lakes import lake_config
from lake_assets_tests.helpers.orchestration.kept_lake import ITEMS, Kept

pytestmark = pytest.mark.spark


def interpreted(session: SparkSession) -> bool:
    return all(session.conf.get(key) == value for key, value in INTERPRETED.items())


@pytest.mark.usefixtures("spark")
def test_the_two_kinds_of_sessions(tmp_path: Path) -> None:
    sessions = SparkSessions(lake_config(tmp_path, spark={"conf": {}}))
    for few in (True, False, True):
        assert interpreted(sessions.root(few_rows=few)) is few
        assert sessions.root(few_rows=few) is sessions.root(few_rows=few)
        with sessions.isolated(few_rows=few) as session:
            assert interpreted(session) is few
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
