"""Small lakes for tests: a configuration in a folder, and DMS files written by hand.

Here: shared parts of the tests. Not here: the demonstration source (`lake_assets.demo`), the oracle (`oracle.py`).
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.scan.discovery import discover
from lake_assets.config import LakeConfig
from lake_assets.config.spark import SESSION_ZONE
from lake_assets.gold.mart import Mart
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets.spark.connect.connect_address import connect_address
from lake_assets.storage.object_store import open_store
from lake_assets_tests.helpers.files.read_folder import read_changes

ITEMS = {
    "columns": {"id": "long not null", "name": "string", "price": "decimal(10, 2)", "at": "timestamptz"},
    "primary_key": ["id"],
    "quarantine": {"max_rows": 0},
}
"""A small keyed table, `public.items`, which stops at the first bad row."""

REMOTE = "LAKE_TEST_REMOTE"
"""The variable with the address of the tests' Spark Connect server, for all processes that use it."""


def spark_of_environment() -> dict[str, Any]:
    """The `spark` section of a lake on that server; empty where there is none."""
    return {"mode": "connect", "remote": os.environ[REMOTE]} if REMOTE in os.environ else {}


SPARK = spark_of_environment()
"""Where Spark is, if not in this process: see `conftest.py`."""

COMPILED = {"spark.sql.shuffle.partitions": 1, "spark.sql.codegen.wholeStage": False}
"""For tests of what a value means: Spark compiles its expressions."""

TINY = {
    **COMPILED,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Of a process that starts a Spark of its own; as in `conftest.py`.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
}
"""A dozen rows are done before the code that Spark would compile for them is. What is compiled is seen by the tests of
`bronze`, and by those of the demonstration, which compare thousands of changes with their source."""

UNSYNCED = {"jdbc.synchronous": "OFF"}
"""A property of catalogs in SQLite: Spark's commits do not wait for the disk. See `conftest.py`."""

DMS = {
    "add_column_name": True,
    "include_op_for_full_load": True,
    "timestamp_column_name": "commit_ts",
    "change_sequence_column": "change_seq",
    "before_image_prefix": "BI_",
}


def own_session(spark: SparkSession) -> SparkSession:
    """A session with separate settings, wherever Spark is."""
    if SPARK:
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        builder: Any = ConnectSession.Builder().channelBuilder(connect_address(SPARK["remote"]).builder())
        found: SparkSession = builder.create()
        return found
    return spark.newSession()


def lake_config(folder: Path, tables: dict[str, Any] | None = None, **sections: Any) -> LakeConfig:
    """A lake in `folder` with one source `shop`; `sections` replace or add to the configuration's top level.

    The catalog's name is its own, so that many lakes can share one Spark.
    """
    source: dict[str, Any] = {
        "location": str(folder / "bronze"),
        "dms": DMS,
        "tables": tables or {"public.items": ITEMS},
    }
    source |= sections.pop("source", {})
    spark: dict[str, Any] = {"conf": TINY} | SPARK | sections.pop("spark", {})
    zone = {name: value for name, value in spark["conf"].items() if name == SESSION_ZONE}
    spark["conf"] = {name: value for name, value in spark["conf"].items() if name != SESSION_ZONE}
    config = LakeConfig.model_validate(
        {
            "catalog": {
                "name": f"lake_{uuid4().hex[:8]}",
                "uri": str(folder / "catalog.db"),
                "warehouse": str(folder / "warehouse"),
                **UNSYNCED,
            },
            "sources": {"shop": source},
            "gold": {"start_date": "2026-03-01"},
            "spark": spark,
            **sections,
        }
    )
    # lake.yaml may not change the zone; the tests do, to see that nothing depends on it.
    conf = config.spark.conf | zone
    return config.model_copy(update={"spark": config.spark.model_copy(update={"conf": conf})})


def small_lake(
    folder: Path, tables: dict[str, Any] | None = None, marts: Sequence[Mart] = (), **sections: Any
) -> Lake:
    """An open lake over `lake_config`."""
    return open_lake(lake_config(folder, tables, **sections), marts=marts)


def read_of(lake: Lake, table: str) -> DataFrame:
    """The typed changes of a table (`schema.table`) in the files that one scan of `shop` finds."""
    source = lake.config.sources["shop"]
    store = open_store(source.location, source.s3)
    found = discover("shop", source, store, lake.runtime.file_log)
    spark = lake.runtime.sessions.root()
    return read_changes(spark, store, found.logged, name=table, table=source.tables[table], dms=source.dms)


def write_file(folder: Path, key: str, lines: Sequence[str]) -> Path:
    """Writes `bronze/<key>` under `folder` as DMS would: whole, or not at all."""
    path = folder / "bronze" / key
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    hidden.replace(path)
    return path


ITEMS_HEADER = "Op,commit_ts,id,name,price,at,change_seq,BI_id"


def sequence(number: int, day: int = 1) -> str:
    """An AR_H_CHANGE_SEQ: later for a higher number, and for a later day of March 2026."""
    return f"202603{day:02d}12000000{number:019d}"
