"""`python -m benchmarks.large_tables`: batches of changes on a large table, beside other ways to apply them.

All contenders apply the same files in turn, on one warm Spark Connect server; their order changes with every
repetition. In the end their tables must have the same row hash. Ratios are of medians: above 1, lake_assets is faster.
"""

from argparse import Namespace

from benchmarks.large_tables.bench import Bench, assert_same, opened, options
from benchmarks.large_tables.contenders import Contender, Floor, Product, TextbookMerge
from benchmarks.large_tables.further import MOST_FILES, PER_FILE, further
from benchmarks.large_tables.other_engines import OtherEngine
from benchmarks.large_tables.workloads import WORKLOADS, Source, Workload

LOAD = "full load"
APPEND = "plain append"


def measure(bench: Bench, given: Namespace) -> None:
    """Prints a line for each workload."""
    bench.warm_up()
    source = Source(bench.bronze, given.rows, ending=given.files)
    product, merge = Product(bench.lake, bench.lake.targets), TextbookMerge(bench.spark, bench.catalog)
    floor = Floor(bench.spark, bench.catalog, merge.table())
    others = further(bench, [""] if given.all else given.contenders)
    contenders: list[Contender] = [product, merge, floor, *others]
    load(bench, source, product, contenders)
    heads = ["lake_assets s", "textbook MERGE s", "ratio", "floor s", "times the floor"]
    heads += [*(each.name for each in contenders[3:]), "of the turn"]
    print(f"\n| workload | {' | '.join(heads)} |\n|---{'|---' * len(heads)}|")
    for workload in WORKLOADS:
        if given.only and not any(part in workload.name for part in given.only):
            continue
        repeat(bench, source, workload, contenders, given.repeat)
        own, other, least, *more = (bench.results.seconds(workload.name, each.name) for each in contenders)
        figures = [own, other, other / own, least, own / least, *more]
        cells = [workload.name, *(f"{figure:.2f}" for figure in figures), product.stages()]
        print(f"| {' | '.join(cells)} |", flush=True)
    if any(each.name == PER_FILE for each in contenders):
        print(f"\nAWS per file: for more than {MOST_FILES} files, an estimate from the first {MOST_FILES}.")
    assert_same({each.name: each.rows(bench.spark) for each in contenders}, len(source.alive))
    for each in contenders:
        if isinstance(each, OtherEngine):
            each.close()
    print(f"\nEvery table has the same {len(source.alive):,} rows.")


def load(bench: Bench, source: Source, product: Product, contenders: list[Contender]) -> None:
    """The full load, once. Most other contenders load by a plain append, too, and the floor only gets its table: of
    these, only one append is measured."""
    files = source.load()
    for each in contenders:
        taken = bench.measured(each.load, files)
        if each is contenders[1]:
            bench.results.note(LOAD, APPEND, taken)
        elif each is product or isinstance(each, OtherEngine):
            bench.results.note(LOAD, each.name, taken)
    own, other = (bench.results.seconds(LOAD, name) for name in (product.name, APPEND))
    heads = f"full load of {source.rows:,} rows | {own:.1f} s | {APPEND} {other:.1f} s | {other / own:.2f}"
    print(f"\n| {heads} |", product.stages())


def repeat(bench: Bench, source: Source, workload: Workload, contenders: list[Contender], times: int) -> None:
    """Applies and measures batches of a workload; the first one warms up."""
    for number in range(times + 1):
        files = source.changes(workload)
        for each in contenders[number % 2 :] + contenders[: number % 2]:
            taken = bench.measured(each.apply, files)
            if number:  # the first one warms up
                bench.results.note(workload.name, each.name, taken)


def main() -> None:
    """The command line."""
    parser = options(__doc__, rows=10_000_000, repeat=3)
    parser.add_argument(
        "--all", action="store_true", help="with all contenders; most take many times as long"
    )
    parser.add_argument(
        "--with", dest="contenders", nargs="*", default=(), help="parts of further contenders' names"
    )
    parser.add_argument("--files", choices=("parquet", "csv"), default="parquet", help="their format")
    parser.add_argument("--only", nargs="*", help="parts of the workloads' names")
    given = parser.parse_args()
    with opened("large_tables", given) as bench:
        measure(bench, given)


if __name__ == "__main__":
    main()
