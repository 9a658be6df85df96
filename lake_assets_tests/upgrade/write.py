"""`python -m lake_assets_tests.upgrade.write COMMIT NAME`: has the code of a commit write the lake that is stored as
`lake_of_NAME.tar.xz`.

The code runs in a folder of its own with the packages of this environment. The lake has full loads, changes, a row in
quarantine, a column that files have added, a maintenance, a mart, and files that are logged and not applied.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import yaml

from lake_assets_tests.upgrade.shop import (
    ADDED,
    BAD_ROW,
    DMS,
    MAINTAINED,
    SCANNED,
    steps,
    with_columns,
    write,
)
from lake_assets_tests.upgrade.stored import HERE, LOCATION

CONF = {
    "spark.sql.shuffle.partitions": 1,
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""A dozen rows are done before Spark has compiled anything."""
_SCAN = """
import sys
from pathlib import Path
from lake_assets.config.config_file import load_lake
from lake_assets.lake import open_lake
from lake_assets.rounds.arrivals import log_arrivals
log_arrivals(open_lake(load_lake(Path(sys.argv[1])), marts=()).runtime, "shop")
"""


def lake_yaml(step: int) -> str:
    """The configuration at a step, which a release of any age can read."""
    tables = with_columns(ADDED[: min(step, 1)])
    source = {
        "location": "bronze",
        "dms": DMS,
        "tables": {name: {"full_load_complete": "immediately", **table} for name, table in tables.items()},
    }
    return yaml.safe_dump(
        {
            "catalog": {"uri": "catalog.db", "warehouse": "warehouse"},
            "sources": {"shop": source},
            "gold": {"start_date": "2026-03-01", "marts": ["visits_by_day"]},
            "automation": {"rewrite_below_mb": 0},
            "spark": {"conf": CONF},
        }
    )


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The entry, unless it is a log, Dagster's, or a checksum of Hadoop's, which would not fit a moved file."""
    name = entry.name.rpartition("/")[2]
    return None if name.endswith((".crc", ".log")) or "dagster" in name else entry


def main(commit: str, name: str) -> None:
    """The command line."""
    with tempfile.TemporaryDirectory() as folder:
        code, lake = Path(folder) / "code", Path(folder) / LOCATION
        archive = subprocess.run(
            ["git", "archive", commit], capture_output=True, check=True, cwd=HERE.parents[1]
        )
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as found:
            found.extractall(code, filter="data")
        shutil.copy(HERE / "visits_by_day.py", code)
        lake.mkdir()

        def run(*arguments: str) -> None:
            environment = os.environ | {"PYTHONPATH": str(code)}
            subprocess.run([sys.executable, *arguments], check=True, cwd=code, env=environment)

        def call(*arguments: str) -> None:
            run("-m", "lake_assets.cli", "--config", str(lake / "lake.yaml"), *arguments)

        for number, files in enumerate(steps()):
            if number > SCANNED:
                break
            (lake / "lake.yaml").write_text(lake_yaml(number), encoding="utf-8")
            write(lake / "bronze", files)
            if number == MAINTAINED:
                bad = lake / "bronze" / BAD_ROW[0]
                bad.write_text(BAD_ROW[1], encoding="utf-8")
            if number == SCANNED:
                run("-c", _SCAN, str(lake / "lake.yaml"))
            else:
                call("sync")
            if number == MAINTAINED:
                call("maintain")
        (lake / "written_at").write_text(str(lake), encoding="utf-8")
        with tarfile.open(HERE / f"lake_of_{name}.tar.xz", "w:xz", preset=9) as stored:
            stored.add(lake, LOCATION, filter=_kept)
        print(f"{(HERE / f'lake_of_{name}.tar.xz').stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
