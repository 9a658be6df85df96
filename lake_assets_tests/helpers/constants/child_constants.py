"""Shorter waits for processes that a test starts by the lake's own command or Dagster's, and cannot change itself."""

import json
import os
from pathlib import Path
from typing import Any

from lake_assets_tests.helpers.processes.child import ROOT, environment

QUICK: dict[str, dict[str, Any]] = {
    "lake_assets.orchestration.shared.heartbeat": {"BEAT_SECONDS": 1.0, "SILENT_SECONDS": 12.0},
    "lake_assets.orchestration.runs.continuous_job": {"REPORT_SECONDS": 2.0},
    "lake_assets.rounds.backoff": {"FIRST_WAIT": 1.0},
}
"""Patience cut to what a test has. By module, the constants."""


def quick_environment(constants: dict[str, dict[str, Any]] = QUICK, **variables: str) -> dict[str, str]:
    """As `environment`, and the process and its children have these constants."""
    path = os.pathsep.join([str(Path(__file__).parent / "of_children"), str(ROOT)])
    return environment(PYTHONPATH=path, TEST_CONSTANTS=json.dumps(constants), **variables)
