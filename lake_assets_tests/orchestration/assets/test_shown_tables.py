"""What Dagster's UI shows of tables, of marts with new code, and of a run that failed with the table and file at fault.

Here: answers of Dagster's GraphQL after real runs. Not here: lineage (`test_shown_lineage.py`), the other figures of a
materialization (`test_materializations.py`).
"""

import os
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.gold.mart import Mart
from lake_assets.gold.registry import load_mart
from lake_assets.orchestration.assets.batch_check import BATCH_CHECK
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.orchestration.launcher.run_process import PROCESS, process_tag
from lake_assets.orchestration.runs.continuous_run import Continuous
from lake_assets.orchestration.shared.heartbeat import HEARTBEAT
from lake_assets.orchestration.shared.run_tags import OWN, SCOPE, mart_tag
from lake_assets_tests.helpers.orchestration.dagster_shop import QUIET, RUNBOOK, Shop, days, open_shop
from lake_assets_tests.helpers.orchestration.shown import Shown, shown

pytestmark = pytest.mark.spark

_COLUMNS = "... on TableSchemaMetadataEntry{schema{columns{name type constraints{nullable}}}}"
_ENTRIES = f"metadataEntries{{label ... on IntMetadataEntry{{intValue}} {_COLUMNS}}}"
NODES = (
    f"{{assetNodes{{assetKey{{path}} description {_ENTRIES} assetMaterializations{{partition {_ENTRIES}}}}}}}"
)
"""The newest materialization comes first."""
TAGS = "{runsOrError{... on Runs{results{runId tags{key value}}}} runTagKeysOrError{... on RunTagKeys{keys}}}"
"""The tags in the list of runs, and those by which the list can be filtered."""
FAILURES = (
    "query($run: ID!){logsForRun(runId: $run){... on EventConnection{events{"
    "... on ExecutionStepFailureEvent{stepKey error{message} failureMetadata{description}} "
    "... on RunFailureEvent{message error{message}}}}}}"
)

STATUS = (
    "query($key: AssetKeyInput!, $partition: String){assetNodes(assetKeys: [$key]){staleStatus staleCauses{category} "
    "ofPartition: staleStatus(partition: $partition) causesOfPartition: staleCauses(partition: $partition){category}}}"
)
IN_SQL = """\
/*
description: Sales {name}.
{follow}
columns: {columns}
*/
SELECT {select} FROM silver_shop.sales {rest}
"""
BY_DAY = {
    "name": "by day",
    "follow": "follow: {silver_shop.sales: {day: at}}",
    "columns": "{day: date, sales: long}",
    "select": "to_date(at) AS day, count(*) AS sales",
    "rest": "WHERE at >= :start AND at < :end GROUP BY to_date(at)",
}
IN_ALL = {
    "name": "in all",
    "follow": "partition_column: null",
    "columns": "{sales: long}",
    "select": "count(*) AS sales",
    "rest": "",
}


def nodes(ui: Shown) -> dict[str, dict[str, Any]]:
    """By table, what the UI shows of the tables of silver and gold."""
    found = ui.query(NODES)["assetNodes"]
    return {
        "_".join(node["assetKey"]["path"][:-1]) + "." + node["assetKey"]["path"][-1]: node
        for node in found
        if node["assetKey"]["path"][0] in ("silver", "gold")
    }


def entry(entries: list[dict[str, Any]], label: str) -> Any:
    """What an entry of the metadata has."""
    (found,) = (entry for entry in entries if entry["label"] == label)
    return found["intValue"] if "intValue" in found else found["schema"]["columns"]


