"""Shared by the tests of silver: a lake of one small table."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from lake_assets.silver.apply import turn
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, applied_shop, values
from lake_assets_tests.helpers.reconcile.restored import restorer


@pytest.fixture(scope="module", autouse=True)
def changes_of_their_own() -> Iterator[None]:
    """Changes that land with a full load are a batch of their own here, since most of these tests are about batches of
    changes. Both are one batch in `apply/test_small_loads.py`, in some of the random histories and outside of this
    folder."""
    with patch.object(turn, "SMALL_LOAD", 0):
        yield


@pytest.fixture
def new_bench(spark: SparkSession, tmp_path: Path) -> Callable[..., Bench]:
    def new(tables: dict[str, Any] | None = None, **more: Any) -> Bench:
        return Bench(tmp_path, tables or {"public.items": ITEMS}, **more)

    return new


@pytest.fixture(scope="session")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Bench]:
    found = Bench(tmp_path_factory.mktemp("shop"), {"public.items": ITEMS})
    with patch.object(turn, "SMALL_LOAD", 0):
        expected = applied_shop(found, found.apply)
    assert values(found) == expected
    return restorer(found)


@pytest.fixture
def shop(made: Callable[[], Bench]) -> Bench:
    """A load of three rows, of which changes have updated one and deleted another."""
    return made()
