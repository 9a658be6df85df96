"""Rules about one figure of a table: equal to a figure of a mart's input, or near to its earlier values.

Not here: where the earlier values are (`orchestration/checks/data_checks.py`).
"""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from lake_assets.checks.data_check import VALUE, Outcome, Rule
from lake_assets.gold.mart import Mart
from lake_assets.gold.table_snapshots import newest_consumption
from lake_assets.iceberg.table_io import current_snapshot, load_table, table_at
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.sql import Sql, sql
from lake_assets.words import many

FEWEST = 3
"""The fewest earlier values to compare with."""
ROUNDING = 1e-9
"""The relative difference that two sums of the same doubles may have, because they add them in another order."""


def equals_input(mart: Mart, total: str, of: str, expected: str) -> Rule:
    """`total` of the mart is `expected` of its input `of`, at the snapshot of the input that the mart has consumed."""
    input_table = mart.tables[of].identifier

    def rule(runtime: LakeRuntime, earlier: Sequence[float]) -> Outcome:
        table = load_table(runtime.catalog, mart.identifier)
        newest, state = current_snapshot(table), newest_consumption(table)
        if newest is None or state is None:
            return Outcome(True, "The mart has no rows yet.")
        if state.pending:
            days = many(len(state.pending), state.grain)
            return Outcome(True, f"Not compared: {days} of the mart are still to be computed.")
        consumed = state.snapshots[input_table]
        of_input = load_table(runtime.catalog, input_table)
        if of_input is None or of_input.snapshot_by_id(consumed) is None:
            return Outcome(
                True, f"Not compared: {input_table} has expired the snapshot that the mart consumed."
            )
        found = _value(runtime, mart.identifier, newest.snapshot_id, total)
        wanted = _value(runtime, input_table, consumed, expected)
        sentence = f"{total} of {mart.identifier} is {found}, {expected} of {input_table} is {wanted}."
        return Outcome(_equal(found, wanted), sentence, {VALUE: _number(found), "expected": _number(wanted)})

    return rule


def drifts_less(identifier: str, total: str, share: float) -> Rule:
    """`total` differs from the median of its earlier values by at most `share` of the median."""

    def rule(runtime: LakeRuntime, earlier: Sequence[float]) -> Outcome:
        newest = current_snapshot(load_table(runtime.catalog, identifier))
        if newest is None:
            return Outcome(True, "The table has no rows yet.")
        found = _number(_value(runtime, identifier, newest.snapshot_id, total))
        figures = {VALUE: found} if found is not None else {}
        if found is None:
            return Outcome(True, f"{total} is NULL.")
        if len(earlier) < FEWEST:
            return Outcome(
                True, f"{total} is {found:g}; {FEWEST} earlier values are needed to compare.", figures
            )
        usual = statistics.median(earlier)
        sentence = f"{total} is {found:g}, the median of {len(earlier)} earlier values is {usual:g}."
        return Outcome(abs(found - usual) <= share * abs(usual), sentence, {**figures, "median": usual})

    return rule


def _value(runtime: LakeRuntime, identifier: str, snapshot: int, aggregate: str) -> Any:
    rows = table_at(runtime.lake.catalog.name, identifier, snapshot)
    query = sql("SELECT {aggregate}\n FROM ({rows})", aggregate=Sql(aggregate), rows=rows)
    (row,) = runtime.sessions.root().sql(query).collect()
    return row[0]


def _equal(found: Any, wanted: Any) -> bool:
    if isinstance(found, float) or isinstance(wanted, float):
        return None not in (found, wanted) and math.isclose(found, wanted, rel_tol=ROUNDING)
    return bool(found == wanted)


def _number(value: Any) -> float | None:
    return float(value) if value is not None else None
