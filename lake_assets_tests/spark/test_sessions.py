"""Which sessions of an embedded Spark are used again."""

import contextlib
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets.spark.session import SparkSessions
from lake_assets_tests.helpers.lakes.small_lakes import lake_config


@pytest.mark.usefixtures("spark")
def test_a_session_is_lent_to_one_at_a_time_and_not_after_a_failure(tmp_path: Path) -> None:
    sessions = SparkSessions(lake_config(tmp_path))
    with sessions.isolated() as first, sessions.isolated() as second:
        assert first is not second
        assert first is not sessions.root()
    lent = [_failing(sessions), _failing(sessions)]
    assert {id(session) for session in lent} == {id(first), id(second)}
    with sessions.isolated() as third:
        assert third not in lent


def _failing(sessions: SparkSessions) -> SparkSession:
    """The session of a failed unit of work."""
    with contextlib.suppress(ZeroDivisionError), sessions.isolated() as session:
        raise ZeroDivisionError
    return session
