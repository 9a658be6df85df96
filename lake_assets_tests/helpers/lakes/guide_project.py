"""The project of docs/own_assets.md: its module, and a lake for it.

Here: files in a folder, runs of its assets, and its tables.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from lake_assets_tests.helpers.lakes.small_lakes import SPARK, TINY, write_file

GUIDE = Path(__file__).parents[3] / "docs/own_assets.md"
LAKE: dict[str, Any] = {
    "catalog": {"name": "guide", "uri": "catalog.db", "warehouse": "warehouse"},
    "spark": {"conf": {name: str(value) for name, value in TINY.items()}},
    "sources": {
        "bikes": {
            "location": "bronze",
            "dms": {
                "add_column_name": True,
                "timestamp_column_name": "commit_ts",
                "include_op_for_full_load": True,
            },
            "tables": {
                "public.trips": {
                    "columns": {"id": "long not null", "bike_id": "long", "started_at": "timestamptz"},
                    "primary_key": ["id"],
                    "full_load_complete": "immediately",
                }
            },
        }
    },
}
TRIPS = [(1, 7, "2026-03-01 08:10:00"), (2, 7, "2026-03-01 08:50:00"), (3, 9, "2026-03-02 23:59:59")]


def load_of_trips() -> list[str]:
    """The lines of a full load of TRIPS."""
    rows = [f"I,2026-03-03 00:00:00,{id},{bike},{at}" for id, bike, at in TRIPS]
    return ["Op,commit_ts,id,bike_id,started_at", *rows]


def examples() -> list[str]:
    """The guide's Python code."""
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def spark_section(conf: Mapping[str, str] | None = None) -> dict[str, Any]:
    """That of a lake whose Spark is where the tests have theirs, with further settings."""
    return {"conf": LAKE["spark"]["conf"] | dict(conf or {})} | SPARK


def write_lake(folder: Path) -> None:
    """lake.yaml, and a full load of TRIPS."""
    (folder / "lake.yaml").write_text(yaml.safe_dump(LAKE | {"spark": spark_section()}))
    write_file(folder, "public/trips/LOAD00000001.csv", load_of_trips())


def run(defs: dg.Definitions, instance: dg.DagsterInstance, *keys: str, **arguments: Any) -> Any:
    job = defs.resolve_implicit_global_asset_job_def()
    selection = [dg.AssetKey(key.split("/")) for key in keys]
    return job.execute_in_process(instance=instance, asset_selection=selection, **arguments)


def tables() -> Catalog:
    return SqlCatalog("guide", uri="sqlite:///catalog.db", warehouse="warehouse")


def rows(identifier: str) -> list[dict[str, Any]]:
    return sorted(tables().load_table(identifier).scan().to_arrow().to_pylist(), key=str)
