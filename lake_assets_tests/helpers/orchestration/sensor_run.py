"""The sensor of files of a lake's one source ticks, what it requests runs, and it ticks again: `python -m … LAKE_YAML`.

A process of its own, because what it runs starts Spark.
"""

import sys
import time
from pathlib import Path

import dagster as dg

from lake_assets.config.config_file import load_lake
from lake_assets.lake import open_lake
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets_tests.helpers.orchestration.dagster_shop import Shop

PATIENCE = 60
"""Seconds until a run must have been requested."""


def main(lake_yaml: Path) -> None:
    lake = open_lake(load_lake(lake_yaml))
    with dg.DagsterInstance.ephemeral() as instance:
        shop = Shop(Path(), lake, Path(), instance, build_definitions(lake))
        (source,) = lake.config.sources
        end = time.monotonic() + PATIENCE
        # On a busy machine, the first scan outlasts a tick.
        while not (requests := shop.tick(f"{source}_files").run_requests or ()):
            assert time.monotonic() < end, "no tick has requested a run"
        [request] = requests
        assert shop.run(request).success
        assert not shop.tick(f"{source}_files").run_requests


if __name__ == "__main__":
    main(Path(sys.argv[1]))
