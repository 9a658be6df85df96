"""A Spark Connect server on this machine: warm Spark for every process of a local lake.

Here: starting it with the lake's jars and settings, finding it, stopping it. Not here: sessions on it
(`session.py`). Spark's own script for this (`sbin/start-connect-server.sh`) is not in the Python package.
"""

import os
import secrets
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from lake_assets.config import LakeConfig
from lake_assets.config.aws.secret_references import refers
from lake_assets.errors import LakeError
from lake_assets.spark.connect.connect_address import LOCAL_HOSTS, given_token, server_address
from lake_assets.spark.connect.connect_token import drop_token, keep_token
from lake_assets.spark.preflight import PreflightError, check_java, check_port
from lake_assets.spark.properties import java_environment, properties_file
from lake_assets.spark.settings import filled, spark_conf
from lake_assets.storage.aws_client import Aws

TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""PySpark's variable for the token of a server whose address has none."""
CLIENT_VARIABLES = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", TOKEN_VARIABLE)
"""Variables that make a process a client of a server; the server itself must not have them."""
MAIN_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
SESSION_TIMEOUT = "spark.connect.session.manager.defaultSessionTimeout"
"""How long the server keeps a session that nobody uses, ten minutes by default. The session of a killed process keeps
its cached data until then."""
PID_FILE = "spark-connect.pid"
"""The file with the process id and the port."""
START_SECONDS = 180.0
"""The first start on a machine also downloads the jars."""
STOP_SECONDS = 20.0
PORT_SECONDS = 10.0
"""A server that was killed holds its port until the memory of its process is gone."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running server that was started on this machine."""

    pid: int
    megabytes: float
    """Resident memory."""
    seconds: float
    """Since its start."""

    def __str__(self) -> str:
        return f"process {self.pid}, {self.megabytes:,.0f} MB, for {self.seconds:,.0f} s"


class ConnectServer:
    """The one server of a lake on this machine, known by a file with its process id beside the lake."""

    here = "here"

    def __init__(self, lake: LakeConfig, folder: Path) -> None:
        """`folder`: for the file with the process id, and the log. Raises LakeError for a server on another machine."""
        self._lake = lake
        self.host, self.port = server_address(lake.spark.remote)
        self.place = f"sc://{self.host}:{self.port}"
        if self.host not in LOCAL_HOSTS:
            raise LakeError(
                f"spark.remote is {lake.spark.address}, on another machine: it is started and stopped there."
            )
        self._pid_file = folder / PID_FILE
        self.log = folder / "spark-connect.log"

    def running(self) -> Running | None:
        """The server, or None if it does not run."""
        process = self._process()
        if process is None:
            return None
        with process.oneshot():
            memory = process.memory_info().rss / 2**20
            return Running(process.pid, round(memory, 1), round(time.time() - process.create_time(), 1))

    def start(self) -> Running:
        """Starts the server and waits until it answers; returns the running one if there is one. Raises PreflightError
        when the machine lacks Java or the port is taken, LakeError when the server does not start."""
        if (found := self.running()) is not None:
            return found
        # Here, because every command imports this module, and PySpark takes 0.2 s.
        import pyspark

        check_java()
        self._wait_for_port()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        lake = filled(self._lake, Aws(self._lake.secrets).secrets.value) if refers(self._lake) else self._lake
        token = _new_token(lake, self.port)
        with properties_file(self._settings(lake, token)) as properties, self.log.open("ab") as log:
            process = subprocess.Popen(
                [
                    str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
                    *("--properties-file", properties, "--class", MAIN_CLASS, "spark-internal"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    name: value
                    for name, value in java_environment(os.environ).items()
                    if name not in CLIENT_VARIABLES
                },
                start_new_session=True,
            )
            self._pid_file.write_text(f"{process.pid} {self.port}\n", encoding="ascii")
            self._wait(process)
        found = self.running()
        if found is None:
            raise LakeError(f"The Spark Connect server died while it started: see {self.log}.")
        return found

    def stop(self) -> bool:
        """Stops the server; returns whether one was running. Its running batches are lost; each is published whole or
        not at all."""
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
        drop_token(self.port)
        return True

    def _process(self) -> psutil.Process | None:
        process, port = _started(self._pid_file)
        return process if port == self.port else None

    def _wait_for_port(self) -> None:
        """Waits for the port of a killed server. Raises PreflightError when another program has it."""
        died = self._pid_file.exists()
        policy = Retrying(
            retry=retry_if_exception_type(PreflightError),
            stop=stop_after_delay(PORT_SECONDS if died else 0),
            wait=wait_fixed(0.2),
            reraise=True,
        )
        policy(check_port, self.port, "the Spark Connect server", flag="spark.remote in lake.yaml")

    def _settings(self, lake: LakeConfig, token: str) -> dict[str, str]:
        return (
            {SESSION_TIMEOUT: "10m"}
            | spark_conf(lake)
            | {
                "spark.app.name": f"lake_assets {lake.catalog.name}",
                # By default, it listens on all network interfaces.
                "spark.connect.grpc.binding.address": "127.0.0.1",
                "spark.connect.grpc.binding.port": str(self.port),
                # Other users of this machine can reach the port; without a token they could change every table.
                "spark.connect.authenticate.token": token,
            }
        )

    def _wait(self, process: "subprocess.Popen[bytes]") -> None:
        end = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < end:
            if _listens(process.pid, self.port):
                return
            time.sleep(0.2)
        state = "did not start" if process.poll() is None else f"ended with exit code {process.returncode}"
        process.kill()
        process.wait()
        raise LakeError(f"The Spark Connect server {state}: see {self.log}.")


def _new_token(lake: LakeConfig, port: int) -> str:
    token = given_token(lake.spark.remote) or os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(32)
    try:
        keep_token(port, token)
    except OSError as error:
        raise LakeError(
            f"The token of the Spark Connect server cannot be written to {error.filename} ({error.strerror}): set "
            "XDG_STATE_HOME to a folder that only you can read, for this command and for every other one."
        ) from error
    return token


def _listens(pid: int, port: int) -> bool:
    # Not whether something answers at the port, which may be another program.
    try:
        found = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in found)


def port_in_use(folder: Path) -> int | None:
    """The port of the running server that was started for the lake with that folder, or None."""
    process, port = _started(folder / PID_FILE)
    return port if process is not None else None


def _started(pid_file: Path) -> tuple[psutil.Process | None, int]:
    try:
        pid, port = map(int, pid_file.read_text(encoding="ascii").split())
        process = psutil.Process(pid)
        # The operating system may have given the process id to another program.
        ours = any(MAIN_CLASS in part for part in process.cmdline())
        alive = process.status() != psutil.STATUS_ZOMBIE
    except (FileNotFoundError, NotADirectoryError, ValueError, psutil.Error):
        return None, 0
    return (process if ours and alive else None), port
