"""A Spark cluster of this machine: a standalone master, and workers in processes of their own."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.processes.child import PATIENCE, environment

SPARK_HOME = Path(pyspark.__file__).parent


class Cluster(NamedTuple):
    """Its master's address, `spark://…`, and the process ids of its workers."""

    master: str
    workers: list[int]


@contextmanager
def spark_cluster(folder: Path, workers: int = 2, memory: str = "1g") -> Iterator[Cluster]:
    """Each worker has one core and this memory; what they write goes to `folder`."""
    port, page = free_port(), free_port()
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        master = ["Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
        stack.enter_context(_started(folder, "master", master))
        found = Cluster(address, [])
        for number in range(workers):
            own = [
                "--host",
                "127.0.0.1",
                "--cores",
                "1",
                "--memory",
                memory,
                "--webui-port",
                str(free_port()),
            ]
            own += ["--work-dir", str(folder / f"work-{number}"), address]
            found.workers.append(stack.enter_context(_started(folder, f"worker-{number}", ["Worker", *own])))
        _wait(f"http://127.0.0.1:{page}/json/", workers)
        yield found


def event_log(folder: Path) -> dict[str, str]:
    """Settings with which Spark logs its jobs to the folder, which is made."""
    folder.mkdir()
    given = {"enabled": "true", "dir": f"file://{folder}", "compress": "false", "rolling.enabled": "false"}
    return {f"spark.eventLog.{name}": value for name, value in given.items()}


def executors_used(folder: Path) -> set[str]:
    """The ids of the executors that ran tasks, by the log; `driver` is one of them if it did."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    events = (json.loads(line) for path in files for line in path.read_text().splitlines())
    return {event["Task Info"]["Executor ID"] for event in events if "Task Info" in event}


@contextmanager
def _started(folder: Path, name: str, arguments: list[str]) -> Iterator[int]:
    """The process id."""
    kind, *rest = arguments
    main = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [SPARK_HOME / "bin" / "spark-class", main, *rest], stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait(30)


def _wait(page: str, workers: int) -> None:
    """Until all workers are at the master."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            with urlopen(page, timeout=5) as answer:
                if f'"aliveworkers" : {workers}' in answer.read().decode():
                    return
        except (URLError, OSError):
            pass
        time.sleep(0.2)
    raise TimeoutError(f"no {workers} workers within a minute")


def submitted(
    master: str,
    program: Sequence[str | Path],
    *,
    packages: Sequence[str] = (),
    conf: Mapping[str, str] | None = None,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """The end of a program that `spark-submit` ran, with its arguments, on a cluster; `variables`: of its
    environment."""
    given = [f"--master={master}", *(f"--conf={name}={value}" for name, value in (conf or {}).items())]
    if packages:
        given.append(f"--packages={','.join(packages)}")
    env = environment(**variables) | {"PYSPARK_PYTHON": sys.executable}
    return subprocess.run(
        [SPARK_HOME / "bin" / "spark-submit", *given, *program],
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
