"""What a run of silver has reported.

Here: reading it. Not here: a lake to run (`dagster_shop.py`).
"""

import dagster as dg
from dagster import DagsterRunStatus

from lake_assets.orchestration.shared.asset_metadata import figures_of
from lake_assets_tests.helpers.orchestration.dagster_shop import (
    Shop,
)


def outcomes(run: dg.ExecuteInProcessResult) -> dict[tuple[str, str], bool]:
    """Of each check of the run, by table and name, whether it passed."""
    return {(e.asset_key.path[-1], e.check_name): e.passed for e in run.get_asset_check_evaluations()}


def materialized(run: dg.ExecuteInProcessResult) -> dict[str, dict[str, object]]:
    """The figures of each materialization of the run, by table."""
    return {
        event.asset_key.path[-1]: figures_of(event.materialization.metadata)
        for event in run.get_asset_materialization_events()
        if event.asset_key
    }


def status(shop: Shop, run: dg.ExecuteInProcessResult) -> DagsterRunStatus:
    """How Dagster has recorded the end of the run."""
    found = shop.instance.get_run_by_id(run.run_id)
    assert found is not None
    return found.status
