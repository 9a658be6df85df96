"""A broker of Kafka on this machine, from its jars: nothing is installed by hand.

Here: fetching the jars once, starting one broker, and its end. Not here: topics, messages.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lake_assets.bronze.stream.clients.kafka import silent_logger
from lake_assets.spark.preflight import PreflightError, check_java, find_java, free_port

VERSION = "4.2.2"
PACKAGES = f"org.apache.kafka:kafka_2.13:{VERSION},org.slf4j:slf4j-nop:1.7.36"
START_SECONDS, STOP_SECONDS = 120.0, 30.0
CLUSTER = "bGFrZV9hc3NldHMgZGVtbw"
"""The cluster's id: 16 bytes in the letters of base64."""
_FETCH = (
    "import sys; from pyspark.sql import SparkSession; "
    "SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')"
    ".config('spark.jars.packages', sys.argv[1]).config('spark.jars.ivy', sys.argv[2]).getOrCreate().stop()"
)
_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def fetched_jars() -> Path:
    """The folder with the broker's jars; the first call downloads them as Spark downloads its own. Raises
    PreflightError."""
    home = Path.home() / ".cache" / "lake_assets" / f"kafka-{VERSION}"
    if not (jars := home / "jars").exists():
        check_java()
        # Another process may fetch them at the same time: the first one's are taken.
        new = home.with_suffix(f".{os.getpid()}")
        command = [sys.executable, "-c", _FETCH, PACKAGES, str(new)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PreflightError(f"Kafka's jars cannot be fetched: {done.stderr.strip().splitlines()[-1]}")
        with contextlib.suppress(OSError):
            new.rename(home)
        shutil.rmtree(new, ignore_errors=True)
    return jars


@contextmanager
def kafka_broker(folder: Path, number: int = 1, controller: int | None = None) -> Iterator[str]:
    """The address of a broker that runs inside of the block, with its log in the folder. `number`: of the broker, which
    is also the cluster's controller if it is the first. `controller`: the first one's port as such; by default, any.
    Raises PreflightError."""
    jars, port, controller = fetched_jars(), free_port(), controller or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "process.roles": "broker,controller" if number == 1 else "broker",
        "node.id": str(number),
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}"
        + (f",CONTROLLER://127.0.0.1:{controller}" if number == 1 else ""),
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(folder / "log"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "auto.create.topics.enable": "false",
    }
    properties = folder / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    java = [str(find_java(os.environ)[0]), *_OPTIONS, "-cp", f"{jars}/*{os.pathsep}{_scala()}"]
    tool = [*java, "kafka.tools.StorageTool"]
    subprocess.run(
        [*tool, "format", "--ignore-formatted", "-t", CLUSTER, "-c", properties],
        capture_output=True,
        check=True,
    )
    with (folder / "broker.log").open("wb") as log:
        broker = subprocess.Popen([*java, "kafka.Kafka", properties], stdout=log, stderr=log)
    try:
        _wait(f"127.0.0.1:{port}", broker, folder)
        yield f"127.0.0.1:{port}"
    finally:
        broker.terminate()
        try:
            broker.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            # A busy machine may take longer, and nothing of it is needed any more.
            broker.kill()
            broker.wait()


def _scala() -> Path:
    """Scala's library, which Spark has, and so does not fetch."""
    import pyspark

    return next(Path(pyspark.__file__).parent.glob("jars/scala-library-*.jar"))


def _wait(address: str, broker: "subprocess.Popen[bytes]", folder: Path) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": address}, logger=silent_logger())
    end = time.monotonic() + START_SECONDS
    while broker.poll() is None and time.monotonic() < end:
        try:
            admin.list_topics(timeout=1)
            return
        except KafkaException:
            time.sleep(0.2)
    raise PreflightError(f"Kafka did not start: see {folder / 'broker.log'}.")
