"""`python -m benchmarks.full_load`: a full load as CSV and as Parquet, beside Spark's plain read and an append.

Every repetition loads a new table; a first one of each format warms up. Here: the measurement. Not here: changes
(`large_tables`), reading without writing (`reading.py`).
"""

from benchmarks.large_tables.bench import Bench, assert_same, opened, options
from benchmarks.large_tables.contenders import Contender, Product, TextbookMerge
from benchmarks.large_tables.workloads import Source

ENDINGS = ("parquet", "csv")


def measure(bench: Bench, rows: int, repeat: int) -> None:
    """Loads tables of both formats in turn."""
    bench.warm_up()
    for number in range(repeat + 1):
        for ending in ENDINGS:
            one_load(bench, rows, ending, number)


def one_load(bench: Bench, rows: int, ending: str, number: int) -> None:
    """Loads one table of each contender. The order of the contenders changes with every repetition."""
    table = f"{ending}_{number}"
    targets = [target for target in bench.lake.targets if target.name == table]
    product = Product(bench.lake, targets)
    append = TextbookMerge(bench.spark, bench.catalog, "plain append", items=table)
    files = Source(bench.bronze, rows, table, ending).load()
    both: list[Contender] = [product, append]
    for each in both[number % 2 :] + both[: number % 2]:
        taken = bench.measured(each.load, files)
        if number:  # the first one warms up
            bench.results.note(f"full load, {ending}", each.name, taken)
    assert_same({each.name: each.rows(bench.spark) for each in both}, rows)
    print(f"{table}: {product.stages()}", flush=True)


def main() -> None:
    """The command line."""
    given = options(__doc__, rows=4_000_000, repeat=3).parse_args()
    tables = [f"{ending}_{number}" for ending in ENDINGS for number in range(given.repeat + 1)]
    with opened("full_load", given, tables) as bench:
        measure(bench, given.rows, given.repeat)


if __name__ == "__main__":
    main()