def test_columns_and_row_counts_are_those_of_the_tables(spark: SparkSession, shop: Shop) -> None:
    """Before and after days are computed again."""
    shop.change("sales", [1, 2, 3])
    shop.change("sales", [4], day=2)
    shop.change("notes", [1])
    for _ in range(2):
        assert shop.apply().success
        for request in shop.tick("marts").run_requests or ():
            assert shop.run(request).success
        with shown(shop.definitions, shop.instance) as ui:
            found = nodes(ui)
        assert {"silver_shop.sales", "silver_shop.notes", "gold.sales_daily"} <= set(found)
        for name in ("silver_shop.sales", "silver_shop.notes", "gold.sales_daily"):
            fields = shop.lake.runtime.catalog.load_table(name).schema().fields
            assert entry(found[name]["metadataEntries"], "dagster/column_schema") == [
                {
                    "name": field.name,
                    "type": str(field.field_type),
                    "constraints": {"nullable": not field.required},
                }
                for field in fields
            ]
            newest = found[name]["assetMaterializations"][0]["metadataEntries"]
            assert entry(newest, "dagster/row_count") == len(shop.rows(name)), name
        for name in ("silver_shop.sales", "gold.sales_daily"):
            assert RUNBOOK in found[name]["description"], "the UI renders its Markdown"
        by_day: dict[str, int] = {}
        for event in found["gold.sales_daily"]["assetMaterializations"]:
            by_day.setdefault(
                event["partition"], entry(event["metadataEntries"], "dagster/partition_row_count")
            )
        rows = Counter(row["day"].isoformat() for row in shop.rows("gold.sales_daily"))
        assert {day: count for day, count in by_day.items() if count} == rows
        shop.change("sales", [4], day=2, op="D")
        shop.change("sales", [5], day=3)
    assert by_day == {"2026-03-01": 1, "2026-03-02": 0, "2026-03-03": 1}


def marts_in(folder: Path, count: str) -> list[Mart]:
    """A mart by day and one without days, whose code counts the sales as `count`."""
    for name, parts in (("daily", BY_DAY), ("total", IN_ALL)):
        text = IN_SQL.format(**parts).replace("count(*)", count)
        (folder / f"{name}.sql").write_text(text)
    return [load_mart(str(folder / f"{name}.sql")) for name in ("daily", "total")]


def status(ui: Shown, mart: str, partition: str | None = None) -> tuple[str, set[str]]:
    """Whether the UI calls the mart, or its partition, stale, and why."""
    key = {"path": ["gold", mart]}
    (node,) = ui.query(STATUS, key=key, partition=partition)["assetNodes"]
    if partition is None:
        return node["staleStatus"], {cause["category"] for cause in node["staleCauses"]}
    return node["ofPartition"], {cause["category"] for cause in node["causesOfPartition"]}


@pytest.mark.long
def test_new_code_is_shown_on_the_partitions_of_a_mart(spark: SparkSession, tmp_path: Path) -> None:
    """Dagster calls every node with partitions fresh, and has the status of each partition beside it."""
    fresh: tuple[str, set[str]] = ("FRESH", set())
    stale = ("STALE", {"CODE"})
    first, second = "2026-03-01", "2026-03-02"
    shop = open_shop(tmp_path, marts=marts_in(tmp_path, "count(*)"))
    shop.change("sales", [1])
    shop.change("sales", [2], day=2)
    shop.apply()
    for request in shop.tick("marts").run_requests or ():
        assert shop.run(request).success
    with shown(shop.definitions, shop.instance) as ui:
        for place in (("daily",), ("daily", first), ("daily", second), ("total",)):
            assert status(ui, *place) == fresh

    shop.lake = open_lake(shop.lake.config, marts=marts_in(tmp_path, "2 * count(*)"))
    shop.restart()
    with shown(shop.definitions, shop.instance) as ui:
        assert status(ui, "daily") == fresh
        for place in (("daily", first), ("daily", second), ("total",)):
            assert status(ui, *place) == stale
    assert shop.refusal("marts") == "every mart is up to date"

    assert shop.materialize([dg.AssetKey(["gold", "daily"])], partition=first).success
    assert shop.materialize([dg.AssetKey(["gold", "total"])]).success
    with shown(shop.definitions, shop.instance) as ui:
        assert status(ui, "daily", second) == stale
        for place in (("daily", first), ("total",)):
            assert status(ui, *place) == fresh
    assert [row["sales"] for row in shop.rows("gold.daily")] == [2, 1]
    assert [row["sales"] for row in shop.rows("gold.total")] == [4]

    shop.change("sales", [3], day=2)
    assert shop.apply().success
    with shown(shop.definitions, shop.instance) as ui:
        assert status(ui, "daily", first) == status(ui, "total") == ("STALE", {"DATA"})
        assert status(ui, "daily") == fresh
    requests = {request.partition_key or days(request) for request in shop.tick("marts").run_requests or ()}
    assert requests == {None, (date(2026, 3, 2), date(2026, 3, 2))}, (
        "Dagster knows only that a table is newer"
    )


