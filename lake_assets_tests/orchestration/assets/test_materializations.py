"""Silver in Dagster: what a turn reports of its tables.

Not here: tables that fail (`test_failing_tables.py`).
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lake_assets.orchestration.assets.silver_assets import batch_keys
from lake_assets_tests.helpers.lakes.small_lakes import sequence, small_lake, write_file
from lake_assets_tests.helpers.orchestration.dagster_shop import (
    BATCH,
    NOTES,
    SALES,
    Shop,
)
from lake_assets_tests.helpers.orchestration.silver_runs import materialized, outcomes


def test_what_a_materialization_says(shop: Shop) -> None:
    sizes = 0
    for key in (
        shop.change("sales", [1, 2, 3]),
        shop.change("sales", [1], op="U"),
        shop.change("sales", [2], op="D"),
    ):
        sizes += (shop.folder / "bronze" / key).stat().st_size
    metadata = materialized(shop.apply())["sales"]
    expected = {
        "dagster/row_count": 2,
        "rows_read": 5,
        "rows_inserted": 3,
        "rows_updated": 1,
        "rows_deleted": 1,
        "rows_written": 2,
        "rows_removed": 0,
        "files": 3,
        "data_files": 1,
        "delete_files": 0,
        "bytes": sizes,
        "position": 3,
    }
    assert {name: metadata.get(name, 0) for name in expected} == expected
    assert float(str(metadata["lag_seconds"])) > 0
    stages = {name: float(str(value)) for name, value in metadata.items() if name.startswith("seconds_")}
    assert {"seconds_read", "seconds_write", "seconds_publish"} <= set(stages)
    assert float(str(metadata["seconds"])) == pytest.approx(sum(stages.values()), abs=0.01)
    table = shop.lake.runtime.catalog.load_table("silver_shop.sales")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert metadata["snapshot_id"] == str(snapshot.snapshot_id)


def test_a_materialization_shows_few_figures_and_the_others_in_one_entry(shop: Shop) -> None:
    """Each number of an event is a plot in the UI; thirty plots, of which most are flat, hide those that matter."""
    shop.change("sales", [9])
    shop.apply()  # the first file has no latency: the lake may have been set up after it
    shop.change("sales", [1, 2, 3])
    shop.change("sales", [1], op="U")
    run = shop.apply()
    (event,) = [e for e in run.get_asset_materialization_events() if e.asset_key == SALES]
    shown: dict[str, Any] = {name: value.value for name, value in event.materialization.metadata.items()}
    assert set(shown) == {
        "dagster/row_count",
        "position",
        "newest_commit",
        "lag_seconds",
        "latency_p50_seconds",
        "latency_p99_seconds",
        "rows_inserted",
        "rows_updated",
        "seconds",
        "seconds_by_stage",
        "details",
        "preview",
    }
    assert {"read", "write", "publish"} <= set(shown["seconds_by_stage"])
    assert shown["details"]["rows_read"] == 4
    assert 0 not in shown["details"].values()
    assert shown["latency_p50_seconds"] <= shown["latency_p99_seconds"]


def test_an_update_of_a_row_that_nobody_knows_is_told(shop: Shop) -> None:
    shop.change("sales", [1])
    shop.apply()
    shop.change("sales", [77], op="U")
    run = shop.apply()
    assert materialized(run)["sales"]["unseen_updates"] == 1
    told = [event.message or "" for event in shop.instance.all_logs(run.run_id)]
    assert any("1 update is of rows that the table did not have" in message for message in told)


def test_a_change_of_columns_is_an_event_on_the_asset(shop: Shop) -> None:
    shop.change("sales", [1])
    shop.apply()
    moment = "2026-03-01 12:00:00.000000"
    lines = ["Op,commit_ts,id,at,change_seq,BI_id", f"I,{moment},2,{moment},{sequence(9_000)},NULL"]
    write_file(shop.folder, "public/sales/20260301-120000000.csv", lines)
    run = shop.apply()
    (event,) = run.filter_events(lambda event: event.event_type == dg.DagsterEventType.ASSET_OBSERVATION)
    observed = event.asset_observation_data.asset_observation
    assert (observed.asset_key, observed.description) == (SALES, "keep column name, NULL from now on")
    assert observed.metadata["position"].value == 2
    assert materialized(run)["sales"]["schema_changes"] == observed.description


def test_a_turn_with_nothing_pending_materializes_no_table(shop: Shop) -> None:
    shop.change("sales", [1])
    shop.apply()
    snapshots = shop.snapshots("silver_shop.sales")
    run = shop.materialize([SALES, NOTES, BATCH])
    assert run.success
    assert set(materialized(run)) == {"shop_batch"}
    assert outcomes(run)["sales", "applied"]
    assert outcomes(run)["notes", "freshness"]
    assert shop.snapshots("silver_shop.sales") == snapshots


def test_a_source_of_many_tables_is_cut_into_chunks_with_a_batch_asset_each(tmp_path: Path) -> None:
    columns = {"id": "long not null"}
    tables = {f"public.t{number}": {"columns": columns, "primary_key": ["id"]} for number in range(120)}
    targets = small_lake(tmp_path, tables).targets
    assert {key.path[-1] for key in batch_keys("shop", targets, targets)} == {
        "shop_batch",
        "shop_batch_2",
        "shop_batch_3",
    }
    assert {key.path[-1] for key in batch_keys("shop", targets, [targets[50], targets[99]])} == {
        "shop_batch_2"
    }
