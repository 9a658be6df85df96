"""A lake with a mart, which the continuous run keeps current."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.gold.mart import Input, Mart, MartRequest
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.orchestration.runs.continuous_run import Continuous
from lake_assets.orchestration.shared.asset_metadata import figures_of
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file
from lake_assets_tests.helpers.lakes.bench import Bench

ITEMS, NOTES = "public.items", "public.notes"
TABLE = {"columns": {"id": "long not null", "v": "string"}, "primary_key": ["id"]}


def count(request: MartRequest) -> Any:
    """How many items there are, and as of when."""
    return request.inputs["items"].agg(F.count(F.lit(1)).alias("items"), F.lit(request.now).alias("as_of"))


ITEMS_NOW = Mart(
    name="items_now",
    description="How many there are.",
    inputs={"items": Input("shop", "items")},
    columns=(parse_column("items", "long"), parse_column("as_of", "timestamptz")),
    compute=count,
    partition_column=None,
)


class Kept:
    """A lake with two tables and a mart that is kept current."""

    def __init__(
        self,
        folder: Path,
        marts: Sequence[Mart] = (ITEMS_NOW,),
        notes: Mapping[str, Any] = TABLE,
        **automation: Any,
    ) -> None:
        sections = {"automation": {"continuous": True, **automation}}
        self.bench = Bench(folder, {ITEMS: TABLE, NOTES: notes}, sections=sections)
        self.bench.lake = open_lake(self.bench.lake.config, marts=marts)
        self.instance = dg.DagsterInstance.ephemeral()
        self.clock, self.now = Clock(), 0.0
        lake = self.bench.lake
        self.rounds = Continuous(
            lake.runtime, "shop", lake.targets, lake.marts, self.instance, lambda: self.now
        )

    def put(self, table: str, *numbers: int) -> None:
        """A file with new rows of these keys."""
        self.change(table, *(("I", {"id": number, "v": "new"}) for number in numbers))

    def change(self, table: str, *changes: tuple[str, dict[str, Any]]) -> None:
        """A file with changes, as operation and values."""
        rows = [self.clock.change(op, values) for op, values in changes]
        self.bench.put(cdc_file(table, self.clock.now, rows))

    def items(self) -> int:
        """The mart's figure."""
        table = self.bench.lake.runtime.catalog.load_table("gold.items_now")
        (row,) = table.scan().to_arrow().to_pylist()
        return int(row["items"])

    def branches(self) -> dict[str, int]:
        """The number of branches of each table besides main."""
        catalog = self.bench.lake.runtime.catalog
        names = ("silver_shop.items", "gold.items_now")
        return {name: len(catalog.load_table(name).refs()) - 1 for name in names}

    def told(self) -> dict[str, dict[str, Any]]:
        """By table, the metadata of the events that the run would report now."""
        return {
            event.asset_key.to_user_string(): figures_of(event.metadata)
            for event in self.rounds.events()
            if isinstance(event, dg.AssetMaterialization)
        }
