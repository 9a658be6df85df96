"""Published jobs from DMS files to Iceberg, each reduced to its wrong lines.

Here: the mistakes, each with its own name. Not here: their effects, which `test_published_mistakes.py` shows on files
that this project applies exactly. Apart from its mistake, each job reads and writes correctly. All columns are text.
"""

import csv
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

RFC_4180: dict[str, Any] = {"multiLine": True, "quote": '"', "escape": '"', "nullValue": "NULL"}


def read(spark: SparkSession, *paths: Path) -> DataFrame:
    """Files with a header, without a mistake."""
    return spark.read.options(header=True, **RFC_4180).csv([str(path) for path in paths])


# Full load


def load_each_file(spark: SparkSession, target: str, paths: Iterable[Path]) -> None:
    """One statement for each LOAD file, which does something for the first of them only."""
    for path in paths:
        read(spark, path).createOrReplaceTempView("load_file")
        spark.sql(f"CREATE TABLE IF NOT EXISTS {target} USING iceberg AS SELECT * FROM load_file")


def target_by_arguments(command_line: Sequence[str]) -> str:
    """Of a job that declares two arguments and reads three."""
    declared = ("bucket", "table")
    arguments = {name: command_line[command_line.index(f"--{name}") + 1] for name in declared}
    return f"{arguments['dbname']}.{arguments['table']}"


def list_once(client: Any, bucket: str, prefix: str) -> list[str]:
    """What one call returns."""
    return [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]]


def key_by_lowered_name(metadata: Iterable[Mapping[str, str]], table: str) -> list[str]:
    """Looks for the lowered name where names have their case."""
    return [entry["column"] for entry in metadata if entry["table"] == table.lower()]


def tables_with_a_key(tables: Iterable[str], keyless: Collection[Mapping[str, str]]) -> list[str]:
    """Asks for a name in a list of dictionaries, where no name ever is."""
    return [table for table in tables if table not in keyless]  # type: ignore[comparison-overlap]


def load_tables(tables: Iterable[str], load: Callable[[str], object]) -> str:
    """The job's final state, whatever happened."""
    for table in tables:
        try:
            load(table)
        except Exception as error:  # noqa: BLE001 (the mistake)
            print(f"could not load {table}: {error}")
    return "SUCCEEDED"


def read_inferring(spark: SparkSession, path: Path) -> DataFrame:
    """Types from what the values look like."""
    return spark.read.options(header=True, inferSchema=True, **RFC_4180).csv(str(path))


def read_by_lines(spark: SparkSession, path: Path) -> DataFrame:
    """A header and nothing else: Spark's own rules for quotes, and a record ends with its line."""
    return spark.read.options(header=True).csv(str(path))


# CDC


def merge(spark: SparkSession, target: str, changes: DataFrame, condition: str) -> None:
    """Updates what matches and inserts what does not."""
    changes.createOrReplaceTempView("changes")
    columns = spark.table(target).columns
    values = ", ".join(f"source.{name}" for name in columns)
    spark.sql(
        f"MERGE INTO {target} AS target USING changes AS source ON {condition} "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f'target.{name} = source.{name}' for name in columns)} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(columns)}) VALUES ({values})"
    )


def delete(spark: SparkSession, target: str, changes: DataFrame, key: Sequence[str]) -> None:
    """Deletes the keys of the changes that are deletes."""
    changes.filter("Op = 'D'").createOrReplaceTempView("gone")
    same = " AND ".join(f"gone.{name} = target.{name}" for name in key)
    spark.sql(f"DELETE FROM {target} AS target WHERE EXISTS (SELECT 1 FROM gone WHERE {same})")


def condition_of(key: Sequence[str]) -> str:
    """The condition of a MERGE, without the mistake of the next."""
    return " AND ".join(f"target.{name} = source.{name}" for name in key)


def condition_without_blanks(key: Sequence[str]) -> str:
    """The same, put together one column after the other."""
    condition = ""
    for place, name in enumerate(key):
        condition += ("and" if place else "") + f"target.{name} = source.{name}"
    return condition


def upsert_if_columns_differ(
    spark: SparkSession, target: str, changes: DataFrame, key: Sequence[str]
) -> None:
    """The MERGE stands in the branch for a changed layout, below the line that makes the layouts equal."""
    columns = spark.table(target).columns
    rows = changes.filter("Op <> 'D'").select(*columns)
    if len(rows.columns) != len(columns):
        merge(spark, target, rows, condition_of(key))


def delete_from_undefined(spark: SparkSession, table: str, changes: DataFrame, key: Sequence[str]) -> None:
    """Names a database that is no variable of the job; noticed when the first delete comes."""
    if not changes.filter("Op = 'D'").isEmpty():
        delete(spark, f"{database}.{table}", changes, key)  # type: ignore[name-defined]  # noqa: F821


def deletes_then_upserts(spark: SparkSession, target: str, changes: DataFrame, key: Sequence[str]) -> None:
    """All deletes of a file, then the last image of each key in it."""
    delete(spark, target, changes, key)
    upserts = newest(changes.filter("Op <> 'D'"), key, "change_seq")
    merge(spark, target, upserts, condition_of(key))


def upserts_then_deletes(spark: SparkSession, target: str, changes: DataFrame, key: Sequence[str]) -> None:
    """The same in the other order: still two commits."""
    upserts = newest(changes.filter("Op <> 'D'"), key, "change_seq")
    merge(spark, target, upserts, condition_of(key))
    delete(spark, target, changes, key)


def append_inserts(target: str, changes: DataFrame) -> None:
    """Inserts need no MERGE, and nothing says which files were appended."""
    inserts = changes.filter("Op = 'I'")
    inserts.select(*changes.sparkSession.table(target).columns).writeTo(target).append()


def newest(changes: DataFrame, key: Sequence[str], clock: str) -> DataFrame:
    """The last change of each key by one column; of those that it does not distinguish, any."""
    order = Window.partitionBy(*key).orderBy(F.col(clock).desc())
    return changes.withColumn("_place", F.row_number().over(order)).filter("_place = 1").drop("_place")


def rows_by_current_names(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Names the fields of a file without a header after the columns that the source has by now."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{columns[place]: value for place, value in enumerate(row)} for row in csv.reader(file)]


def read_without_schema(spark: SparkSession, path: Path) -> DataFrame:
    """A file without a header, as wide as its first row."""
    return spark.read.options(**RFC_4180).csv(str(path))


def through_pandas(rows: DataFrame) -> list[dict[str, Any]]:
    """Typed rows, by way of the driver."""
    frame: Any = rows.toPandas()
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def apply_by_metadata(files: Mapping[str, Sequence[Path]], primary_key: Callable[[str], list[str]]) -> None:
    """Asks the source database for the key of each file's table. What follows is left out."""
    for table, paths in files.items():
        for _ in paths:
            primary_key(table)


def files_by_table(keys: Iterable[str]) -> dict[str, list[str]]:
    """Takes the folder that a file is in for its table, and not the one above it for the schema."""
    found: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        found[key.split("/")[-2]].append(key)
    return found


def counting(changes: DataFrame, log: Callable[[str], None]) -> DataFrame:
    """Logs its figures first: each figure reads the files again."""
    log(f"{changes.count()} changes")
    for operation in ("I", "U", "D"):
        log(f"{changes.filter(F.col('Op') == operation).count()} {operation}")
    return changes


def with_an_operation(rows: DataFrame) -> DataFrame:
    """Drops rows without a branch for them: a full load's, whose Op is NULL."""
    return rows.filter("Op IN ('I', 'U', 'D')")
