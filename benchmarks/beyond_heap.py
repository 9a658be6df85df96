"""`python -m benchmarks.beyond_heap`: a batch that is ten times as large as the heap of the Spark server.

Rows with a text of some kilobytes, from Parquet and from CSV; the server gets `--memory`. For each batch it prints the
seconds, how large the rows are in memory, and the most memory that the server has had. The table must equal the source.
Here: the measurement. Not here: other ways to apply a batch (`large_tables`).
"""

from argparse import Namespace

import duckdb
import pyarrow as pa

from benchmarks.large_tables.bench import Bench, assert_same, opened, options
from benchmarks.large_tables.contenders import Product, read
from benchmarks.large_tables.results import PRODUCT, Measured, peak_megabytes
from benchmarks.large_tables.workloads import Source, Workload, values

ENDINGS = ("parquet", "csv")
SAMPLE = 1_000


def measure(bench: Bench, given: Namespace) -> None:
    """Loads a table of each format, and applies one batch."""
    for ending in given.only or ENDINGS:
        product = Product(bench.lake, [target for target in bench.lake.targets if target.name == ending])
        columns = values(f"repeat(md5((id + version)::VARCHAR), {given.note // 32})")
        source = Source(bench.bronze, given.rows, ending, ending, columns)
        row = bytes_of_row(columns)
        taken = bench.measured(product.load, source.load())
        _note(bench, f"full load, {ending}", given.rows * row, taken, product)
        workload = Workload(f"{given.changes:,} changes, {ending}", given.changes)
        taken = bench.measured(product.apply, source.changes(workload))
        _note(bench, workload.name, given.changes * row, taken, product)
        rows = {PRODUCT: product.rows(bench.spark), "source": read(bench.spark, [source.expected()])}
        assert_same(rows, len(source.alive))
        print(f"{ending}: the table has the {len(source.alive):,} rows of the source.", flush=True)


def bytes_of_row(columns: str) -> float:
    """How large a row is in memory, by Arrow."""
    keys = pa.table(
        {"id": pa.array(range(SAMPLE), pa.int64()), "version": pa.array([1] * SAMPLE, pa.int64())}
    )
    with duckdb.connect() as connection:
        connection.register("given", keys)
        size: int = connection.sql(f"SELECT {columns} FROM given").to_arrow_table().nbytes
        return size / SAMPLE


def _note(bench: Bench, name: str, size: float, taken: Measured, product: Product) -> None:
    bench.results.note(name, PRODUCT, taken)
    peak = peak_megabytes(bench.server.pid)
    print(
        f"{name}: {size / 2**20:,.0f} MB of rows, {taken.seconds:.1f} s, server at most {peak} MB so far;",
        end=" ",
    )
    print(product.stages(), flush=True)


def main() -> None:
    """The command line."""
    parser = options(__doc__, rows=1_000_000, repeat=1, memory="768m")
    parser.add_argument("--changes", type=int, default=4_000_000)
    parser.add_argument("--note", type=int, default=2_048, help="bytes of each row's text")
    parser.add_argument("--only", nargs="*", choices=ENDINGS)
    given = parser.parse_args()
    with opened("beyond_heap", given, ENDINGS) as bench:
        measure(bench, given)


if __name__ == "__main__":
    main()
