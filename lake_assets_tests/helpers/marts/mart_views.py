"""Tables of silver and a mart that PyIceberg writes, and what a look at them makes stale: no Spark.

Here: writing them as the engine and as a run leave them. Not here: the cases (`gold/view/`).
"""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from lake_assets.config import GoldConfig, parse_column
from lake_assets.gold.consumption import Consumption, fingerprint
from lake_assets.gold.mart import Follow, Input, Mart
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.gold.view import MartView, mart_view

ARROW = {
    "id": pa.int32(),
    "at": pa.timestamp("us", tz="UTC"),
    "ended": pa.timestamp("us", tz="UTC"),
    "local": pa.timestamp("us"),
    "born": pa.date32(),
}
NOW = datetime(2024, 3, 9, 18, tzinfo=UTC)
GOLD = GoldConfig(start_date=date(2024, 3, 1), settings={"limit": 30})
POSITION = {
    "lake.log-offset": "7",
    "lake.epoch": "1",
    "lake.max-sequence": "1",
    "lake.max-commit-ts": NOW.isoformat(),
}


def at(day: int, hour: int = 12) -> datetime:
    """A time in March 2024."""
    return datetime(2024, 3, day, hour, tzinfo=UTC)


def mart(*rules: Input, partition_column: str | None = "day") -> Mart:
    """A mart by day with these inputs, or one without partitions."""
    return Mart(
        name="mart",
        description="",
        inputs={rule.table + (rule.column or ""): rule for rule in rules},
        columns=(parse_column("day", "date"),),
        compute=lambda request: request.inputs["x"],
        partition_column=partition_column,
    )


DAILY = mart(Input("shop", "trips", Follow.DAY, "at"))


def create(catalog: Catalog, name: str, **properties: str) -> Table:
    """A table of silver."""
    schema = pa.schema(list(ARROW.items()))
    return catalog.create_table(
        f"silver_shop.{name}", schema, properties={"format-version": "2", **properties}
    )


def append(table: Table, *rows: dict[str, Any], **properties: str) -> None:
    """One commit as the engine's last one of a batch."""
    touched = ",".join(sorted({str(row["at"].date()) for row in rows if row.get("at")}))
    given = POSITION | {"lake.touched-days.at": touched} | properties
    columns = {name: [row.get(name) for row in rows] for name in ARROW}
    arrow = pa.table(columns, schema=pa.schema(list(ARROW.items())))
    table.append(arrow, snapshot_properties={n: v for n, v in given.items() if v})


def computed(catalog: Catalog, state: Consumption, *held: date) -> None:
    """The mart as a run leaves it."""
    schema = pa.schema([("day", pa.date32())])
    if not catalog.table_exists("gold.mart"):
        table = catalog.create_table("gold.mart", schema)
        with table.update_spec() as spec:
            spec.add_field("day", IdentityTransform(), "day")
    table = catalog.load_table("gold.mart")
    if not state.settings:
        state = replace(state, settings=fingerprint(GOLD.settings))
    table.overwrite(pa.table({"day": list(held)}, schema=schema), snapshot_properties=state.properties())


def view(catalog: Catalog, of: Mart = DAILY) -> MartView | None:
    """What a look at the mart would compute."""
    return mart_view(LoadedTables(catalog), of, GOLD)


def numbers(found: MartView | None) -> list[int]:
    """Days of March 2024 to be computed."""
    assert found is not None
    assert found.stale == bool(found.work)
    return [(day - date(2024, 2, 29)).days for day in found.work]


def head(catalog: Catalog, name: str = "trips") -> dict[str, int]:
    """The newest snapshot of a table."""
    current = catalog.load_table(f"silver_shop.{name}").current_snapshot()
    assert current is not None
    return {f"silver_shop.{name}": current.snapshot_id}


def work(catalog: Catalog, of: Mart) -> list[Any]:
    """The periods to be computed."""
    found = view(catalog, of)
    assert found is not None
    return list(found.work)
