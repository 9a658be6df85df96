"""A Spark Connect server on this machine: warm Spark for every process of a local lake.

Here: starting one with the lake's jars and settings, finding it again, stopping it. Not here: sessions on it
(`session.py`). Spark's own script for this (`sbin/start-connect-server.sh`) is not in the Python package.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from lake_assets.config import LakeConfig
from lake_assets.errors import LakeError
from lake_assets.preflight import PreflightError, check_java, check_port
from lake_assets.spark.session import check_server, server_address
from lake_assets.spark.settings import spark_conf

MAIN_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
PID_FILE = "spark-connect.pid"
"""Process id and port."""
START_SECONDS = 180.0
"""The first start on a machine also downloads the jars."""
STOP_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Running:
    """A server that was started here."""

    pid: int
    megabytes: float
    """Resident memory."""
    seconds: float
    """Since its start."""


class ConnectServer:
    """The one server of a lake on this machine, known by a file with its process id beside the lake."""

    def __init__(self, lake: LakeConfig, folder: Path) -> None:
        """`folder` gets the process id and the log. Raises LakeError for a server that is on another machine."""
        self._lake = lake
        self.host, self.port = server_address(lake.spark.remote)
        if self.host not in LOCAL_HOSTS:
            raise LakeError(
                f"spark.remote is {lake.spark.address}, on another machine: it is started and stopped there."
            )
        self._pid_file = folder / PID_FILE
        self.log = folder / "spark-connect.log"

    def running(self) -> Running | None:
        """The server, if it lives."""
        process = self._process()
        if process is None:
            return None
        with process.oneshot():
            memory = process.memory_info().rss / 2**20
            return Running(process.pid, round(memory, 1), round(time.time() - process.create_time(), 1))

    def start(self) -> Running:
        """Starts it and waits until it answers; gives the one that runs already. Raises PreflightError when the
        machine lacks Java or the port is taken, LakeError when it does not come up."""
        if (found := self.running()) is not None:
            return found
        check_java()
        check_port(self.port, "the Spark Connect server", flag="spark.remote in lake.yaml")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with _properties_file(self._settings()) as properties, self.log.open("ab") as log:
            environment = {
                k: v for k, v in os.environ.items() if k not in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
            }
            process = subprocess.Popen(
                [
                    str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
                    *("--properties-file", properties, "--class", MAIN_CLASS, "spark-internal"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
            self._pid_file.write_text(f"{process.pid} {self.port}\n", encoding="ascii")
            self._wait(process)
        found = self.running()
        assert found is not None, "it has just answered"
        return found

    def stop(self) -> bool:
        """Stops it; whether there was one. What it was doing is given up: a batch is published whole or not at all."""
        process = self._process()
        if process is None:
            return False
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)
        self._pid_file.unlink(missing_ok=True)
        return True

    def _process(self) -> psutil.Process | None:
        process, port = _started(self._pid_file)
        return process if port == self.port else None

    def _settings(self) -> dict[str, str]:
        return spark_conf(self._lake) | {
            "spark.app.name": f"lake_assets {self._lake.catalog.name}",
            # As it ships, it listens to the whole network.
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            # Of a process that was killed: what it had cached is in the way of the others.
            "spark.connect.session.manager.defaultSessionTimeout": "10m",
        }

    def _wait(self, process: "subprocess.Popen[bytes]") -> None:
        end = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < end:
            try:
                check_server(self._lake.spark.remote)
            except PreflightError:
                time.sleep(0.2)
            else:
                return
        state = "did not come up" if process.poll() is None else f"ended with exit code {process.returncode}"
        process.kill()
        self._pid_file.unlink(missing_ok=True)
        raise LakeError(f"The Spark Connect server {state}: see {self.log}.")


def port_in_use(folder: Path) -> int | None:
    """The port of the server that was started for the lake with that folder, if it lives."""
    process, port = _started(folder / PID_FILE)
    return port if process is not None else None


def _started(pid_file: Path) -> tuple[psutil.Process | None, int]:
    try:
        pid, port = map(int, pid_file.read_text(encoding="ascii").split())
        process = psutil.Process(pid)
        # A number may be another program's by now.
        ours = any(MAIN_CLASS in part for part in process.cmdline())
        alive = process.status() != psutil.STATUS_ZOMBIE
    except (FileNotFoundError, ValueError, psutil.Error):
        return None, 0
    return (process if ours and alive else None), port


@contextmanager
def _properties_file(conf: dict[str, str]) -> Iterator[str]:
    """Settings for spark-submit in a file that nobody else can read, gone after the block: there may be secrets among
    them, and everybody can read a command line."""
    lines = (f"{key}={value.replace(chr(92), chr(92) * 2)}\n" for key, value in conf.items())
    descriptor, name = tempfile.mkstemp(prefix="spark-", suffix=".conf")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(lines)
        yield name
    finally:
        Path(name).unlink()
