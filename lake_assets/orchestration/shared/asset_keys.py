"""The keys of the lake's assets, the names of its sensors and jobs, and the tables of assets. Not here: the assets.

Dagster finds runs by the name of a job, and events by the key of an asset, in all code locations of an instance. Every
key and name that is looked up therefore begins with `asset_key_prefix` of lake.yaml: what the lake finds is its own.
"""

from collections.abc import Sequence

import dagster as dg

from lake_assets.config import LakeConfig


def bronze_key(lake: LakeConfig, source: str, table: str) -> dg.AssetKey:
    """The bronze asset of a source table (`schema.table`)."""
    return dg.AssetKey([*lake.key_prefix, "bronze", source, lake.sources[source].silver_name(table)])


def prefixed(lake: LakeConfig, name: str) -> str:
    """The name of a sensor or job of the lake."""
    return "_".join((*lake.key_prefix, name))


def without_prefix(key: dg.AssetKey, prefix: Sequence[str]) -> list[str]:
    """The parts of a key after the lake's prefix, if it begins with it."""
    path = list(key.path)
    return path[len(prefix) :] if path[: len(prefix)] == list(prefix) else path


def table_identifier(key: dg.AssetKey, prefix: Sequence[str]) -> str:
    """`namespace.table` of an asset key. A key with the lake's prefix and one without it are the same table: the prefix
    is for Dagster."""
    *layers, name = without_prefix(key, prefix)
    return f"{'_'.join(layers) or 'default'}.{name}"
