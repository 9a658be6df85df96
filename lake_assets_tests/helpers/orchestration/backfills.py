"""Backfills of a running Dagster, launched as its UI launches them.

Here: launching one, following it, killing one of its runs. Not here: Dagster's processes (`dagster_dev.py`).
"""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from lake_assets.orchestration.instance import dagster_instance
from lake_assets.orchestration.launcher.run_process import PROCESS
from lake_assets.orchestration.shared.run_tags import BACKFILL
from lake_assets_tests.helpers.orchestration.dagster_dev import Dev

ENDED = ("COMPLETED_SUCCESS", "COMPLETED_FAILED", "FAILED", "CANCELED")
LAUNCHED = "{... on LaunchBackfillSuccess{backfillId} ... on PythonError{message}}"


@dataclass(frozen=True)
class Backfill:
    """A backfill, by its id in Dagster."""

    dev: Dev
    key: str

    def status(self) -> str:
        """Dagster's word."""
        wanted = "{... on PartitionBackfill{status}}"
        answer = self.dev.query(f'{{partitionBackfillOrError(backfillId: "{self.key}"){wanted}}}')
        return str(answer["partitionBackfillOrError"]["status"])

    def ended(self) -> str | None:
        """How it has ended; None before."""
        return status if (status := self.status()) in ENDED else None

    def runs(self, status: str) -> list[dict[str, Any]]:
        """Those of its runs with this status."""
        return self.dev.runs(self._condition(status))

    def count(self, *statuses: str) -> int:
        """The number of its runs with one of these statuses; of all without."""
        wanted = "{... on Runs{count}}"
        found = self.dev.query(f"{{runsOrError(filter: {self._condition(*statuses)}){wanted}}}")
        return int(found["runsOrError"]["count"])

    def seconds(self) -> list[float]:
        """How long each of its successful runs took, in order."""
        wanted = "{... on Runs{results{startTime endTime}}}"
        condition = self._condition("SUCCESS")
        runs = self.dev.query(f"{{runsOrError(filter: {condition}){wanted}}}")["runsOrError"]["results"]
        return sorted(run["endTime"] - run["startTime"] for run in runs)

    def _condition(self, *statuses: str) -> str:
        tags = f'tags: [{{key: "{BACKFILL}", value: "{self.key}"}}]'
        return f"{{{tags}, statuses: [{', '.join(statuses)}]}}" if statuses else f"{{{tags}}}"

    def kill_a_run(self) -> bool:
        """kill -9 of the run that is under way; whether Dagster knows that one has failed."""
        for run in self.runs("STARTED"):
            with dagster_instance(self.dev.folder) as instance:  # the webserver hides the tag
                known = instance.get_run_by_id(run["runId"])
            assert known is not None
            *_, pid, _ = known.tags[PROCESS].split()
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(int(pid)).kill()
        return self.count("FAILURE") > 0

    def failed_again(self) -> "Backfill":
        """A backfill of the partitions that failed: "Re-execute from failure"."""
        parameters = f'{{parentRunId: "{self.key}", strategy: FROM_FAILURE}}'
        return _launched(self.dev, f"reexecutePartitionBackfill(reexecutionParams: {parameters})")


def backfill(dev: Dev, mart: str, days: Sequence[str]) -> Backfill:
    """Launches one of the mart, over these days."""
    selection = f'assetSelection: [{{path: ["gold", "{mart}"]}}], partitionNames: {json.dumps(days)}'
    return _launched(dev, f"launchPartitionBackfill(backfillParams: {{{selection}}})")


def _launched(dev: Dev, mutation: str) -> Backfill:
    (answer,) = dev.query(f"mutation{{{mutation}{LAUNCHED}}}").values()
    assert "backfillId" in answer, answer
    return Backfill(dev, answer["backfillId"])
