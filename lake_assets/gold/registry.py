"""The marts that lake.yaml names, and what they need from silver.

Here: importing them, and the columns that silver must track for them. Not here: Dagster
(`orchestration/assets/mart_assets.py`).
"""

import importlib
from collections.abc import Sequence

from lake_assets.config import LakeConfig, Mode
from lake_assets.errors import LakeError
from lake_assets.gold.mart import Mart
from lake_assets.silver.table.targets import lake_targets

FORMER_NAMES = {
    f"lake_assets.gold.{name}": f"lake_assets.demo.marts.{name}"
    for name in ("racks_empty_now", "station_daily", "trip_revenue_daily")
}
"""Former modules of marts, which an older lake.yaml may name."""
DAY_TYPES = ("timestamptz", "timestamp", "date")


def load_marts(lake: LakeConfig) -> list[Mart]:
    """The `MART` of every module that `gold.marts` names. Raises LakeError naming a module that has none."""
    marts = []
    for module in lake.gold.marts:
        try:
            mart = importlib.import_module(FORMER_NAMES.get(module, module)).MART
        except (ImportError, AttributeError) as error:
            raise LakeError(
                f"gold.marts: {module} cannot be used as a mart: {error}. It must define MART."
            ) from error
        marts.append(mart)
    return marts


def tracked_columns(marts: Sequence[Mart], lake: LakeConfig) -> dict[tuple[str, str], tuple[str, ...]]:
    """By (source, silver table), the columns whose touched days silver must record in its commits: those that a mart
    follows and by which the table is not partitioned. Raises LakeError for inputs that the lake does not have."""
    targets = {(target.source, target.name): target for target in lake_targets(lake)}
    wanted: dict[tuple[str, str], set[str]] = {}
    for mart in marts:
        for rule in mart.rules:
            target = targets.get((rule.source, rule.table))
            if target is None:
                raise LakeError(f"{mart.identifier} reads {rule.identifier}, which lake.yaml does not have.")
            if rule.column is None:
                continue
            types = {column.name: column.type for column in target.columns}
            if types.get(rule.column) not in DAY_TYPES:
                raise LakeError(
                    f"{mart.identifier} follows {rule.column} of {rule.identifier}, which is "
                    f"{types.get(rule.column, 'no column of it')}: days need one of {', '.join(DAY_TYPES)}."
                )
            if f"day({rule.column})" not in target.partition_by and target.mode is Mode.CURRENT:
                wanted.setdefault((rule.source, rule.table), set()).add(rule.column)
    return {key: tuple(sorted(columns)) for key, columns in wanted.items()}
