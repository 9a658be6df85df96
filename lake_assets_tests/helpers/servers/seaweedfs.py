"""SeaweedFS on this machine: S3, and a REST catalog that speaks as Amazon S3 Tables does."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from tenacity import Retrying, stop_after_delay, wait_fixed

from lake_assets.config import CatalogConfig
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.processes.child import ROOT, environment
from lake_assets_tests.helpers.servers.s3 import ACCESS, files_in_s3

BUCKET, TABLES = "files", "tables"
"""A bucket for files, and one for tables, which are there."""
SECONDS = 60
_PORTS = ("s3.port", "s3.port.iceberg", "master.port", "volume.port", "filer.port", "admin.port")
_GRPC = tuple(
    f"{name}.grpc" for name in ("s3.port", "master.port", "volume.port", "filer.port", "admin.port")
)


class SeaweedFS:
    """The server; it has the same ports and files when it starts again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = {name: free_port() for name in (*_PORTS, *_GRPC)}
        self._process: subprocess.Popen[bytes] | None = None
        self.s3, self.catalog = (f"http://127.0.0.1:{self._ports[name]}" for name in _PORTS[:2])

    def tables(self, s3: str | None = None) -> dict[str, str]:
        """The section `catalog` of lake.yaml. The store refuses deletion vectors: tables need `format_version: 2`.
        `s3`: another address of it."""
        keys = {"access-key-id": ACCESS["access_key_id"], "secret-access-key": ACCESS["secret_access_key"]}
        return {
            "name": "lake",
            "type": "rest",
            "uri": self.catalog,
            "warehouse": f"s3://{TABLES}",
            "rest.sigv4-enabled": "true",
            "rest.signing-name": "s3tables",
            "rest.signing-region": ACCESS["region"],
            **{f"{client}.{key}": value for client in ("rest", "client") for key, value in keys.items()},
            **files_in_s3(s3 or self.s3),
        }

    def start(self) -> None:
        """Returns when it answers."""
        # By default, it listens to all of the machine's addresses, and reports its use.
        given = {"ip": "127.0.0.1", "ip.bind": "127.0.0.1", "metricsIp": "127.0.0.1", "admin.ui": "false"}
        given |= {"master.telemetry": "false", "webdav": "false", "s3.port.lance": "0"}
        given |= {"dir": str(self._folder), "bucket": BUCKET, "tableBucket": TABLES}
        given |= {name: str(port) for name, port in self._ports.items()}
        keys = {f"AWS_{key.upper()}": ACCESS[key] for key in ("access_key_id", "secret_access_key")}
        weed = Path(sys.executable).with_name("weed")
        with (self._folder / "weed.log").open("ab") as log:
            self._process = subprocess.Popen(
                [weed, "mini", *(f"-{name}={value}" for name, value in given.items())],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=environment(**keys),
            )
        # The bucket for tables is made last.
        policy = Retrying(stop=stop_after_delay(SECONDS), wait=wait_fixed(0.1), reraise=True)
        policy(lambda: open_catalog(CatalogConfig.model_validate(self.tables())).list_namespaces())

    def kill(self) -> None:
        """Ends it without a warning."""
        assert self._process is not None, "it was started"
        self._process.kill()
        self._process.wait(SECONDS)


@contextmanager
def seaweedfs(folder: Path) -> Iterator[SeaweedFS]:
    """Runs inside of the block; its files are in `folder`."""
    server = SeaweedFS(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def demonstration_in_seaweedfs(server: SeaweedFS, s3: str | None = None) -> dict[str, Any]:
    """The demonstration's lake.yaml for the server, without its marts; `s3`: another address of its S3."""
    lake: dict[str, Any] = yaml.safe_load((ROOT / "lake.yaml").read_text(encoding="utf-8"))
    lake |= {"catalog": server.tables(s3), "format_version": 2}
    source = lake["sources"]["bikeshare"]
    source["location"] = f"s3://{BUCKET}/bronze"
    source["s3"] = {"endpoint": s3 or server.s3, "path_style": True, **ACCESS}
    # SeaweedFS 4.48 takes the id 0, which Spark gives to the first column of a new table, for a missing one.
    del source["tables"]["public.app_events"]["partition_by"]
    del lake["gold"], lake["alarms"]
    return lake