def test_new_code_is_shown_on_a_mart_of_the_continuous_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events are no outputs of a step, to which Dagster itself adds versions."""
    fresh: tuple[str, set[str]] = ("FRESH", set())
    monkeypatch.setattr("lake_assets.orchestration.runs.continuous_job.HAND_OVER_SECONDS", 1.0)
    marts = marts_in(tmp_path, "count(*)")[1:]
    shop = open_shop(tmp_path, marts=marts, automation={"continuous": True})

    def turn() -> tuple[str, set[str]]:
        job = shop.definitions.resolve_job_def("shop_continuous")
        assert job.execute_in_process(instance=shop.instance, run_config=QUIET).success
        with shown(shop.definitions, shop.instance) as ui:
            return status(ui, "total")

    for number in (1, 2):
        shop.change("sales", [number])
        assert turn() == fresh
    lake = shop.lake
    shop.change("sales", [3])
    without = Continuous(lake.runtime, "shop", lake.targets, (), shop.instance)
    assert without.round().batches == 1
    for event in without.events():
        shop.instance.report_runless_asset_event(event)
    with shown(shop.definitions, shop.instance) as ui:
        assert status(ui, "total") == ("STALE", {"DATA"})
    assert turn() == fresh

    shop.lake = open_lake(shop.lake.config, marts=marts_in(tmp_path, "2 * count(*)")[1:])
    shop.restart()
    assert turn() == ("STALE", {"CODE"}), "the run does not compute it again for that"
    shop.change("sales", [4])
    assert turn() == fresh
    assert [row["sales"] for row in shop.rows("gold.total")] == [8]


def test_a_failed_run_names_table_file_line_and_next_step(spark: SparkSession, shop: Shop) -> None:
    """In the events that the page of the run shows first: the failed step, and the run."""
    shop.change("sales", [1])
    key = shop.spoil("notes")
    run = shop.apply()
    with shown(shop.definitions, shop.instance) as ui:
        events = [
            event for event in ui.query(FAILURES, run=run.run_id)["logsForRun"]["events"] if "error" in event
        ]
    step, whole = events
    assert step["stepKey"].endswith(BATCH_CHECK)
    assert step["stepKey"] in whole["message"]
    for said in (step["failureMetadata"]["description"], step["error"]["message"], whole["error"]["message"]):
        assert "public.notes: row 1 of file://" in said
        assert f"{key}: at is not a valid timestamptz: 'no time at all'" in said
        assert "Correct the table's columns in lake.yaml, have DMS write the file again, or" in said


def test_a_run_shows_no_tag_of_the_lakes_own_bookkeeping(spark: SparkSession, shop: Shop) -> None:
    shop.change("sales", [1])
    runs = [shop.apply(), *(shop.run(request) for request in shop.tick("marts").run_requests or ())]
    scopes, inside = {"silver/shop", "gold"}, {HEARTBEAT, PROCESS, OWN}
    for run in runs:
        # A run of these tests has no process of its own, which the launcher would record.
        shop.instance.add_run_tags(run.run_id, process_tag(run.run_id, os.getpid()))
        known = shop.instance.get_run_by_id(run.run_id)
        assert known is not None
        assert inside <= set(known.tags)
        inside |= {mart_tag("sales_daily")} & set(known.tags)
    assert mart_tag("sales_daily") in inside
    with shown(shop.definitions, shop.instance) as ui:
        answer = ui.query(TAGS)
    found = {run["runId"]: run["tags"] for run in answer["runsOrError"]["results"]}
    assert set(found) == {run.run_id for run in runs}
    for tags in found.values():
        own = {tag["key"]: tag["value"] for tag in tags if "lake_assets" in tag["key"]}
        assert set(own) == {SCOPE}
        assert own[SCOPE] in scopes
    assert [key for key in answer["runTagKeysOrError"]["keys"] if "lake_assets" in key] == [SCOPE]
