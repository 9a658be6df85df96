"""Databases on the test session's PostgreSQL server.

Not here: tables (`test_init.py`).
"""

from collections.abc import Callable
from itertools import count

import pytest
import sqlalchemy as sa

from lake_assets_tests.helpers.servers.postgresql import psycopg_engine


@pytest.fixture(scope="session")
def new_database(postgresql: str) -> Callable[[str], str]:
    """Makes a database with what the SQL says in it, and returns its address."""
    server = psycopg_engine(postgresql, isolation_level="AUTOCOMMIT")
    numbers = count(1)

    def create(sql: str) -> str:
        name = f"shop_{next(numbers)}"
        with server.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}"))
        address = postgresql.replace("/postgres?", f"/{name}?")
        database = psycopg_engine(address)
        with database.begin() as connection:
            connection.exec_driver_sql(sql)
        database.dispose()
        return address

    return create
