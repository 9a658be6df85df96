"""What an embedded Spark takes from its machine: the locale of file names, and addresses to listen at.

Not here: a Spark Connect server (`test_connect.py`), Java and free ports (`test_preflight.py`).
"""

import json
import os
import sys
from pathlib import Path

import psutil
import pytest

from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS
from lake_assets_tests.helpers.processes.child import PATIENCE, environment, output_of, run_python


@pytest.mark.spark
def test_neither_locale_nor_network_of_the_machine_matters(tmp_path: Path) -> None:
    """As cron, systemd and containers start a process: their locale is that of C. One process, because each of the two
    needs a JVM that starts with it."""
    folder = tmp_path / "Räder 日本"
    folder.mkdir()
    own = environment(LC_ALL="C")
    found = run_python("-m", "lake_assets_tests.spark.test_machine", folder, env=own, timeout=PATIENCE)
    told = json.loads(output_of(found).splitlines()[-1])
    assert told == {"names": ["größer", "kleiner"], "listens_at": ["127.0.0.1"], "locale": "C"}


def in_a_process(folder: Path) -> dict[str, object]:
    """The names in a table whose source, files and warehouse have such paths, by Spark; where its JVM listens."""
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
    java = [child for child in psutil.Process().children(recursive=True) if child.name() == "java"]
    listening = {
        connection.laddr.ip.removeprefix("::ffff:")
        for process in java
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    names = sorted(row.name.replace("\n", "") for row in found)
    return {"names": names, "listens_at": sorted(listening), "locale": os.environ.get("LC_ALL")}


if __name__ == "__main__":
    print(json.dumps(in_a_process(Path(sys.argv[1]))))
