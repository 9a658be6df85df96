"""The history that most of the demo's tests read."""

import pytest

from lake_assets_tests.helpers.oracles.demo_history import History, make_history


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Generated once with the default settings; not to be changed."""
    return make_history(tmp_path_factory.mktemp("history"))
