"""Marts that read whole transactions: all inputs at the newest consistent cut for which each of them has a tag.

Here: finding those snapshots, and refusing marts without a common cut. Not here: tagging (`silver/apply/cut_tags.py`).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from pyiceberg.table import Table

from lake_assets.config import LakeConfig
from lake_assets.errors import LakeError
from lake_assets.gold.mart import Mart
from lake_assets.silver.apply.cut_tags import cut_tags


def newest_cut(tables: Mapping[str, Table]) -> tuple[datetime, dict[str, int]] | None:
    """The newest cut at which all the tables are tagged, and the snapshot of each; None while there is no such cut."""
    tagged = {name: cut_tags(table) for name, table in tables.items()}
    common = set.intersection(*(set(cuts) for cuts in tagged.values())) if tagged else set()
    if not common:
        return None
    newest = max(common)
    return newest, {name: cuts[newest] for name, cuts in tagged.items()}


def refuse_impossible_cuts(marts: Sequence[Mart], lake: LakeConfig) -> None:
    """Raises LakeError for a mart whose inputs have no cut in common."""
    for mart in marts:
        if not mart.at_cut:
            continue
        if len(mart.sources) > 1:
            raise LakeError(
                f"{mart.identifier} reads at the consistent cut of {' and '.join(mart.sources)}: two sources have no "
                "cut in common. Remove at_cut, or make a mart for each source."
            )
        (source,) = mart.sources
        if source in lake.sources and lake.sources[source].consistent_cut is None:
            raise LakeError(
                f"{mart.identifier} reads at the consistent cut of {source}, which has none: add consistent_cut to "
                f"sources.{source} in lake.yaml, with the endpoint's CdcMaxBatchInterval as interval."
            )
