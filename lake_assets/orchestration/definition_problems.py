"""The parts of a lake's configuration that Dagster refuses, for `lake-assets validate`."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from lake_assets.config.base import Keys
from lake_assets.lake import Lake
from lake_assets.orchestration.lake_definitions import build_definitions


def refused_owners(lake: Lake) -> Iterator[tuple[Keys, str]]:
    """Owners and tags that Dagster refuses."""
    for name, source in lake.config.sources.items():
        places: list[tuple[Keys, dict[str, Any]]] = [(("sources", name, "owners"), {"owners": source.owners})]
        for table, config in source.tables.items():
            place = ("sources", name, "tables", table)
            places.append(((*place, "owners"), {"owners": config.owners}))
            places.append(((*place, "tags"), {"tags": config.tags}))
        for keys, given in places:
            try:
                dg.AssetSpec("asset", **given)
            except dg.DagsterInvalidDefinitionError as error:
                yield keys, str(error).replace(" for asset 'AssetKey(['asset'])'", "")


def refused_definitions(lake: Lake) -> str | None:
    """Why Dagster refuses the lake's definitions, if it does."""
    try:
        dg.Definitions.validate_loadable(build_definitions(lake))
    except dg.DagsterError as error:
        return f"Dagster refuses the definitions: {error}"
    return None
