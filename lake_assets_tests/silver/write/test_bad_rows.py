"""Files that cannot be read as lake.yaml says stop their own table, with the table, the file and the row.

Here: one turn of a lake with one such file in each table but one, and the turn after they were corrected. Not here:
the reasons a row can have (`test_reader.py` of bronze).
"""

from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.quarantine.bad_rows import refuse_missing_rows
from lake_assets.errors import RowCountMismatch, TableStopped
from lake_assets.iceberg.table_io import load_table
from lake_assets.silver.batch.result import TableResult
from lake_assets_tests.helpers.files.dms_files import put
from lake_assets_tests.helpers.lakes.bench import Bench

pytestmark = pytest.mark.spark
COLUMNS = {"id": "long not null", "name": "string not null", "price": "decimal(10, 2)"}
HEADER = "Op,commit_ts,id,name,price,change_seq,BI_id"
GOOD = "I,2026-03-01 12:00:00,1,a,1.00,,"
FILE = "LOAD00000001.csv"


@dataclass(frozen=True)
class Case:
    lines: list[str]
    message: str
    """A part of the error, after the table's name; {file} is the file's key."""
    error: type[TableStopped] = TableStopped


CASES = {
    "width": Case(
        [HEADER, GOOD, GOOD + ",x"],
        r"row 2 of .*{file}: not 7 fields, but 8 \(1 row; quarantine.max_rows is 0\)\.",
    ),
    "short": Case([HEADER, "I,2026-03-01 12:00:00,1"], "row 1 of .*{file}: not 7 fields, but 3 "),
    "decimal": Case(
        [HEADER, GOOD, *[GOOD.replace("1.00", "1.001")] * 2],
        r"row 2 of .*{file}: price is not a valid decimal\(10, 2\): '1.001'; row 3: price is not a valid "
        r"decimal\(10, 2\): '1.001' "
        r"\(2 rows in all; quarantine.max_rows is 0\)\. Nothing of this batch was published",
    ),
    "all": Case(
        [HEADER, "X,noon,one,a," + "9" * 120 + ",12,two"],
        r"row 1 of .*{file}: unknown operation X; id is not a valid long: 'one'; price is not a valid "
        r"decimal\(10, 2\): '9{{100}}…'; "
        "commit_ts is not a timestamp: 'noon' ",
    ),
    "quoted": Case(
        [HEADER, 'I,2026-03-01 12:00:00,1,"a, ""b"" and c",1.00'], "row 1 of .*{file}: not 7 fields, but 5 "
    ),
    "operation": Case([HEADER, GOOD.replace("I", "X", 1)], "row 1 of .*{file}: unknown operation X "),
    "null_key": Case([HEADER, GOOD.replace(",1,", ",NULL,", 1)], "row 1 of .*{file}: id is NULL "),
    "multiline": Case(
        [HEADER, 'I,2026-03-01 12:00:00,1,"a\nb\nc",1.00,,', GOOD.replace("1.00", "one")],
        "row 2 of .*{file}: price is not",
    ),
    "empty_line": Case([HEADER, GOOD, "", GOOD], "row 2 of .*{file}: an empty line "),
    "quote": Case(
        [HEADER, GOOD.replace("a", '5" pipe')], "row 1 of .*{file}: a quote in it neither opens nor"
    ),
    "several": Case(
        ["Op,commit_ts,id,name,color,weight,change_seq", "I,2026-03-01 12:00:00,1,a,red,2,"],
        "{file} has the column color, which lake.yaml does not know. {file} has the column weight, which lake.yaml "
        "does not know. {file} lacks the column price, which lake.yaml expects. Add it to the table's columns, set "
        r"schema_changes to evolve, or say `ignore: \[color\]` for the table. Add it to the table's columns, set "
        r"schema_changes to evolve, or say `ignore: \[weight\]` for the table. Remove it from the table's columns",
    ),
    "unknown": Case(
        [HEADER + ",color", GOOD + ",red"],
        "{file} has the column color, which lake.yaml does not know. Add it to the table's columns",
    ),
    "missing": Case(
        ["Op,commit_ts,id,name,change_seq", "I,2026-03-01 12:00:00,1,a,"],
        "{file} lacks the column price, which lake.yaml expects",
    ),
    "case": Case(
        [HEADER.replace("price", "Price"), GOOD],
        "{file} has the column Price, which differs from price only in case",
    ),
    "twice": Case([HEADER.replace("price", "name"), GOOD], "{file} has column name twice"),
}


