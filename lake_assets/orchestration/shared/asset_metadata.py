"""Metadata that every asset of the lake carries in the same form: of its definition, and of its events."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import dagster as dg

from lake_assets.config import Column, LakeConfig, Mask
from lake_assets.orchestration.shared.links import bucket_link
from lake_assets.spark.catalog_conf import warehouse_uri

NONE: Mapping[str, str] = MappingProxyType({})
NO_MASKS: Mapping[str, Mask] = MappingProxyType({})
DETAILS = "details"
"""Metadata of an event: the figures that the UI shows only when the entry is expanded."""
STAGES = "seconds_by_stage"
STAGE = "seconds_"
"""How the name of a stage's seconds begins."""


def grouped(figures: Mapping[str, Any], shown: Collection[str]) -> dict[str, Any]:
    """An event's metadata, without the figures that are zero. The figures of `shown` and Dagster's own are entries of
    their own, so that the UI plots them. The seconds of the stages are in one entry, and all others in DETAILS."""
    chosen: dict[str, Any] = {}
    stages: dict[str, Any] = {}
    details: dict[str, Any] = {}
    for name, value in figures.items():
        if name.startswith("dagster/") or (name in shown and not _is_nothing(value)):
            chosen[name] = value
        elif _is_nothing(value):
            continue
        elif name.startswith(STAGE):
            stages[name.removeprefix(STAGE)] = value
        else:
            details[name] = value
    if stages:
        chosen[STAGES] = dg.MetadataValue.json(stages)
    if details:
        chosen[DETAILS] = dg.MetadataValue.json(details)
    return chosen


def figures_of(metadata: Mapping[str, dg.MetadataValue[Any]]) -> dict[str, Any]:
    """All figures of an event that was `grouped`, by their original names; those that were zero are missing."""
    found = {name: value.value for name, value in metadata.items() if name not in (DETAILS, STAGES)}
    for group, prefix in ((STAGES, STAGE), (DETAILS, "")):
        entry = metadata[group].value if group in metadata else {}
        found |= {f"{prefix}{name}": value for name, value in entry.items()}
    return found


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float, str)) and not value)


def table_metadata(
    lake: LakeConfig,
    identifier: str,
    columns: Iterable[Column],
    comments: Mapping[str, str] = NONE,
    masks: Mapping[str, Mask] = NO_MASKS,
) -> dict[str, Any]:
    """Under Dagster's names: table name (catalog.namespace.table), address, kind of storage, columns; and the link to
    the table's files. `comments` and `masks`: by column."""
    address = f"{warehouse_uri(lake.catalog)}/{identifier.replace('.', '/')}"
    return {
        "dagster/table_name": f"{lake.catalog.name}.{identifier}",
        "dagster/uri": address,
        "dagster/storage_kind": "iceberg",
        "dagster/column_schema": column_schema(columns, comments, masks),
        **bucket_link(address, lake.catalog.properties.get("s3.endpoint")),
    }


def same_columns(upstream: dg.AssetKey, columns: Iterable[Column]) -> dg.TableColumnLineage:
    """The lineage of columns that are the same as the upstream asset's."""
    return dg.TableColumnLineage({c.name: [dg.TableColumnDep(upstream, c.name)] for c in columns})


def column_schema(
    columns: Iterable[Column], comments: Mapping[str, str] = NONE, masks: Mapping[str, Mask] = NO_MASKS
) -> dg.TableSchema:
    """The columns as the UI shows them, a masked one with the tag `mask`."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                c.name,
                c.type,
                description=comments.get(c.name),
                constraints=dg.TableColumnConstraints(nullable=not c.required),
                tags={"mask": masks[c.name].value} if c.name in masks else {},
            )
            for c in columns
        ]
    )
