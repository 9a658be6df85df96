"""`lake-assets erase` beside what else happens to a lake: reloads, quarantines, merges, cuts, a lost log.

Here: what happens before, during and after an erasure. Not here: kills (`test_killed_erasures.py`).
"""

import json
import shutil
import uuid
from datetime import timedelta
from pathlib import Path
from random import Random

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.commands.erase.erase import Followers, erase
from lake_assets.commands.erase.erasure_plan import erasure_plan
from lake_assets.commands.erase.live_bytes import Search
from lake_assets.commands.mend.recover import recover
from lake_assets.config import ConsistentCut, parse_column
from lake_assets.errors import LakeError
from lake_assets.gold.mart import Input, Mart, MartRequest
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.orchestration.sync import recompute_marts, sync
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets.silver.table.pause import resume
from lake_assets_tests.commands.erase.people import (
    TABLE,
    apply_all,
    erased,
    forget,
    history_of,
    left_of_her,
    people_bench,
    person,
    plan_of,
)
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.files.dms_messages import MemoryStream
from lake_assets_tests.helpers.lakes.bank import SAVINGS, Bank, bank_lake
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import path_of
from lake_assets_tests.silver.test_merged_landings import change, merge, merged_soon, row
from lake_assets_tests.silver.test_stream_histories import loaded, stream, stream_bench

__all__ = ["merged_soon", "stream"]
pytestmark = [pytest.mark.spark, pytest.mark.slow]
QUARANTINE = {"quarantine": {"max_rows": 5}, "also": []}


def bad(clock: Clock, number: int) -> dict[str, object]:
    return {**clock.change("U", person(number, 3)), "phone": "none"}


def test_a_file_that_is_written_again_after_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    """The places of the plan would be those of other people's rows."""
    bench = people_bench(tmp_path, table={"also": []})
    apply_all(bench, history_of())
    plan = plan_of(bench)
    bench.put(load_file(TABLE, [person(number, 9) for number in range(2, 8)], at=NOON + timedelta(hours=3)))
    with pytest.raises(LakeError, match="was written again since its rows were found: run it again"):
        erase(bench.lake, plan, Followers())
    erased(bench)
    bench.apply()
    forget(bench, 1)
    assert bench.rows("people") == bench.truth(TABLE)
    assert left_of_her(tmp_path) == []


def test_rows_that_are_quarantined_between_two_runs(spark: SparkSession, tmp_path: Path) -> None:
    """Their places are those of the file without her rows: the second run does not move them."""
    bench, clock = people_bench(tmp_path, table=QUARANTINE), Clock()
    apply_all(bench, history_of("csv", clock))
    clock.now += timedelta(minutes=1)
    rows = [
        clock.change("U", person(1, 1)),
        *(bad(clock, n) for n in (2, 3, 4)),
        clock.change("D", person(1, 1)),
    ]
    bench.put(cdc_file(TABLE, clock.now, rows))
    bench.look()
    elsewhere = tmp_path / "warehouse/left.txt"
    elsewhere.write_text("Adelheid Hollerbach-0", encoding="utf-8")
    done = erase(bench.lake, plan_of(bench), Followers())
    assert [sentence.partition(" has ")[2] for sentence in done.left] == ["a value of the erased rows"]
    resume(bench.lake.runtime, bench.lake.targets[0])
    bench.apply()
    before = [(held.row, held.raw) for held in bench.lake.runtime.quarantine.all()]
    assert [place for place, _ in before] == [0, 1, 2]
    elsewhere.unlink()
    erased(bench)
    assert [(held.row, held.raw) for held in bench.lake.runtime.quarantine.all()] == before


