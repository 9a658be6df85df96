"""How batches are applied in these tests: as if all were too large to be held, or held, and what is noted of them."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from lake_assets.bronze.decode import files as decoding
from lake_assets.silver.apply import apply_batch, turn
from lake_assets.silver.batch.context import BatchContext
from lake_assets_tests.helpers.files.held_batches import watched_looks
from lake_assets_tests.helpers.lakes import bench


@pytest.fixture(scope="module", autouse=True)
def keeps_branches() -> Iterator[None]:
    """A tenth of the time of these tests would be spent on creating and dropping branches."""
    with patch.object(bench, "KEEPS_BRANCHES", True):
        yield


@pytest.fixture(scope="module")
def all_large() -> Iterator[None]:
    """No batch is held."""
    with patch.object(decoding, "MOST_BYTES", -1):
        yield


@pytest.fixture
def with_the_changes_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full load and the changes since are one batch, as outside of tests."""
    monkeypatch.setattr(turn, "SMALL_LOAD", 50_000)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    return watched_looks(monkeypatch)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each attempt of a batch was made: `as read`, or `decoded` after Spark had read other rows than were looked
    at."""
    found: list[str] = []
    plain = apply_batch._attempted

    def attempted(context: BatchContext, *more: Any) -> Any:
        found.append("as read" if context.spark_reads else "decoded")
        return plain(context, *more)

    monkeypatch.setattr(apply_batch, "_attempted", attempted)
    return found
