"""Shared by the tests of silver: a lake of one small table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.files.dms_files import Clock
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, changed, loaded, values
from lake_assets_tests.helpers.reconcile.restored import restorer


@pytest.fixture
def new_bench(spark: SparkSession, tmp_path: Path) -> Callable[..., Bench]:
    def new(tables: dict[str, Any] | None = None, **more: Any) -> Bench:
        return Bench(tmp_path, tables or {"public.items": ITEMS}, **more)

    return new


@pytest.fixture(scope="session")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Bench]:
    found, clock = Bench(tmp_path_factory.mktemp("shop"), {"public.items": ITEMS}), Clock()
    found.put(loaded({1: "a", 2: "b", 3: "c"}))
    found.put(changed(clock, ("U", 1, "changed"), ("D", 2, "b"), ("I", 4, "new")))
    found.apply()
    assert values(found) == {1: "changed", 3: "c", 4: "new"}
    return restorer(found)


@pytest.fixture
def shop(made: Callable[[], Bench]) -> Bench:
    """A load of three rows, of which changes have updated one and deleted another."""
    return made()
