"""`python -m lake_assets_tests.mixture`: everything that changes a lake at random, while others read it.

`sync` applies files, computes marts and maintains tables by itself; `maintain` and `erase` run beside it; snapshots
expire soon. Three engines read the tables all the time. Each read of silver and of a mart must be the source at one
moment, no read may fail unless its snapshot has expired, and in the end every table must equal the source, and nothing
may be left of those who were erased. Here: the order. Not here: the source (`people.py`), the processes
(`programs.py`), the conditions (`verdict.py`).
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from lake_assets.config.config_file import load_lake
from lake_assets.lake import Lake, open_lake
from lake_assets.spark.connect.connect_server import ConnectServer
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.lakes.command_lake import rows_of
from lake_assets_tests.helpers.processes.child import environment, run_python
from lake_assets_tests.mixture.people import SILVER, TABLE, People, write_lake
from lake_assets_tests.mixture.verdict import differences, judged, lines_of

READERS = ("pyiceberg", "spark")
PATIENCE = 300.0
"""Seconds for a batch to be applied, and for a process to end."""
TRIES = 3
"""Of an erasure, which may lose a race."""


def main(
    minutes: Annotated[float, typer.Option(help="How long.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Of all that is random.")] = 1,
    folder: Annotated[Path | None, typer.Option(help="Stays; by default one that is removed.")] = None,
) -> None:
    """Run the mixture. Exit with 1 if a reader failed or read something wrong, or if the end is wrong."""
    print(f"load average {os.getloadavg()[0]:.1f} before, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="mixture-") as temporary:
        place = folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        found = Mixture(place.absolute(), seed).run(minutes * 60)
    for sentence in found:
        print(sentence)
    print("Wrong." if found else "No reader failed, and every table is what it has to be.")
    raise typer.Exit(1 if found else 0)


class Mixture:
    """One run in a folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed, self._random = folder, seed, Random(f"{seed} mixture")
        config = write_lake(folder, f"sc://127.0.0.1:{free_port()}")
        self._server = ConnectServer(load_lake(config, environ={}), folder / "spark")
        self._people = People(folder, seed)
        self._erasures: list[tuple[float, float, list[int]]] = []
        self._faults: list[str] = []

    def run(self, seconds: float) -> list[str]:
        """What is wrong in the end."""
        self._server.start()
        processes = []
        try:
            # The first sync creates the tables.
            processes.append(self._start("sync"))
            self._until(lambda: self._lake().runtime.catalog.table_exists("gold.seen_by_day"))
            processes += [self._start(kind) for kind in READERS]
            self._change(time.monotonic() + seconds)
            self._people.change()
            (self.folder / "over").touch()
            for process in processes:
                process.wait(PATIENCE)
            self._last_sync()
            return [*self._faults, *self._verdict()]
        finally:
            for process in processes:
                process.kill()
            self._server.stop()

    def _change(self, end: float) -> None:
        next_erasure = time.monotonic() + 20
        while time.monotonic() < end:
            self._people.change()
            time.sleep(self._random.uniform(0.2, 3.0))
            if time.monotonic() > next_erasure:
                self._erase()
                next_erasure = time.monotonic() + self._random.uniform(10, 40)

    def _erase(self) -> None:
        """Some people leave, and are erased once silver does not have them."""
        keys = self._people.leave(self._random.randint(1, 3))
        self._until(lambda: not {row["id"] for row in self._silver()} & {*keys})
        began, said = time.time(), ""
        for _ in range(TRIES):
            done = self._call("erase", TABLE, *map(str, keys), "--yes")
            said = (done.stdout + done.stderr)[-2000:]
            if done.returncode == 0:
                break
            print(f"erase {keys} exits with {done.returncode}: {said}", flush=True)
        else:
            self._faults.append(f"the erasure of {keys} has failed: {said}")
        self._erasures.append((began, time.time(), keys))

    def _verdict(self) -> list[str]:
        lake, files = self._lake(), self._people.files
        offsets: dict[str, int] = {}
        for record in lake.runtime.file_log.files("shop"):
            offsets[record.key] = min(record.offset, offsets.get(record.key, record.offset))
        reads = [read for kind in READERS for read in lines_of(self.folder / f"reads-{kind}.jsonl")]
        found = judged(reads, files, offsets, self._erasures)
        calls = lines_of(self.folder / "calls-sync.jsonl")
        erased = [key for _, _, keys in self._erasures for key in keys]
        failed = [one for one in calls if one["code"]]
        table = lake.runtime.catalog.load_table(SILVER)
        for what, number in {
            "files of changes": len(files),
            "calls of sync": sum(one["words"] == ["sync"] for one in calls),
            "tables that sync has maintained by itself": sum(len(one["maintained"]) for one in calls),
            "calls of maintain": sum(one["words"] == ["maintain"] for one in calls),
            "erasures": len(self._erasures),
            "keys erased": len(erased),
            "snapshots of silver that are left": len(table.metadata.snapshots),
            "reads": len(reads),
            "reads compared with the source": found.compared,
            "reads of snapshots that had expired": found.expired,
            "reads of snapshots that an erasure had removed": found.purged,
        }.items():
            print(f"{number:7}  {what}")
        wrong = [f"{' '.join(one['words'])} exits with {one['code']}: {one['said']}" for one in failed]
        return [*wrong, *found.wrong, *differences(lake, files, erased, self.folder)]

    def _last_sync(self) -> None:
        for _ in range(2):
            done = self._call("sync")
            if done.returncode:
                self._faults.append(f"the last sync exits with {done.returncode}: {done.stdout}{done.stderr}")

    def _call(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """`lake-assets` with these words, as a process of its own."""
        program = ("-m", "lake_assets.cli", "--config", str(self.folder / "lake.yaml"))
        return run_python(*program, *words, timeout=PATIENCE, cwd=self.folder, env=environment())

    def _start(self, kind: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "lake_assets_tests.mixture.programs", kind]
        with (self.folder / f"{kind}.log").open("ab") as log:
            return subprocess.Popen(
                [*command, str(self.folder), str(self.seed)],
                cwd=self.folder,
                env=environment(),
                stdout=log,
                stderr=log,
            )

    def _lake(self) -> Lake:
        return open_lake(load_lake(self.folder / "lake.yaml", environ={}))

    def _silver(self) -> list[dict[str, object]]:
        return rows_of(load_lake(self.folder / "lake.yaml", environ={}), SILVER)

    def _until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"see the logs in {self.folder}")
            time.sleep(0.5)


if __name__ == "__main__":
    typer.run(main)
