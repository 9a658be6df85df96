"""Two attempts to publish to one table: only the first is granted, whatever both were planned from.

Not here: what is written to a branch by silver and gold.
"""

import pytest
from pyspark.sql import SparkSession

from lake_assets.build import Lake
from lake_assets.config import parse_column
from lake_assets.errors import ApplyConflict
from lake_assets.iceberg.publish import Attempt, attempt
from lake_assets.iceberg.tables import create_table, current_snapshot, load_table
from lake_assets_tests.lakes import small_lake


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return small_lake(tmp_path_factory.mktemp("publish"))


@pytest.fixture
def session(lake: Lake) -> SparkSession:
    return lake.runtime.sessions.root()


def table(lake: Lake, session: SparkSession, name: str) -> str:
    create_table(session, lake.runtime.catalog, f"gold.{name}", [parse_column("id", "int not null")])
    return f"gold.{name}"


def new_attempt(lake: Lake, session: SparkSession, identifier: str) -> Attempt:
    return Attempt(session, lake.config.catalog.name, identifier)


def append(session: SparkSession, to: Attempt) -> None:
    session.sql("SELECT 1 AS id").writeTo(to.address).append()


def rows(lake: Lake, identifier: str) -> int:
    return lake.runtime.catalog.load_table(identifier).scan().to_arrow().num_rows


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("started", ["before", "after"])
def test_the_second_of_two_is_refused(
    lake: Lake, session: SparkSession, published: bool, started: str
) -> None:
    """`published`: whether the table had a snapshot that both were planned from; `started`: when the second began."""
    identifier = table(lake, session, f"two_{published}_{started}".lower())
    if published:
        with attempt(session, lake.config.catalog.name, identifier, None) as initial:
            append(session, initial)
            initial.publish()
    head = current_snapshot(load_table(lake.runtime.catalog, identifier))
    planned = head.snapshot_id if head else None
    first, second = (new_attempt(lake, session, identifier) for _ in range(2))
    first.start(planned)
    if started == "before":
        second.start(planned)
    append(session, first)
    published_id = first.publish()
    main = current_snapshot(load_table(lake.runtime.catalog, identifier))
    assert main is not None
    assert main.snapshot_id == published_id

    def publish_second() -> None:
        if started == "after":
            second.start(planned)
        append(session, second)
        second.publish()

    with pytest.raises(ApplyConflict, match=f"{identifier}: another run published first"):
        publish_second()
    second.drop()
    first.drop()
    assert rows(lake, identifier) == 1 + published
    assert set(lake.runtime.catalog.load_table(identifier).refs()) == {"main"}


def test_the_branch_is_gone_when_the_block_fails(lake: Lake, session: SparkSession) -> None:
    identifier = table(lake, session, "fails")

    def fail_inside() -> None:
        with attempt(session, lake.config.catalog.name, identifier, None) as current:
            append(session, current)
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        fail_inside()
    assert lake.runtime.catalog.load_table(identifier).current_snapshot() is None
    assert set(lake.runtime.catalog.load_table(identifier).refs()) == set()
