"""A lake in Glue whose tables PyIceberg writes, and which Snowflake shows: no Spark is needed.

Here: its lake.yaml, and commits. Not here: the account (`snowflake_account.py`).
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from lake_assets.config.config_file import load_lake
from lake_assets.lake import Lake, open_lake
from lake_assets.silver.table.position import Position
from lake_assets_tests.helpers.servers.glue import tables_in_glue

ROLE = "arn:aws:iam::123456789012:role/snowflake"
SECRET = "c3b7e2a9-not-in-any-message"
ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False)])


def raw(endpoint: str, bucket: str, folder: Path, **snowflake: Any) -> dict[str, Any]:
    """A lake.yaml; `snowflake` replaces settings of the warehouse."""
    tables = {
        f"public.{name}": {"primary_key": ["id"], "columns": {"id": "long not null"}}
        for name in ("orders", "items")
    }
    return {
        "catalog": tables_in_glue(endpoint, f"s3://{bucket}/warehouse"),
        "format_version": 2,
        "sources": {"shop": {"location": str(folder / "bronze"), "tables": tables}},
        "warehouses": {
            "snowflake": {"role_arn": ROLE, "connect": {"account": "xy12345", "password": SECRET}} | snowflake
        },
    }


def lake_of(given: dict[str, Any], folder: Path) -> Lake:
    """The lake of a lake.yaml that is written to the folder."""
    (folder / "bronze").mkdir(exist_ok=True)
    (folder / "lake.yaml").write_text(yaml.safe_dump(given), encoding="utf-8")
    return open_lake(load_lake(folder / "lake.yaml"))


def commit(lake: Lake, name: str, row: int = 1) -> None:
    """Appends a row to a table, which it creates, with the position of a table without files."""
    catalog = lake.runtime.catalog
    namespace = name.split(".")[0]
    catalog.create_namespace_if_not_exists(namespace)
    table = catalog.create_table_if_not_exists(name, ROWS)
    table.append(pa.table({"id": [row]}, ROWS), snapshot_properties=Position().properties())
