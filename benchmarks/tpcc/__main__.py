"""`python -m benchmarks.tpcc`: a mix of transactions over eight tables, beside a textbook MERGE of each table.

The tables and transactions are shaped as TPC-C's: keys of up to four columns, rows that hundreds of transactions
change, a queue whose rows come and go. The ratio is that of the MERGEs' time to ours. In the end all tables must equal
the source. Not measured: transactions a minute, as TPC-C does.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from benchmarks.large_tables.bench import Bench, opened, options
from benchmarks.large_tables.contenders import MERGE_ON_READ, Product, newest, read
from benchmarks.tpcc.schema import SHAPES
from benchmarks.tpcc.source import Source, rows_of

WORKLOAD = "TPC-C's mix"
WARM_UPS = 5


class Merges:
    """A textbook MERGE of each table."""

    def __init__(self, bench: Bench, threads: int) -> None:
        self.name = f"textbook MERGE, {threads} at a time" if threads > 1 else "textbook MERGE, in turn"
        self._bench, self._threads = bench, threads

    def load(self, files: Sequence[Path]) -> None:
        self._bench.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._bench.catalog}.merged_{self._threads}")
        self._each(self._load, files)

    def apply(self, files: Sequence[Path]) -> None:
        self._each(self._merge, files)

    def table(self, name: str) -> str:
        return f"{self._bench.catalog}.merged_{self._threads}.{name}"

    def _each(self, work: Callable[[Path], None], files: Sequence[Path]) -> None:
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(work, files))

    def _view(self, file: Path) -> tuple[str, str]:
        name = file.parent.name
        read(self._bench.spark, [file]).createOrReplaceTempView(f"changes_{name}")
        return name, f"changes_{name}"

    def _load(self, file: Path) -> None:
        name, view = self._view(file)
        self._bench.spark.sql(
            f"CREATE TABLE {self.table(name)} USING iceberg TBLPROPERTIES ({MERGE_ON_READ}) AS "
            f"SELECT {', '.join(SHAPES[name].columns)} FROM {view}"
        )

    def _merge(self, file: Path) -> None:
        name, view = self._view(file)
        columns, key = list(SHAPES[name].columns), SHAPES[name].key
        same = " AND ".join(f"t.{column} = s.{column}" for column in key)
        assigned = ", ".join(f"t.{column} = s.{column}" for column in columns)
        self._bench.spark.sql(
            f"MERGE INTO {self.table(name)} t USING ({newest(view, key)}) s ON {same} "
            f"WHEN MATCHED AND s.Op = 'D' THEN DELETE WHEN MATCHED THEN UPDATE SET {assigned} "
            f"WHEN NOT MATCHED AND s.Op <> 'D' THEN INSERT ({', '.join(columns)}) "
            f"VALUES ({', '.join(f's.{column}' for column in columns)})"
        )


def measure(bench: Bench, warehouses: int, transactions: int, repeat: int) -> None:
    """Loads the tables, and applies batches."""
    source = Source(bench.bronze, warehouses)
    product = Product(bench.lake, bench.lake.targets)
    merges = [Merges(bench, threads) for threads in (1, bench.lake.config.automation.apply_threads)]
    contenders: list[Product | Merges] = [product, *merges]
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
        _compare(bench, source, name, [product, *merges])
    print(f"\nAll {len(SHAPES)} tables equal the source.")


def _compare(bench: Bench, source: Source, name: str, contenders: Sequence[Product | Merges]) -> None:
    path = bench.folder / f"{name}.parquet"
    pq.write_table(rows_of(name, list(source.rows[name].values())), path)
    (target,) = (target for target in bench.lake.targets if target.name == name)
    tables = [
        f"{bench.catalog}.{target.identifier}" if isinstance(each, Product) else each.table(name)
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
