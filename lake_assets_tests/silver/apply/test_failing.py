"""A table whose next batch fails: what `status` makes of the lake alone, without Dagster.

Here: the states and their reasons. Not here: why a batch fails (`test_bad_rows.py`).
"""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.show.status import TableStatus, status
from lake_assets.silver.apply.failures import failures
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.reconcile.restored import restorer

pytestmark = pytest.mark.spark
HEADER = "Op,commit_ts,id,name,change_seq,BI_id"
GOOD = "I,2026-03-01 12:00:00,1,a,,"
TABLE = {
    "columns": {"id": "long not null", "name": "string"},
    "primary_key": ["id"],
    "quarantine": {"max_rows": 0},
    "schema_changes": "stop",
}
NAMES = ("good", "schema", "value")


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Bench]:
    """Each table is loaded; then `schema` gets a file with a strange column, `value` one with a bad value."""
    bench = Bench(tmp_path_factory.mktemp("shop"), {f"public.{name}": TABLE for name in NAMES})
    for name in NAMES:
        bench.put_text(f"public/{name}/LOAD00000001.csv", HEADER, GOOD)
    bench.apply()
    bench.put_text(
        "public/schema/20260301-130000000.csv", f"{HEADER},color", "I,2026-03-01 13:00:00,2,b,,,red"
    )
    bench.put_text("public/value/20260301-130000000.csv", HEADER, "I,2026-03-01 13:00:00,two,b,,")
    return restorer(bench)


@pytest.fixture
def bench(made: Callable[[], Bench]) -> Bench:
    return made()


def states(bench: Bench) -> dict[str, TableStatus]:
    """As another process sees them."""
    return {line.table.removeprefix("silver_shop."): line for line in status(bench.reopened())}


def test_failing_with_the_reason_and_the_command(bench: Bench) -> None:
    bench.look()
    assert {name: line.state for name, line in states(bench).items()} == {
        "good": "up to date",
        "schema": "pending",
        "value": "pending",
    }, "not tried yet"
    bench.turn()
    found = states(bench)
    assert {name: (line.state, line.is_wrong) for name, line in found.items()} == {
        "good": ("up to date", False),
        "schema": ("failing", True),
        "value": ("failing", True),
    }
    for name, said in (
        ("schema", "public/schema/20260301-130000000.csv has the column color"),
        ("value", "/public/value/20260301-130000000.csv: id is not"),
    ):
        reason = found[name].reason
        assert reason is not None
        assert said in reason
        assert reason.endswith(f"To try again: lake-assets sync --table public.{name}")
        assert found[name].failing_since is not None
        assert found[name].pending_files == 1


def test_a_table_that_goes_on_fails_no_more(bench: Bench) -> None:
    bench.turn()
    bench.put_text("public/schema/20260301-130000000.csv", HEADER, "I,2026-03-01 13:00:00,2,b,,")
    bench.put_text("public/value/20260301-130000000.csv", HEADER, "I,2026-03-01 13:00:00,2,b,,")
    bench.apply()
    assert {line.state for line in states(bench).values()} == {"up to date"}
    assert failures(bench.lake.runtime) == {}
    # Nor when it is made anew, at the position where it had failed.
    bench.lake.runtime.catalog.drop_table("silver_shop.value")
    assert states(bench)["value"].state == "pending"


def test_failing_again_for_the_same_reason_commits_nothing(bench: Bench) -> None:
    bench.turn()
    table = bench.lake.runtime.catalog.load_table("lake_ops.findings")
    before, since = table.metadata_location, states(bench)["value"].failing_since
    bench.turn()
    assert table.refresh().metadata_location == before
    assert states(bench)["value"].failing_since == since
