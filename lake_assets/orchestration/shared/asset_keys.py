"""Asset keys of bronze, and the tables of assets. Not here: the assets."""

import dagster as dg

from lake_assets.config import SourceConfig


def bronze_key(source_name: str, source: SourceConfig, table: str) -> dg.AssetKey:
    """The bronze asset of a source table (`schema.table`)."""
    return dg.AssetKey(["bronze", source_name, source.silver_name(table)])


def table_identifier(key: dg.AssetKey) -> str:
    """`namespace.table` of an asset key."""
    *layers, name = key.path
    return f"{'_'.join(layers) or 'default'}.{name}"