@pytest.fixture(scope="module")
def bench(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    table: dict[str, Any] = {
        "columns": COLUMNS,
        "primary_key": ["id"],
        "quarantine": {"max_rows": 0},
        "schema_changes": "stop",
    }
    bench = Bench(
        tmp_path_factory.mktemp("bad"), {f"public.{name}": table for name in [*CASES, "good", "damaged"]}
    )
    for name, case in CASES.items():
        bench.put_text(f"public/{name}/{FILE}", *case.lines)
    bench.put_text(f"public/good/{FILE}", HEADER, GOOD)
    assert bench.location is not None
    put(bench.location, "public/damaged/LOAD00000001.csv", b"")
    (bench.location / "public/damaged/LOAD00000001.csv").rename(
        bench.location / "public/damaged/LOAD00000001.csv.gz"
    )
    (bench.location / "public/damaged/LOAD00000001.csv.gz").write_bytes(
        b"\x1f\x8b\x08 this is no gzip stream"
    )
    return bench


MORE = ("short", "quoted", "operation", "null_key", "empty_line", "quote", "unknown")
"""Of whose kinds there are others: rows of another width, values, columns."""
SOME = [name for name in CASES if name not in MORE]


@pytest.fixture(scope="module")
def results(bench: Bench) -> dict[str, TableResult]:
    return bench.turn([*SOME, "good", "damaged"])


@pytest.mark.parametrize("name", SOME)
def test_the_table_stops_by_name(results: dict[str, TableResult], bench: Bench, name: str) -> None:
    case, result = CASES[name], results[name]
    assert type(result.error) is case.error
    with pytest.raises(
        case.error, match=rf"^public\.{name}: {case.message.format(file=f'public/{name}/{FILE}')}"
    ):
        raise result.error
    assert result.batches == []
    table = load_table(bench.lake.runtime.catalog, f"silver_shop.{name}")
    assert table is None or (table.current_snapshot(), table.refs()) == (None, {})


@pytest.mark.long
@pytest.mark.parametrize("name", MORE)
def test_more_reasons(results: dict[str, TableResult], bench: Bench, name: str) -> None:
    test_the_table_stops_by_name(bench.turn([name]), bench, name)


def test_a_damaged_file_stops_its_table(results: dict[str, TableResult]) -> None:
    assert "public.damaged: public/damaged/LOAD00000001.csv.gz cannot be read" in str(
        results["damaged"].error
    )


def test_the_other_tables_go_on(results: dict[str, TableResult], bench: Bench) -> None:
    assert results["good"].error is None
    assert len(bench.rows("good")) == 1


def test_a_corrected_file_is_applied(results: dict[str, TableResult], bench: Bench) -> None:
    for name in ("width", "decimal"):
        bench.put_text(f"public/{name}/{FILE}", HEADER, GOOD)
    assert [len(batches) for batches in bench.apply(only=["width", "decimal"]).values()] == [1, 1]
    assert bench.rows("width") == bench.rows("decimal") == bench.rows("good")


def test_rows_are_missed_in_the_file_that_lacks_them() -> None:
    """Though its name ends like that of another one."""
    seen = {"file:/b/x/public/a%20.csv": 1, "file:/b/public/a%20.csv": 1}
    counted = {"file:/b/public/a%20.csv": 1, "file:/b/x/public/a%20.csv": 2}
    with pytest.raises(
        RowCountMismatch, match=r"/b/x/public/a%20\.csv holds 2 rows by its own count, the reader saw 1"
    ):
        refuse_missing_rows("public.items", counted, seen)
    refuse_missing_rows("public.items", seen, seen)
