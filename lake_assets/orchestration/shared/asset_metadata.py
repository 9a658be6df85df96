"""Definition metadata that every asset of the lake carries in the same form."""

from collections.abc import Iterable
from typing import Any

import dagster as dg

from lake_assets.config import Column, LakeConfig
from lake_assets.spark.catalog_conf import warehouse_uri


def table_metadata(lake: LakeConfig, identifier: str, columns: Iterable[Column]) -> dict[str, Any]:
    """Under Dagster's names: table name (catalog.namespace.table), address, kind of storage, columns."""
    return {
        "dagster/table_name": f"{lake.catalog.name}.{identifier}",
        "dagster/uri": f"{warehouse_uri(lake.catalog)}/{identifier.replace('.', '/')}",
        "dagster/storage_kind": "iceberg",
        "dagster/column_schema": column_schema(columns),
    }


def same_columns(upstream: dg.AssetKey, columns: Iterable[Column]) -> dg.TableColumnLineage:
    """The lineage of columns that are those of the upstream asset."""
    return dg.TableColumnLineage({c.name: [dg.TableColumnDep(upstream, c.name)] for c in columns})


def column_schema(columns: Iterable[Column]) -> dg.TableSchema:
    """The columns as the UI shows them."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(c.name, c.type, constraints=dg.TableColumnConstraints(nullable=not c.required))
            for c in columns
        ]
    )
