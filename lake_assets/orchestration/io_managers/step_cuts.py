"""The newest consistent cut of a step: all of its inputs of a source are read at the same cut as long as the step runs.

Tables are tagged one after the other, also while a step loads its inputs, and a table that is behind lacks the newest
tags. If each input were read at its own newest cut, they would not show the same transactions. Here: choosing the cut.
Not here: reading at it (`table_values.py`), marts (`gold/at_cut.py`).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import dagster as dg

from lake_assets.gold.at_cut import newest_cut
from lake_assets.iceberg.table_io import load_table
from lake_assets.orchestration.dagster_private import step_inputs
from lake_assets.orchestration.io_managers.table_values import CUT, NEWEST
from lake_assets.orchestration.shared.asset_keys import table_identifier
from lake_assets.runtime import LakeRuntime


class StepCuts:
    """The cuts that the steps of one run have begun to read."""

    def __init__(self, runtime: LakeRuntime) -> None:
        self._runtime = runtime
        self._chosen: dict[tuple[str, tuple[str, ...]], datetime] = {}

    def metadata(self, context: dg.InputContext) -> Mapping[str, object]:
        """The input's metadata, with the time of the step's cut instead of `newest`. Raises
        DagsterInvariantViolationError if the inputs have no cut in common, or Dagster does not say which they are."""
        given = context.definition_metadata
        if given.get(CUT) != NEWEST:
            return given
        try:
            ins = context.op_def.ins.items()
            step = step_inputs(context)
        except dg.DagsterInvariantViolationError:
            return given  # an input without a step, as in a test of the IO manager
        asking = [each for each, of in ins if (of.metadata or {}).get(CUT) == NEWEST]
        if step is None:
            if len(asking) == 1:
                return given
            raise dg.DagsterInvariantViolationError(
                f"Dagster {dg.__version__} does not say which tables {context.op_def.name} reads by its inputs "
                f"{' and '.join(asking)}, so that they have no cut in common: name a time instead of {NEWEST!r} in "
                f"their metadata {CUT!r}"
            )
        source, (name, keys) = tuple(context.asset_key.path[:-1]), step
        if (name, source) not in self._chosen:
            of_source = [key for each in asking if (key := keys[each]) and tuple(key.path[:-1]) == source]
            self._chosen[name, source] = self._newest(
                [table_identifier(key, self._runtime.lake.key_prefix) for key in of_source]
            )
        return {**given, CUT: self._chosen[name, source].isoformat()}

    def _newest(self, names: Sequence[str]) -> datetime:
        tables = {
            name: table for name in names if (table := load_table(self._runtime.catalog, name)) is not None
        }
        if (found := newest_cut(tables)) is None:
            raise dg.DagsterInvariantViolationError(
                f"{' and '.join(tables)} have no consistent cut in common, which the inputs' metadata {CUT!r} asks for"
            )
        return found[0]