def test_entries_of_a_former_content(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = people_bench(tmp_path, table=QUARANTINE), Clock()
    apply_all(bench, [[load_file(TABLE, [person(number) for number in range(2, 7)])]])
    first = cdc_file(TABLE, clock.now, [clock.change("I", person(8)), bad(clock, 1)])
    again = DmsFile(first.key, (clock.change("I", person(1, 5)), first.rows[0]))
    gone = cdc_file(TABLE, clock.now + timedelta(minutes=1), [clock.change("D", person(1, 5))])
    apply_all(bench, [[first], [again], [gone]])
    assert left_of_her(tmp_path / "warehouse/lake_ops")
    erased(bench)
    assert left_of_her(tmp_path) == []


def test_values_that_begin_as_those_of_others(spark: SparkSession, tmp_path: Path) -> None:
    """Iceberg's bounds have the beginnings only."""

    def one(number: int) -> dict[str, object]:
        return person(number) | {"mail": f"https://example.org/people/{number}"}

    bench, clock = people_bench(tmp_path, table={"also": []}), Clock()
    gone = cdc_file(TABLE, clock.now, [clock.change("D", one(1))])
    apply_all(bench, [[load_file(TABLE, [one(number) for number in range(1, 5)])], [gone]])
    erased(bench)
    assert left_of_her(tmp_path) == []


def test_a_data_file_that_no_commit_names(spark: SparkSession, tmp_path: Path) -> None:
    """A batch was killed before its commit."""
    bench, batches = people_bench(tmp_path, table={"also": []}), history_of()
    apply_all(bench, batches[:1])
    (data,) = (tmp_path / "warehouse/silver_shop/people").rglob("*.parquet")
    left = data.with_name(f"killed-{data.name}")
    left.write_bytes(data.read_bytes())
    apply_all(bench, batches[1:])
    erased(bench)
    assert not left.exists()
    forget(bench, 1)
    assert bench.rows("people") == bench.truth(TABLE)


def test_keys_that_no_row_has_and_very_many(spark: SparkSession, tmp_path: Path) -> None:
    bench = people_bench(tmp_path, table={"also": []})
    apply_all(bench, history_of())
    with pytest.raises(LakeError, match="has a row of these keys: see how they are spelled"):
        plan_of(bench, "4711")
    many = plan_of(bench, *map(str, (1, *range(10_000, 13_000))))
    assert len(many.with_rows) == 4


def test_a_log_that_is_lost_afterwards(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = people_bench(tmp_path, table={"also": ["change_log"]}), Clock()
    apply_all(bench, history_of("csv", clock))
    erased(bench)
    forget(bench, 1)
    log = bench.lake.runtime.catalog.load_table("lake_ops.bronze_files")
    bench.lake.runtime.catalog.drop_table("lake_ops.bronze_files")
    shutil.rmtree(path_of(log.location()))
    bench.lake = bench.reopened()
    assert not [line for line in recover(bench.lake) if "gone" in line]
    bench.lake = bench.reopened()
    late = Clock(NOON + timedelta(minutes=4)).change("U", person(6, 9))
    for hours, changed in ((1, clock.change("U", person(5, 9))), (2, late)):
        bench.put(cdc_file(TABLE, clock.now + timedelta(hours=hours), [changed]))
        bench.apply()
    assert bench.rows("people") == bench.truth(TABLE)


def test_landings_are_merged_afterwards(merged_soon: None, stream: MemoryStream, tmp_path: Path) -> None:
    bench = stream_bench(tmp_path, "mysql", ["id"], also=["change_log"])
    stream.put("a", *loaded([row(number, "loaded") for number in range(1, 4)], NOON - timedelta(minutes=5)))
    bench.apply()
    for number in range(1, 5):
        stream.put("a", change("update", 1 + number % 3, f"v{number}", 10 * number))
        bench.apply()
    stream.put("a", change("delete", 1, "v3", 200))
    bench.apply()
    for number in range(30, 34):
        stream.put("a", change("update", 2 + number % 2, f"v{number}", 10 * number))
        bench.apply()
    done = erase(bench.lake, erasure_plan(bench.lake, bench.lake.targets, ["1"]), Followers())
    assert done.left == []
    for target in bench.lake.targets:
        maintain_silver(bench.lake.runtime, (), target, keep_commits=1)
    before = {target.name: bench.rows(target.name) for target in bench.lake.targets}
    assert merge(bench).files_rewritten
    assert bench.apply() == {name: [] for name in before}
    assert {name: bench.rows(name) for name in before} == before
    for target in bench.lake.targets:
        assert rebuild(bench.lake.runtime, target, publish=False).equal, target.name


def total(request: MartRequest) -> DataFrame:
    accounts = request.inputs["savings"].unionByName(request.inputs["giro"])
    return accounts.agg(F.sum("balance").alias("money"), F.lit(request.now).alias("as_of"))


AT_CUT = Mart(
    name="money",
    description="All money of the bank, at the newest consistent cut.",
    inputs={"savings": Input("shop", "savings"), "giro": Input("shop", "giro")},
    columns=(parse_column("money", "long"), parse_column("as_of", "timestamptz")),
    compute=total,
    partition_column=None,
    at_cut=True,
)


def test_a_mart_at_a_consistent_cut(spark: SparkSession, tmp_path: Path) -> None:
    """The newest cut shows the table without the rows, and the mart follows; a second run finishes, too."""
    bank, bench, instance = Bank(Random(5)), bank_lake(tmp_path), dg.DagsterInstance.ephemeral()
    for _ in range(10):
        bank.transfer()
    quiet = ConsistentCut(interval=timedelta(0), margin=timedelta(0), every=timedelta(seconds=1))
    source = bench.lake.config.sources["shop"].model_copy(update={"consistent_cut": quiet})
    config = bench.lake.config.model_copy(update={"sources": {"shop": source}})
    bench.lake = open_lake(config, marts=(AT_CUT,))
    for files in (bank.loads(), bank.arrivals()):
        bench.put(*files)
        sync(bench.lake, instance)

    def money() -> int:
        (found,) = bench.lake.runtime.catalog.load_table("gold.money").scan().to_arrow().to_pylist()
        return int(found["money"])

    (balance,) = (account["balance"] for account in bench.stored("savings") if account["id"] == 1)
    before, targets = money(), [target for target in bench.lake.targets if target.table == SAVINGS]
    followers = Followers(lambda lake: recompute_marts(lake, instance))
    plan = erasure_plan(bench.lake, targets, ["1"], still_in_source=True)
    assert erase(bench.lake, plan, followers).left == []
    assert money() == before - balance
    sync(bench.lake, instance)
    assert money() == before - balance


def test_values_within_quotes_and_in_json() -> None:
    names = ("Jürgen Müller", 'Ann "Q" Lee', "two\nlines", "plain word")
    found = Search(names)
    for name in names:
        for text in (name, json.dumps(name), name.replace('"', '""')):
            assert found.found_in([("a", f'x,"{text}"\n'.encode)]) == ["a"], text
    assert found.found_in([("a", b"plain words, xplain word".strip)]) == []
    very_many = Search([str(uuid.UUID(int=number)) for number in range(3_000)])
    assert very_many.found_in([("a", str(uuid.UUID(int=2_999)).encode), ("b", b"nothing".strip)]) == ["a"]


def test_a_key_of_many_types(spark: SparkSession, tmp_path: Path) -> None:
    columns = {
        "u": "uuid not null",
        "t": "timestamptz not null",
        "d": "decimal(10, 2) not null",
        "s": "string not null",
    }
    table = {
        "columns": {**columns, "v": "string"},
        "primary_key": list(columns),
        "also": ["history", "change_log"],
    }
    bench, clock = Bench(tmp_path, {TABLE: table}), Clock()
    ids = [str(uuid.UUID(int=number + 10**20)) for number in range(4)]

    def one(number: int) -> dict[str, object]:
        at = NOON + timedelta(hours=number)
        v = "Adelheid" if number == 1 else f"v{number}"
        return {"u": ids[number], "t": at, "d": f"{number}.50", "s": f'a,"{number}"', "v": v}

    text = f'{ids[1]},2026-03-01 13:00:00,1.5,"a,""1"""'
    apply_all(bench, [[load_file(TABLE, [one(number) for number in range(4)])]])
    with pytest.raises(LakeError, match="so that the source has them"):
        plan_of(bench, text)
    apply_all(bench, [[cdc_file(TABLE, clock.now, [clock.change("D", one(1))])]])
    erased(bench, text)
    assert left_of_her(tmp_path) == []
    assert len(bench.rows("people_history")) == 3
    for target in bench.lake.targets:
        assert rebuild(bench.lake.runtime, target, publish=False).equal, target.name
