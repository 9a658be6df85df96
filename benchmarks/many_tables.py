"""`python -m benchmarks.many_tables`: 1,000 changes of each of 20 small tables, beside a textbook MERGE of each.

The product makes one scan and the turns of all tables, in as many threads as it has by default. The MERGEs run one
after the other, and then in as many threads. In the end all tables must have the same row hashes. Here: the
measurement. Not here: a large table (`large_tables`), many small files (`many_files.py`).
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.large_tables.bench import Bench, assert_same, opened, options
from benchmarks.large_tables.contenders import Product, TextbookMerge
from benchmarks.large_tables.workloads import Source, Workload

TABLES = [f"t{number:02d}" for number in range(20)]
LEAST_ROWS = 2_000
WORKLOAD = Workload("20 tables x 1,000 changes", 1_000, files=1)
WARM_UPS = 8
"""Rounds before the times are taken: short statements run more slowly until Java has compiled what they use."""


class Merges:
    """A textbook MERGE of each table that has files, by the table's name."""

    def __init__(self, merges: Mapping[str, TextbookMerge], threads: int) -> None:
        self.name = f"textbook MERGE, {threads} at a time" if threads > 1 else "textbook MERGE, in turn"
        self._threads = threads
        self.merges = merges

    def load(self, files: Sequence[Path]) -> None:
        for table, merge in self.merges.items():
            merge.load(_of(table, files))

    def apply(self, files: Sequence[Path]) -> None:
        with ThreadPoolExecutor(self._threads) as pool:
            tables = sorted({file.parent.name for file in files})
            list(pool.map(lambda table: self.merges[table].apply(_of(table, files)), tables))


def _merges(bench: Bench, threads: int) -> Merges:
    namespace = f"merged_{threads}"
    tables = {
        table: TextbookMerge(bench.spark, bench.catalog, namespace=namespace, items=table) for table in TABLES
    }
    return Merges(tables, threads)


def _of(table: str, files: Sequence[Path]) -> list[Path]:
    return [file for file in files if file.parent.name == table]


def measure(bench: Bench, most_rows: int, repeat: int) -> None:
    """Loads the tables, and applies batches."""
    bench.warm_up()
    sources = [
        Source(bench.bronze, rows, table) for rows, table in zip(rows_of(most_rows), TABLES, strict=True)
    ]
    product = Product(bench.lake, bench.lake.targets)
    merges = [_merges(bench, threads) for threads in (1, bench.lake.config.automation.apply_threads)]
    contenders: list[Product | Merges] = [product, *merges]
    files = [file for source in sources for file in source.load(files=1)]
    for each in contenders:
        each.load(files)
    for number in range(WARM_UPS + repeat):
        files = [file for source in sources for file in source.changes(WORKLOAD)]
        for each in contenders[number % 2 :] + contenders[: number % 2]:
            taken = bench.measured(each.apply, files)
            if number >= WARM_UPS:
                bench.results.note(WORKLOAD.name, each.name, taken)
    compare(bench, sources, merges)


def rows_of(most: int) -> list[int]:
    """The row counts of the tables, from the smallest to the largest."""
    return [LEAST_ROWS + (most - LEAST_ROWS) * number // (len(TABLES) - 1) for number in range(len(TABLES))]


def compare(bench: Bench, sources: Sequence[Source], merges: Sequence[Merges]) -> None:
    """The rows of every table, of all contenders."""
    targets = {target.name: target for target in bench.lake.targets}
    for source in sources:
        product = Product(bench.lake, [targets[source.table]])
        tables = {each.name: each.merges[source.table].rows(bench.spark) for each in merges}
        assert_same({product.name: product.rows(bench.spark)} | tables, len(source.alive))
    print(f"\nAll {len(sources)} tables have the same rows.")


def main() -> None:
    """The command line; `--rows` are those of the largest table."""
    given = options(__doc__, rows=10_000, repeat=3).parse_args()
    with opened("many_tables", given, TABLES) as bench:
        measure(bench, given.rows, given.repeat)


if __name__ == "__main__":
    main()
