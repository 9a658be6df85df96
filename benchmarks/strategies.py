"""`python -m benchmarks.strategies`: batches of smaller tables, rewritten, marked, and as the lake chooses.

A batch rewrites a table or marks its rows as deleted; `rewrite_below_mb` and the lake's limits force one of the two
here. In each way, tables with the same rows get the same batches. The ratio is the time of the automatic choice to that
of the faster forced way; the goal is 1.15. Here: the measurement. Not here: other ways to apply a batch
(`large_tables`).
"""

import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from benchmarks.large_tables.bench import Bench, assert_same, opened, options
from benchmarks.large_tables.contenders import Product
from benchmarks.large_tables.results import PRODUCT
from benchmarks.large_tables.workloads import Source, Workload
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.silver.write import final_commit, write_edit

AUTOMATIC, REWRITTEN, MARKED = PRODUCT, "rewritten", "marked"
FORCED = {AUTOMATIC: {}, REWRITTEN: {"rewrite_below_mb": 1e9}, MARKED: {"rewrite_below_mb": 0}}
"""By way, its settings of `automation`."""
ROWS = (2_000, 20_000, 60_000, 120_000, 180_000, 1_000_000)
WORKLOADS = (Workload("200 changes", 200, files=1), Workload("10,000 changes", 10_000, files=1))
WARM_UPS = 5


def measure(bench: Bench, given: Namespace) -> None:
    """Prints a line for each size and workload."""
    bench.warm_up()
    heads = ["rows", "batch", "automatic s", "strategy", "rewritten s", "marked s", "automatic / faster"]
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for rows in ROWS:
        sources = {way: Source(bench.bronze, rows, _name(way, rows)) for way in FORCED}
        products = {way: _product(bench, way, rows) for way in FORCED}
        for way, product in products.items():
            product.load(sources[way].load(files=1))
        for workload in WORKLOADS:
            _repeat(bench, rows, workload, sources, products, given.repeat)
        tables = {way: product.rows(bench.spark) for way, product in products.items()}
        assert_same(tables, len(sources[AUTOMATIC].alive))


def _name(way: str, rows: int) -> str:
    return f"{way}_{rows}"


def _product(bench: Bench, way: str, rows: int) -> Product:
    config = bench.lake.config
    automation = config.automation.model_copy(update=FORCED[way])
    lake = open_lake(config.model_copy(update={"automation": automation}), marts=())
    lake.runtime.branches = bench.lake.runtime.branches
    return Product(lake, [target for target in lake.targets if target.name == _name(way, rows)])


@contextmanager
def _without_limit(way: str, rows: int) -> Iterator[None]:
    """Rewrites a table of so many rows, by several tasks if the lake would not rewrite it."""
    if way != REWRITTEN or rows <= write_edit.SMALL_ROWS:
        yield
        return
    with patch.object(write_edit, "SMALL_ROWS", sys.maxsize), patch.object(final_commit, "SMALL_ROWS", 0):
        yield


def _repeat(
    bench: Bench,
    rows: int,
    workload: Workload,
    sources: dict[str, Source],
    products: dict[str, Product],
    times: int,
) -> None:
    name = f"{workload.name} of {rows:,} rows"
    for number in range(WARM_UPS + times):
        # Each round begins with another way.
        for way in [*FORCED][number % 3 :] + [*FORCED][: number % 3]:
            # A scan finds the files of all tables, so the files of the next way must not be there yet.
            changes = sources[way].changes(workload)
            with _without_limit(way, rows):
                taken = bench.measured(products[way].apply, changes)
            if number >= WARM_UPS:
                bench.results.note(name, way, taken)
    seconds = {way: bench.results.seconds(name, way) for way in FORCED}
    faster = min(seconds[REWRITTEN], seconds[MARKED])
    strategy = "/".join(batch.strategy for batch in products[AUTOMATIC].results)
    cells = [f"{rows:,}", workload.name, f"{seconds[AUTOMATIC]:.2f}", strategy]
    cells += [f"{seconds[REWRITTEN]:.2f}", f"{seconds[MARKED]:.2f}", f"{seconds[AUTOMATIC] / faster:.2f}"]
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """The command line."""
    given = options(__doc__, rows=max(ROWS), repeat=9, memory="3g").parse_args()
    with opened("strategies", given, [_name(way, rows) for way in FORCED for rows in ROWS]) as bench:
        measure(bench, given)


if __name__ == "__main__":
    main()
