"""Two attempts to publish to one table: only the first is granted, whatever both were planned from.

Not here: what is written to a branch by silver and gold.
"""

import sys
from collections.abc import Callable
from datetime import timedelta
from subprocess import PIPE, Popen

import pytest
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from lake_assets.config import parse_column
from lake_assets.errors import ApplyConflict
from lake_assets.iceberg import publish
from lake_assets.iceberg.publish import Attempt, KeptBranches, attempt, drop_branch
from lake_assets.iceberg.table_io import create_table, current_snapshot, load_table
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.spark.sql import sql, table_address
from lake_assets_tests.helpers.lakes.small_lakes import small_lake
from lake_assets_tests.helpers.processes.child import environment, output_of, run_python


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return small_lake(tmp_path_factory.mktemp("publish"))


@pytest.fixture
def session(lake: Lake) -> SparkSession:
    return lake.runtime.sessions.root()


def table(lake: Lake, session: SparkSession, name: str) -> str:
    create_table(session, lake.runtime.catalog, f"gold.{name}", [parse_column("id", "int not null")], 3)
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
    first.publish()
    refs = lake.runtime.catalog.load_table(identifier).metadata.refs
    assert refs["main"].snapshot_id == refs[first.branch].snapshot_id

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


BRANCH = (
    "from lake_assets.iceberg.publish import Attempt; print(Attempt(None, 'c', 'n.t').branch, flush=True)"
)
"""Prints a branch of its own."""


def test_branches_of_dead_processes_are_dropped(lake: Lake, session: SparkSession) -> None:
    """Not those of processes that live, or that are on another machine."""
    identifier = table(lake, session, "left")
    with attempt(session, lake.config.catalog.name, identifier, None) as initial:
        append(session, initial)
        initial.publish()
    command = [sys.executable, "-c", f"{BRANCH}; input()"]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=environment()) as alive:
        assert alive.stdout is not None
        living = alive.stdout.readline().strip()
        dead = output_of(run_python("-c", BRANCH, timeout=60)).strip()
        machine = dead.split("_")[2][:8]
        elsewhere = dead.replace(machine, f"{int(machine, 16) ^ 1:08x}")
        # The id of the process that lives, given again.
        again = living[:-16] + f"{int(living[-16:-8], 16) - 60:08x}" + living[-8:]
        mine = new_attempt(lake, session, identifier).branch
        for name in (living, dead, elsewhere, again, mine):
            Attempt(session, lake.config.catalog.name, identifier, name).start(head(lake, identifier))
        found = lake.runtime.catalog.load_table(identifier)
        with attempt(session, lake.config.catalog.name, identifier, head(lake, identifier), table=found):
            pass
        alive.kill()
    refs = set(lake.runtime.catalog.load_table(identifier).refs())
    assert refs == {"main", living, elsewhere, mine}


def head(lake: Lake, identifier: str) -> int:
    found = current_snapshot(load_table(lake.runtime.catalog, identifier))
    assert found is not None
    return found.snapshot_id


def test_rows_are_deleted_by_a_key_of_any_name(lake: Lake, session: SparkSession) -> None:
    name = "a {b} {keys} }"
    columns = [parse_column(name, "int not null")]
    create_table(session, lake.runtime.catalog, "gold.braces", columns, 3)
    held = session.createDataFrame([(1,), (2,), (3,)], f"`{name}` int")
    with attempt(session, lake.config.catalog.name, "gold.braces", None) as current:
        held.writeTo(current.address).append()
        same = sql("k.{column} = t.{column}", column=name)
        current.delete_matching(held.limit(2), same, sql("t.{column} > 1", column=name))
        current.publish()
    left = lake.runtime.catalog.load_table("gold.braces").scan().to_arrow()
    assert sorted(left[name].to_pylist()) == [1, 3]


class Keeper:
    """A process that goes on with its branches."""

    def __init__(self, lake: Lake, session: SparkSession, identifier: str) -> None:
        self.lake, self.session, self.identifier = lake, session, identifier
        self.branches = KeptBranches()

    @property
    def table(self) -> Table:
        return self.lake.runtime.catalog.load_table(self.identifier)

    @property
    def refs(self) -> set[str]:
        return set(self.table.refs()) - {"main"}

    def publish(self, before: Callable[[], object] = lambda: None) -> str:
        """One row, published after something else has happened; the name of the branch."""
        found, head = self.table, current_snapshot(self.table)
        with attempt(
            self.session,
            self.lake.config.catalog.name,
            self.identifier,
            head.snapshot_id if head is not None else None,
            kept=self.branches,
            table=found,
        ) as current:
            append(self.session, current)
            before()
            current.publish()
        return current.branch


@pytest.fixture
def keeper(lake: Lake, session: SparkSession, request: pytest.FixtureRequest) -> Keeper:
    return Keeper(lake, session, table(lake, session, f"keeper_{abs(hash(request.node.name))}"))


def test_a_branch_is_gone_on_with(keeper: Keeper) -> None:
    first = keeper.publish()
    before = len(keeper.table.metadata.metadata_log)
    assert keeper.publish() == first
    assert len(keeper.table.metadata.metadata_log) == before + 2, "the rows, and the fast-forward"
    assert keeper.refs == {first}
    assert rows(keeper.lake, keeper.identifier) == 2
    keeper.branches.drop(keeper.session, keeper.lake.config.catalog.name)
    assert keeper.refs == set()
    assert keeper.publish() != first


def test_a_branch_that_another_process_has_left_behind_is_not_used(keeper: Keeper) -> None:
    ours, theirs = keeper, Keeper(keeper.lake, keeper.session, keeper.identifier)
    first, second = ours.publish(), theirs.publish()
    third = ours.publish()
    assert len({first, second, third}) == 3
    assert ours.refs == {second, third}
    assert rows(keeper.lake, keeper.identifier) == 3


def test_of_two_that_keep_branches_one_is_refused(keeper: Keeper) -> None:
    ours, theirs = keeper, Keeper(keeper.lake, keeper.session, keeper.identifier)
    ours.publish()
    others: list[str] = []
    with pytest.raises(ApplyConflict):
        ours.publish(lambda: others.append(theirs.publish()))
    assert ours.refs == set(others), "what was written in vain is dropped"
    ours.publish()
    assert rows(keeper.lake, keeper.identifier) == 3


def test_a_branch_that_was_dropped_or_is_old_is_not_used(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = keeper.publish()
    drop_branch(keeper.session, table_address(keeper.lake.config.catalog.name, keeper.identifier), first)
    second = keeper.publish()
    assert second != first
    monkeypatch.setattr(publish, "KEPT_FOR", timedelta(0))
    keeper.branches.keep(keeper.identifier, second)
    third = keeper.publish()
    assert third not in (first, second)
    assert keeper.refs == {third}
    assert rows(keeper.lake, keeper.identifier) == 3
