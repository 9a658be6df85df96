"""A bench's lake, opened again by a separate process."""

from pathlib import Path
from typing import Any

from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets_tests.helpers.lakes.bench import AT_ONCE, Bench
from lake_assets_tests.helpers.lakes.small_lakes import SPARK, lake_config


def same_lake(bench: Bench) -> dict[str, Any]:
    """What `open_same_lake` takes for the bench's lake and its table `public.items`; fit for JSON."""
    catalog = bench.lake.config.catalog
    assert catalog.uri is not None
    return {
        "folder": str(bench.folder),
        "tables": {"public.items": AT_ONCE | dict(bench.tables["public.items"])},
        "dms": bench.dms,
        "catalog": {
            "name": catalog.name,
            "uri": catalog.uri.get_secret_value(),
            "warehouse": catalog.warehouse,
        },
        "spark": SPARK or {"master": "local[1]", "conf": {"spark.driver.memory": "700m"}},
    }


def open_same_lake(given: dict[str, Any], **sections: Any) -> Lake:
    """The lake, on the tests' server or with a small Spark of its own; `sections` are added to its configuration."""
    config = lake_config(
        Path(given["folder"]),
        given["tables"],
        source={"dms": given["dms"]},
        catalog=given["catalog"],
        spark=given["spark"],
        **sections,
    )
    return open_lake(config, marts=())
