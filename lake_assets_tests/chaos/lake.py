"""The lake of the chaos test: the demonstration's tables, a bucket, a queue, a Spark Connect server.

Here: its lake.yaml. Not here: its disturbances (`disturbances.py`).
"""

from datetime import date
from pathlib import Path
from typing import Any

import yaml

from lake_assets_tests.chaos.storage import BUCKET, Storage
from lake_assets_tests.helpers.lakes.small_lakes import TINY
from lake_assets_tests.helpers.processes.child import ROOT
from lake_assets_tests.helpers.servers.s3 import ACCESS, files_in_s3

SOURCE = "bikeshare"
PREFIX = "dms/"


def write_lake(folder: Path, storage: Storage, remote: str, start: date, *, continuous: bool) -> Path:
    """The shipped lake.yaml with everything but the catalog behind the storage's disturbed port; the file."""
    endpoint = storage.disturbed
    lake: dict[str, Any] = yaml.safe_load((ROOT / "lake.yaml").read_text())
    lake["catalog"] = {
        "name": "lake",
        "type": "sqlite",
        "uri": str(folder / "catalog.db"),
        "warehouse": f"s3://{BUCKET}/warehouse",
    } | files_in_s3(endpoint)
    lake["spark"] = {
        "mode": "connect",
        "remote": remote,
        "master": "local[2]",
        "conf": {"spark.driver.memory": "2g", **TINY},
    }
    access = ACCESS | {"endpoint": endpoint}
    source = lake["sources"][SOURCE]
    source |= {
        "location": f"s3://{BUCKET}/{PREFIX.rstrip('/')}",
        "s3": access | {"path_style": True},
        "notifications": access | {"queue_url": storage.queue},
    }
    lake["gold"]["start_date"] = start
    lake["automation"] = {"continuous": {"daily_marts_every": "30s"}} if continuous else {}
    path = folder / "lake.yaml"
    path.write_text(yaml.safe_dump(lake, sort_keys=False))
    return path
