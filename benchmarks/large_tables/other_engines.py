"""Contenders that are programs of their own, in environments of their own; `make bench-full` installs these.

Here: a contender that has such a program do the work. Not here: the programs (`others/`).
"""

import json
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.large_tables.contenders import NAMES, read

SCRIPTS = {
    "DuckLake": ("duckdb", "ducklake"),
    "Paimon": ("spark35", "paimon"),
    "Hudi": ("spark35", "hudi"),
}
"""By the contender's name, the folder of its environment and its script."""
ENVIRONMENTS = Path(".venv/others")


class OtherEngine:
    """A contender on another engine: DuckDB, or a Spark of another version."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        environment, script = SCRIPTS[name]
        self._rows = folder / f"{script}_rows"
        python = ENVIRONMENTS / environment / "bin/python"
        data = folder / "warehouse" / script
        data.mkdir(parents=True)
        command: list[str | Path] = [python, "-m", f"benchmarks.large_tables.others.{script}", data, NAMES]
        self._log = folder / f"{script}.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_environment(),
            )

    def load(self, files: Sequence[Path]) -> None:
        self._call("load", [str(file) for file in files])

    def apply(self, files: Sequence[Path]) -> None:
        self._call("apply", [str(file) for file in files])

    def rows(self, spark: SparkSession) -> DataFrame:
        self._call("write_rows", str(self._rows))
        return read(spark, sorted(self._rows.glob("*.parquet")))

    def close(self) -> None:
        """Ends the program."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _call(self, method: str, argument: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            print(json.dumps({"method": method, "argument": argument}), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer == "done\n", f"{self.name} has failed: {self._log.read_text()[-1_000:]}"


def _environment() -> dict[str, str]:
    # Without the variables that have PySpark use this package's server.
    return {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
