"""`python -m lake_assets.spark.fetch`: download Spark's jars, S3's included, and write an archive of its classes.

It runs once, at installation, so that later runs need no network, and two processes never download the same jar at the
same time. Each jar must be the one that `jars.sha256` names; `--write` makes that list of the jars of this machine,
after a change of their versions. Java reads classes from the archive faster than from Spark's jars. Not here: which
jars (`jars.py`), and that Spark takes the archive (`settings.py`).
"""

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from pyspark.sql import SparkSession

from lake_assets.spark.jars import S3_EXCLUDES, every_jar
from lake_assets.spark.preflight import PreflightError, check_java
from lake_assets.spark.properties import java_environment
from lake_assets.spark.settings import CLASS_ARCHIVE
from lake_assets.spark.sql import quoted, sql, table_address

SECONDS = 120.0
"""Seconds for Java to write the archive, which it does when it ends."""
CATALOG = "fetched"
CHECKSUMS = Path(__file__).with_name("jars.sha256")
"""A line for each jar, as `sha256sum` prints it: for each version of Spark, those of `every_jar` and what they need."""


class WrongJar(Exception):
    """A jar is not the one that was released. The message is one sentence: which, what is expected, what to do."""


def fetch(archive: Path = CLASS_ARCHIVE, *, write: bool = False) -> None:
    """Starts Spark with all the jars and does what most tables need; with `write`, adds their checksums to the list.
    Raises PreflightError without a supported Java, WrongJar."""
    check_java()
    os.environ.update(java_environment(os.environ))
    new = archive.with_suffix(f".{os.getpid()}")
    with TemporaryDirectory() as folder:
        spark = _started(folder, f"-XX:ArchiveClassesAtExit={new} -Xlog:disable")
        jars = [Path(jar.removeprefix("file://")) for jar in (spark.conf.get("spark.jars") or "").split(",")]
        if write:
            write_checksums(jars)
        verify(jars)
        java = [child for child in psutil.Process().children() if "java" in child.name()]
        _use(spark, Path(folder))
        spark.stop()
    for process in java:
        process.terminate()
    psutil.wait_procs(java, SECONDS)
    # Without an archive, Spark starts as before.
    if new.exists():
        new.replace(archive)


def verify(jars: Iterable[Path], checksums: Path = CHECKSUMS) -> None:
    """Raises WrongJar for a jar that the list does not have, or has otherwise."""
    known = _listed(checksums)
    for jar in jars:
        if (expected := known.get(jar.name)) != (found := _checksum(jar)):
            what = f"is {found}, and {expected} is expected" if expected else "is not in the list"
            raise WrongJar(
                f"{jar}: its SHA-256 {what} ({checksums.name}): delete it and fetch it again; if it stays, do not use "
                "its repository."
            )


def write_checksums(jars: Iterable[Path], checksums: Path = CHECKSUMS) -> None:
    """Adds the jars to the list; those of other versions stay."""
    known = _listed(checksums) | {jar.name: _checksum(jar) for jar in jars}
    lines = [f"{checksum}  {name}\n" for name, checksum in sorted(known.items())]
    checksums.write_text("".join(lines), encoding="ascii")


def _listed(checksums: Path) -> dict[str, str]:
    lines = checksums.read_text(encoding="ascii").splitlines() if checksums.exists() else []
    return {name: checksum for checksum, name in (line.split("  ", 1) for line in lines)}


def _checksum(jar: Path) -> str:
    with jar.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _started(warehouse: str, java_options: str) -> SparkSession:
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": java_options,
        "spark.jars.packages": every_jar(),
        "spark.jars.excludes": S3_EXCLUDES,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": warehouse,
    }
    return SparkSession.builder.master("local[1]").config(map={**conf}).getOrCreate()


def _use(spark: SparkSession, folder: Path) -> None:
    """Creates, writes, changes and reads a small table, for which Java loads the classes."""
    table = table_address(CATALOG, "a.t")
    rows = folder / "rows.csv"
    rows.write_text("id,v\n1,a\n2,b\n", encoding="ascii")
    spark.sql(sql("CREATE NAMESPACE {namespace}", namespace=quoted(CATALOG, "a")))
    spark.sql(sql("CREATE TABLE {table} (id bigint, v string) USING iceberg", table=table))
    spark.read.csv(str(rows), header=True, schema="id bigint, v string").writeTo(table).append()
    changed = sql("SELECT id, count(*) AS n FROM {table} GROUP BY id", table=table)
    clauses = "WHEN MATCHED AND s.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.n"
    merge = "MERGE INTO {table} t USING ({changed}) s ON t.id = s.id " + clauses
    spark.sql(sql(merge, table=table, changed=changed))
    spark.sql(sql("DELETE FROM {table} WHERE id IN (SELECT 2L)", table=table))
    spark.table(table).collect()


if __name__ == "__main__":
    try:
        fetch(write="--write" in sys.argv[1:])
    except (PreflightError, WrongJar) as error:
        sys.exit(str(error))
