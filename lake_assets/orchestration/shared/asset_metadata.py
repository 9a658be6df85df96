"""Definition metadata that every asset of the lake carries in the same form."""

from collections.abc import Iterable, Mapping
from typing import Any

import dagster as dg

from lake_assets.config import Column, LakeConfig, Mask
from lake_assets.spark.catalog_conf import warehouse_uri

NO_MASKS: Mapping[str, Mask] = {}


def table_metadata(
    lake: LakeConfig, identifier: str, columns: Iterable[Column], masks: Mapping[str, Mask] = NO_MASKS
) -> dict[str, Any]:
    """Under Dagster's names: table name (catalog.namespace.table), address, kind of storage, columns. `masks`: by
    column."""
    return {
        "dagster/table_name": f"{lake.catalog.name}.{identifier}",
        "dagster/uri": f"{warehouse_uri(lake.catalog)}/{identifier.replace('.', '/')}",
        "dagster/storage_kind": "iceberg",
        "dagster/column_schema": column_schema(columns, masks),
    }


def same_columns(upstream: dg.AssetKey, columns: Iterable[Column]) -> dg.TableColumnLineage:
    """The lineage of columns that are those of the upstream asset."""
    return dg.TableColumnLineage({c.name: [dg.TableColumnDep(upstream, c.name)] for c in columns})


def column_schema(columns: Iterable[Column], masks: Mapping[str, Mask] = NO_MASKS) -> dg.TableSchema:
    """The columns as the UI shows them, a masked one with the tag `mask`."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                c.name,
                c.type,
                constraints=dg.TableColumnConstraints(nullable=not c.required),
                tags={"mask": masks[c.name].value} if c.name in masks else {},
            )
            for c in columns
        ]
    )
