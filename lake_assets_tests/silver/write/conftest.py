"""How batches are applied in these tests: as if all were large, or held, and what is noted of them."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from lake_assets.bronze.decode import files as decoding
from lake_assets.silver.apply import turn
from lake_assets.silver.changes import reading
from lake_assets.silver.changes.large_batch import batch_states
from lake_assets.silver.write.current import upsert
from lake_assets.silver.write.current.foreseen import replace_foreseen_keys
from lake_assets_tests.helpers.files.held_batches import watched_looks


@pytest.fixture(scope="module")
def all_large() -> Iterator[None]:
    """Every batch counts as large, and none is held."""
    with patch.object(reading, "LARGE", 1), patch.object(decoding, "MOST_BYTES", -1):
        yield


@pytest.fixture
def with_the_changes_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full load and the changes since are one batch, as outside of tests."""
    monkeypatch.setattr(turn, "SMALL_LOAD", reading.LARGE)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    return watched_looks(monkeypatch)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each batch was applied: `as read`, or `in steps` after a computation; one that is given up counts twice."""
    found: list[str] = []

    def one(*given: Any) -> Any:
        found.append("as read")
        return replace_foreseen_keys(*given)

    def steps(*given: Any, **more: Any) -> Any:
        found.append("in steps")
        return batch_states(*given, **more)

    monkeypatch.setattr(upsert, "replace_foreseen_keys", one)
    monkeypatch.setattr(upsert, "batch_states", steps)
    return found
