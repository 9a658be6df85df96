"""The tables of own assets: assets of the user's own project, which the IO manager stores in the lake's catalog.

lake.yaml does not name them. So each table has the key of its asset as a property, by which maintenance finds it. Here:
finding them. Not here: storing their rows (`write_mart.py`).
"""

import logging
import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from cachetools import TTLCache
from pyiceberg.catalog import Catalog

from lake_assets.iceberg.ops_table import NAMESPACE
from lake_assets.iceberg.table_io import load_table, tables_in

ASSET = "lake.asset"
"""Property of the table of an own asset: the asset's key, with `/` between its parts."""
_known: TTLCache[tuple[str, str], str | None] = TTLCache(100_000, ttl=24 * 60 * 60)
"""By catalog and table, the key of the own asset that it is of: each table is loaded once a day."""
_lock = threading.Lock()
_AT_ONCE = 16
"""Requests to the catalog at the same time."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OwnTable:
    """The table of an own asset."""

    identifier: str
    asset_key: tuple[str, ...]


def own_tables(catalog: Catalog, others: Collection[str]) -> list[OwnTable]:
    """The tables of own assets that the catalog has, by name. `others`: tables of the lake, which are none. Takes a
    request for each namespace, and one for each table that this process has not looked at for a day. A table that
    cannot be read is none."""
    try:
        spaces = {".".join(each) for each in catalog.list_namespaces()} - {NAMESPACE}
        names = sorted(set[str]().union(*(tables_in(catalog, space) for space in spaces)) - {*others})
    except Exception as error:  # noqa: BLE001  (a right that nothing else needs)
        logger.warning(
            "own assets' tables are left out of maintenance: the catalog's list of tables: %s", error
        )
        return []
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="own") as threads:
        keys = threads.map(partial(_asset_key, catalog), names)
        return [OwnTable(name, tuple(key.split("/"))) for name, key in zip(names, keys, strict=True) if key]


def _asset_key(catalog: Catalog, identifier: str) -> str | None:
    place = catalog.name, identifier
    with _lock:
        if place in _known:
            return _known[place]
    try:
        table = load_table(catalog, identifier)
    except Exception as error:  # noqa: BLE001  (it may be anybody's)
        logger.debug("%s cannot be read: %s", identifier, error)
        table = None
    found = table.properties.get(ASSET) if table is not None else None
    with _lock:
        _known[place] = found
    return found
