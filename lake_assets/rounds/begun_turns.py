"""The turns of a call of `sync`, which begin before Dagster is imported and its run asks for their results.

Here: keeping results until they are asked for. Not here: a turn (`silver/apply/turn.py`), the threads
(`silver/apply/engine.py`).
"""

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from lake_assets.lake import Lake
from lake_assets.rounds.pending_work import Progress
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.engine import Turns
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.table.targets import Target


class BegunTurns:
    """Turns of all tables that have a batch. The caller closes them."""

    def __init__(self, lake: Lake, ready: Sequence[Target], bar: Progress) -> None:
        self._bar = bar
        self._turns = Turns(lake.runtime, self._show)
        self.began = time.perf_counter()
        self._kept: dict[str, TableResult] = {}
        self._failed: dict[str, Exception] = {}
        """By source, why its turns have not begun."""
        if ready:
            bar.begin("silver", len(ready))
        # One moment for all sources, and one source's failure is its own.
        as_of = datetime.now(UTC)
        for source in dict.fromkeys(target.source for target in ready):
            try:
                self._turns.begin([target for target in ready if target.source == source], as_of=as_of)
            except Exception as error:  # noqa: BLE001  (the step that asks for the results raises it)
                self._failed[source] = error

    def _show(self, target: Target, stage: str) -> None:
        if stage == "done":
            self._bar.done("silver")
        else:
            self._bar.stage("silver", f"{target.name}: {stage}")

    def results(
        self, runtime: LakeRuntime, targets: Sequence[Target], *, as_of: datetime | None = None
    ) -> Iterator[TableResult]:
        """The results of these tables as they complete; as `apply_tables`, but that all turns have begun already.
        Raises why the turns of a source could not begin."""
        for target in targets:
            if (error := self._failed.get(target.source)) is not None:
                raise error
        wanted = {target.identifier for target in targets}
        for name in wanted & self._kept.keys():
            yield self._kept.pop(name)
        for result in self._turns.finished():
            if result.target.identifier in wanted:
                yield result
            else:
                self._kept[result.target.identifier] = result

    def close(self) -> None:
        """Ends the turns after their present batches."""
        self._turns.close()
