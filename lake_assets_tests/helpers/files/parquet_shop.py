"""Batches of Parquet changes for a shop, with the types of the files' columns."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from lake_assets_tests.helpers.files.dms_files import DmsFile
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, loaded
from lake_assets_tests.helpers.lakes.small_table import NEVER
from lake_assets_tests.helpers.reconcile.restored import restorer

TYPES = {"id": pa.int64(), "v": pa.string()}


def parquet(file: DmsFile) -> DmsFile:
    return replace(file, key=file.key.replace(".csv", ".parquet"))


def bench(folder: Path, table: dict[str, Any] = ITEMS, **more: Any) -> Bench:
    return Bench(folder, {"public.items": table}, sections=NEVER, **more)


def put(shop: Bench, *files: DmsFile, types: dict[str, pa.DataType] = TYPES) -> None:
    shop.put(*map(parquet, files), types=types)


def applied(shop: Bench, *files: DmsFile, types: dict[str, pa.DataType] = TYPES) -> Any:
    put(shop, *files, types=types)
    (batch,) = shop.apply()["items"]
    return batch


def four_rows(folder: Path) -> Callable[[], Bench]:
    """A shop with the rows 1 to 4, loaded once and restored for each test."""
    found = bench(folder)
    applied(found, loaded({1: "a", 2: "b", 3: "c", 4: "d"}))
    return restorer(found)
