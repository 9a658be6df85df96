"""A Spark in the process, started with keys of buckets and catalogs, while all command lines are read; then silver is
applied from a folder, a table and rows with letters of many languages.

Here: `python -m lake_assets_tests.helpers.processes.embedded_spark <folder>`, which prints its observations as JSON.
A separate process, since a process starts one Spark.
"""

import json
import os
import shlex
import sys
import tempfile
import threading
from pathlib import Path

import psutil

from lake_assets.spark.session import SparkSessions
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS, lake_config
from lake_assets_tests.helpers.servers.s3 import ACCESS, files_in_s3

SECRET = "not for everybody = \\ : #"
KEYS = (
    "fs.s3a.bucket.bucket.secret.key",
    "spark.sql.catalog.lake.s3.secret-access-key",
    "spark.ssl.keyPassword",
)


def main(folder: Path) -> None:
    """Starts it and asks it what it knows."""
    s3 = {"location": "s3://bucket/dms", "s3": {**ACCESS, "secret_access_key": SECRET}}
    files = files_in_s3("http://localhost:1") | {"s3.secret-access-key": SECRET}
    catalog = {"uri": str(folder / "catalog.db"), "warehouse": str(folder / "warehouse"), **files}
    conf = {"spark.driver.memory": "1g", "spark.ssl.keyPassword": SECRET, "spark.lake.own": "kept"}
    lake = lake_config(folder, source=s3, catalog=catalog, spark={"conf": conf})
    # What was there before is not lost.
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--conf {shlex.quote('spark.lake.given=by hand')} pyspark-shell"
    seen: set[str] = set()
    modes: set[str] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.01):
            seen.update(" ".join(child.cmdline()) for child in children())
            modes.update(oct(path.stat().st_mode) for path in properties())

    watch = threading.Thread(target=look)
    watch.start()
    spark = SparkSessions(lake).root()
    assert spark.range(3).count() == 3
    ended.set()
    watch.join()
    found = {
        "commands": sorted(seen),
        "modes": sorted(modes),
        "left": [str(path) for path in properties()],
        "known": {key: spark.conf.get(key) for key in (*KEYS, "spark.lake.own", "spark.lake.given")},
        "environment": os.environ["PYSPARK_SUBMIT_ARGS"],
        "names": names_in_silver(folder),
        "listens_at": sorted(addresses()),
        "locale": os.environ.get("LC_ALL"),
    }
    print(json.dumps(found))


def names_in_silver(folder: Path) -> list[str]:
    """Those in a table whose source, files and warehouse have such paths, by Spark."""
    bench = Bench(folder, {"öffentlich.größen": {**ITEMS, "name": "sizes"}})
    header = "Op,commit_ts,change_seq,id,name,price,at,BI_id"
    rows = (
        "I,2026-03-01 12:00:00,,1,größer,1.00,2026-03-01 12:00:00,",
        'I,2026-03-01 12:00:00,,2,"klei\nner",NULL,NULL,',
    )
    bench.put_text("öffentlich/größen/LOAD00000001.csv", header, *rows)
    bench.apply()
    table = f"{bench.lake.config.catalog.name}.silver_shop.sizes"
    found = bench.lake.runtime.sessions.root().table(table).select("name").collect()
    return sorted(row.name.replace("\n", "") for row in found)


def addresses() -> set[str]:
    """Where its JVM listens."""
    return {
        connection.laddr.ip.removeprefix("::ffff:")
        for process in psutil.Process().children(recursive=True)
        if process.name() == "java"
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }


def children() -> list[psutil.Process]:
    """All processes that this one has started."""
    try:
        return [
            one for one in psutil.Process().children(recursive=True) if one.is_running() and one.cmdline()
        ]
    except psutil.Error:
        return []


def properties() -> list[Path]:
    """The files of settings that there are."""
    return list(Path(tempfile.gettempdir()).glob("spark-*.conf"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
