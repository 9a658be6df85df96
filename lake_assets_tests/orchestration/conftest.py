"""Shared by the tests of the orchestration: Dagster instances, shops, and one Spark under them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.orchestration.dagster_shop import Shop, open_shop


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """A Dagster instance in memory."""
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def new_shop(tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    """Opens an empty shop; without Spark, as long as nothing is run."""
    shops: list[Shop] = []

    def create(**sections: Any) -> Shop:
        shops.append(open_shop(tmp_path / f"shop{len(shops)}", **sections))
        return shops[-1]

    yield create
    for shop in shops:
        shop.instance.dispose()


@pytest.fixture
def shop(spark: SparkSession, new_shop: Callable[..., Shop]) -> Shop:
    """An empty shop whose runs can be run."""
    return new_shop()
