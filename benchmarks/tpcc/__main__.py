"""`python -m benchmarks.tpcc`: a mix of transactions over eight tables, beside a textbook MERGE of each table.

The tables and transactions are shaped as TPC-C's: keys of up to four columns, rows that hundreds of transactions
change, a queue whose rows come and go. The ratio is the time of the MERGEs to ours. In the end all tables must equal
the source. Not measured: transactions a minute, TPC-C's own figure.
"""

from collections.abc import Sequence

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from benchmarks.large_tables.bench import Bench, opened, options
from benchmarks.large_tables.contenders import Product, TextbookMerge, read
from benchmarks.many_tables import Merges
from benchmarks.tpcc.schema import SHAPES
from benchmarks.tpcc.source import Source, rows_of

WORKLOAD = "TPC-C's mix"
WARM_UPS = 5


def merges(bench: Bench, threads: int) -> Merges:
    """A textbook MERGE of each table."""
    tables = {
        name: TextbookMerge(
            bench.spark,
            bench.catalog,
            namespace=f"merged_{threads}",
            items=name,
            columns=tuple(shape.columns),
            key=shape.key,
        )
        for name, shape in SHAPES.items()
    }
    return Merges(tables, threads)


def measure(bench: Bench, warehouses: int, transactions: int, repeat: int) -> None:
    """Loads the tables, and applies batches."""
    source = Source(bench.bronze, warehouses)
    product = Product(bench.lake, bench.lake.targets)
    others = [merges(bench, threads) for threads in (1, bench.lake.config.automation.apply_threads)]
    contenders: list[Product | Merges] = [product, *others]
    files = source.load()
    for each in contenders:
        each.load(files)
    changes = 0
    for number in range(WARM_UPS + repeat):
        files = source.changes(transactions)
        changes = sum(pq.read_metadata(file).num_rows for file in files)
        for each in contenders[number % 2 :] + contenders[: number % 2]:
            taken = bench.measured(each.apply, files)
            if number >= WARM_UPS:
                bench.results.note(WORKLOAD, each.name, taken)
    print(f"{changes:,} changes of {transactions:,} transactions in the last batch; {product.stages()}")
    for name in SHAPES:
        _compare(bench, source, name, contenders)
    print(f"\nAll {len(SHAPES)} tables equal the source.")


def _compare(bench: Bench, source: Source, name: str, contenders: Sequence[Product | Merges]) -> None:
    path = bench.folder / f"{name}.parquet"
    pq.write_table(rows_of(name, list(source.rows[name].values())), path)
    (target,) = (target for target in bench.lake.targets if target.name == name)
    tables = [
        f"{bench.catalog}.{target.identifier}" if isinstance(each, Product) else each.merges[name].table()
        for each in contenders
    ]
    found = {table: _hash(bench.spark.table(table), name) for table in tables}
    expected = _hash(read(bench.spark, [path]), name)
    assert set(found.values()) == {expected}, (name, expected, found)


def _hash(rows: DataFrame, name: str) -> tuple[int, int]:
    """Number of rows, and a hash of them in any order."""
    columns = ", ".join(SHAPES[name].columns)
    row = rows.selectExpr("count(*) AS rows", f"bit_xor(xxhash64({columns})) AS hash").first()
    assert row is not None
    return row["rows"], row["hash"]


def main() -> None:
    """The command line; `--rows` are those of the orders' lines."""
    parser = options(__doc__, rows=600_000, repeat=5)
    parser.add_argument("--transactions", type=int, default=1_000, help="of a batch")
    given = parser.parse_args()
    tables = {name: shape.section for name, shape in SHAPES.items()}
    with opened("tpcc", given, tables) as bench:
        measure(bench, max(1, given.rows // 300_000), given.transactions, given.repeat)


if __name__ == "__main__":
    main()
