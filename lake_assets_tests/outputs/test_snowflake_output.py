"""Snowflake follows the lake: on moto's Glue, with tables that PyIceberg writes and an account of the tests.

Not here: the statements' texts (`test_snowflake_statements.py`), the sensor (`test_output_sensor.py`), a whole sync
(`test_glue_end_to_end.py`).
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lake_assets.outputs.output import Followed
from lake_assets.outputs.snowflake.snowflake_output import LISTED_EVERY, SnowflakeOutput
from lake_assets.rounds.backoff import FIRST_WAIT
from lake_assets_tests.helpers.servers.glue import glue_server
from lake_assets_tests.helpers.servers.s3 import client
from lake_assets_tests.helpers.warehouses.snowflake_account import Connection, SnowflakeAccount
from lake_assets_tests.helpers.warehouses.snowflake_lake import SECRET, commit, lake_of, raw

ORDERS, ITEMS = "silver_shop.orders", "silver_shop.items"
REFRESH = "ALTER ICEBERG TABLE"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with glue_server() as address:
        yield address


class Shop:
    """A lake that Snowflake shows, the account, and the output of a process; `again` is that of a new process."""

    def __init__(self, endpoint: str, folder: Path, **snowflake: Any) -> None:
        self.now = 0.0
        bucket = f"lake-{folder.name.replace('_', '-').lower()}"[:60]
        client("s3", endpoint).create_bucket(Bucket=bucket)
        self.lake = lake_of(raw(endpoint, bucket, folder, **snowflake), folder)
        for name in (ORDERS, ITEMS):
            if self.lake.runtime.catalog.table_exists(name):
                self.lake.runtime.catalog.drop_table(name)
        self.account = SnowflakeAccount(folder / "account.json", folder / "lake.yaml")
        self.again()

    def again(self) -> None:
        self.output = SnowflakeOutput(self.lake, self.account.connect, clock=lambda: self.now)

    def follow(self) -> Followed:
        return self.output.follow()

    def is_shown(self, name: str) -> bool:
        """Whether Snowflake has read the newest commit."""
        return self.account.shows().get(name.upper()) == self.account.newest(name)


@pytest.fixture
def shop(endpoint: str, tmp_path: Path) -> Shop:
    return Shop(endpoint, tmp_path, refresh="each_commit")


def test_a_table_is_created_after_its_first_commit(shop: Shop) -> None:
    assert shop.follow() == Followed()
    assert shop.account.statements("CREATE") == []
    commit(shop.lake, ORDERS)
    followed = shop.follow()
    assert followed.done == ["1 table created in Snowflake"]
    assert followed.problems == []
    assert followed.tables[ORDERS].behind_since is None
    assert shop.is_shown(ORDERS)
    commit(shop.lake, ITEMS)
    assert shop.follow().done == ["1 table created in Snowflake"]
    assert shop.is_shown(ITEMS)


def test_a_commit_is_refreshed_once(shop: Shop) -> None:
    commit(shop.lake, ORDERS)
    shop.follow()
    shop.account.statements()
    commit(shop.lake, ORDERS)
    assert not shop.is_shown(ORDERS)
    assert shop.follow().done == ["1 table refreshed in Snowflake"]
    assert shop.is_shown(ORDERS)
    assert len(shop.account.statements(REFRESH)) == 1
    assert shop.follow() == Followed([], [], shop.follow().tables)
    assert shop.account.statements() == []


def test_many_commits_are_one_refresh(shop: Shop) -> None:
    commit(shop.lake, ORDERS)
    shop.follow()
    for row in range(5):
        commit(shop.lake, ORDERS, row)
    shop.account.statements()
    shop.follow()
    assert len(shop.account.statements(REFRESH)) == 1
    assert shop.is_shown(ORDERS)


@pytest.mark.parametrize("dies_at", ["CREATE SCHEMA", "CREATE ICEBERG", "SYSTEM$GET", REFRESH, "SHOW"])
def test_a_process_that_dies_loses_nothing(shop: Shop, dies_at: str) -> None:
    commit(shop.lake, ORDERS)
    if dies_at == REFRESH:
        shop.follow()
        commit(shop.lake, ORDERS)
    shop.account.fail(**{dies_at: "the process dies here"})
    shop.follow()
    shop.account.fail(**{dies_at: None})
    shop.again()
    assert shop.follow().problems == []
    assert shop.is_shown(ORDERS)


def test_a_new_process_refreshes_what_an_earlier_one_has_missed(shop: Shop) -> None:
    commit(shop.lake, ORDERS)
    shop.follow()
    commit(shop.lake, ORDERS)
    shop.again()
    assert shop.follow().done == ["1 table refreshed in Snowflake"]
    assert shop.is_shown(ORDERS)


def test_snowflake_looks_for_commits_by_itself(endpoint: str, tmp_path: Path) -> None:
    shop = Shop(endpoint, tmp_path)
    commit(shop.lake, ORDERS)
    shop.follow()
    commit(shop.lake, ORDERS)
    shop.account.statements()
    assert shop.follow().tables[ORDERS].behind_since is not None
    assert shop.account.statements() == [], "Snowflake has just been asked"
    shop.account.poll()
    shop.now = 31.0
    assert shop.follow().tables[ORDERS].behind_since is None
    assert shop.account.statements(REFRESH) == []


def test_a_linked_database_gets_no_table(endpoint: str, tmp_path: Path) -> None:
    shop = Shop(endpoint, tmp_path, linked_database=True)
    commit(shop.lake, ORDERS)
    found = shop.follow()
    assert found.tables[ORDERS].reason == "Snowflake does not have it yet"
    assert shop.account.statements("CREATE") == []
    with shop.account.changed() as state:
        state["tables"][ORDERS.upper()] = shop.account.newest(ORDERS)
    assert shop.follow().tables[ORDERS].behind_since is None


def test_a_table_that_fails_delays_no_other(shop: Shop) -> None:
    for name in (ORDERS, ITEMS):
        commit(shop.lake, name)
    shop.account.fail(
        **{'ICEBERG TABLE IF NOT EXISTS "LAKE"."SILVER_SHOP"."ORDERS"': "insufficient privileges"}
    )
    followed = shop.follow()
    assert followed.problems == [f"{ORDERS}: insufficient privileges (Refused)"]
    assert followed.tables[ORDERS].reason == followed.problems[0]
    assert shop.is_shown(ITEMS)


def test_what_fails_is_tried_again_later(shop: Shop) -> None:
    commit(shop.lake, ORDERS)
    shop.account.fail(**{"CREATE ICEBERG": "a network policy"})
    shop.follow()
    shop.account.statements()
    assert shop.follow().problems, "it is still shown"
    assert shop.account.statements("CREATE") == []
    shop.account.fail(**{"CREATE ICEBERG": None})
    shop.now = FIRST_WAIT.total_seconds() + 1
    assert shop.follow().problems == []
    assert shop.is_shown(ORDERS)


def test_a_refused_login_is_not_repeated_at_each_look(shop: Shop) -> None:
    """Snowflake locks a user after a few of them."""
    commit(shop.lake, ORDERS)
    shop.account.fail(connect=f"Incorrect password {SECRET}")
    tried = []

    def connect(**given: Any) -> Any:
        tried.append(given)
        return shop.account.connect(**given)

    shop.output = SnowflakeOutput(shop.lake, connect, clock=lambda: shop.now)
    assert [*shop.follow().problems, *shop.follow().problems] == 2 * [
        "Snowflake: Incorrect password *** (Refused)"
    ]
    assert len(tried) == 1


def test_a_commit_that_is_missing_for_long_is_late(endpoint: str, tmp_path: Path) -> None:
    shop = Shop(endpoint, tmp_path, max_lag="0s")
    commit(shop.lake, ORDERS)
    assert not shop.follow().tables[ORDERS].is_late
    commit(shop.lake, ORDERS)
    shown = shop.output.look().tables[ORDERS]
    assert shown.is_late
    assert shown.behind_since is not None
    assert datetime.now(UTC) - shown.behind_since < timedelta(minutes=1)
    assert shown.lag_seconds > 0


def test_a_look_changes_nothing(shop: Shop) -> None:
    commit(shop.lake, ORDERS)
    found = shop.output.look()
    assert found.tables[ORDERS].reason == "Snowflake does not have it yet"
    assert shop.account.statements("CREATE") == shop.account.statements(REFRESH) == []


def test_a_look_ends_in_time(shop: Shop) -> None:
    for name in (ORDERS, ITEMS):
        commit(shop.lake, name)

    class Slow(Connection):
        def execute(self, statement: str) -> None:
            shop.now += 15.0
            super().execute(statement)

    shop.output = SnowflakeOutput(
        shop.lake, lambda **_: Slow(shop.account), clock=lambda: shop.now, longest=30.0
    )
    first = shop.follow()
    assert first.done == ["1 table created in Snowflake"]
    assert first.problems == ["1 table left to the next look: Snowflake takes long to answer"]
    assert len(first.tables) == 2
    assert shop.follow().done == ["1 table created in Snowflake"]
    assert shop.is_shown(ORDERS)
    assert shop.is_shown(ITEMS)


def test_a_dead_connection_is_replaced(shop: Shop) -> None:
    commit(shop.lake, ORDERS)
    shop.follow()
    commit(shop.lake, ORDERS)
    shop.account.fail(**{REFRESH: "the session no longer exists"})
    shop.follow()
    shop.account.fail(**{REFRESH: None})
    shop.now = 60.0
    shop.follow()
    assert shop.is_shown(ORDERS)
    with shop.account.changed() as state:
        assert len(state["connections"]) == 2


def test_a_login_that_is_refused_between_two_tables_is_tried_once(shop: Shop) -> None:
    for name in (ORDERS, ITEMS):
        commit(shop.lake, name)
    logins = []

    def connect(**given: Any) -> Any:
        logins.append(given)
        if len(logins) > 1:
            raise PermissionError("the user is locked")
        return shop.account.connect(**given)

    shop.output = SnowflakeOutput(shop.lake, connect, clock=lambda: shop.now)
    shop.account.fail(**{"CREATE ICEBERG": "the session no longer exists"})
    subjects = [problem.split(": ")[0] for problem in shop.follow().problems]
    assert subjects in ([ORDERS, "Snowflake"], [ITEMS, "Snowflake"])
    assert len(logins) == 2


def test_a_catalog_that_fails_is_a_problem(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ConnectionError("the catalog is down")

    monkeypatch.setattr("lake_assets.outputs.snowflake.snowflake_output.load_table", fails)
    assert shop.follow().problems == ["the lake's catalog: the catalog is down (ConnectionError)"]


def forgotten(shop: Shop, name: str = ORDERS) -> None:
    """Somebody drops the table in Snowflake."""
    with shop.account.changed() as state:
        del state["tables"][name.upper()]


def test_a_table_that_was_dropped_in_snowflake_is_created_again(shop: Shop) -> None:
    commit(shop.lake, ORDERS)
    shop.follow()
    forgotten(shop)
    shop.now += LISTED_EVERY
    assert shop.follow().done == ["1 table created in Snowflake"]
    assert shop.is_shown(ORDERS)


def test_a_table_that_was_dropped_is_created_after_its_next_commit(shop: Shop) -> None:
    commit(shop.lake, ORDERS)
    shop.follow()
    forgotten(shop)
    commit(shop.lake, ORDERS)
    assert shop.follow().done == ["1 table created in Snowflake"]


def test_a_refresh_that_changes_nothing_is_a_problem(shop: Shop) -> None:
    commit(shop.lake, ORDERS)
    shop.follow()
    stuck = shop.account.shows()

    class Stuck(Connection):
        def execute(self, statement: str) -> None:
            super().execute(statement)
            with shop.account.changed() as state:
                state["tables"] = dict(stuck)

    commit(shop.lake, ORDERS)
    shop.output = SnowflakeOutput(shop.lake, lambda **_: Stuck(shop.account), clock=lambda: shop.now)
    for _ in range(5):
        (problem,) = shop.follow().problems
        assert "a refresh has changed nothing" in problem
    assert len(shop.account.statements(REFRESH)) == 1


def test_a_login_that_is_refused_for_long_is_tried_ever_more_rarely(shop: Shop) -> None:
    commit(shop.lake, ORDERS)
    shop.follow()
    logins = []

    def connect(**given: Any) -> Any:
        logins.append(given)
        raise PermissionError("the password has expired")

    shop.output._connection._connect = connect
    shop.output._connection.close()
    commit(shop.lake, ORDERS)
    for _ in range(3600 // 30):
        shop.now += 30.0
        shop.follow()
    assert len(logins) < 12


def test_a_stuck_table_stays_late_whatever_it_forgets(endpoint: str, tmp_path: Path) -> None:
    """A table lists its newest metadata files alone."""
    shop = Shop(endpoint, tmp_path, max_lag="1s")
    commit(shop.lake, ORDERS)
    shop.follow()
    since = set()
    for row in range(14):
        commit(shop.lake, ORDERS, row)
        shop.now += 31.0
        since.add(shop.follow().tables[ORDERS].behind_since)
    assert len(since) == 1
    assert shop.output.look().tables[ORDERS].is_late


def test_two_looks_at_once(shop: Shop) -> None:
    commit(shop.lake, ORDERS)
    found: list[Followed] = []

    class Looking(Connection):
        def execute(self, statement: str) -> None:
            if not found:
                found.append(shop.output.follow())
            super().execute(statement)

    shop.output = SnowflakeOutput(shop.lake, lambda **_: Looking(shop.account), clock=lambda: shop.now)
    assert shop.follow().done == ["1 table created in Snowflake"]
    assert found[0].problems == ["another look is under way: Snowflake takes long to answer"]
