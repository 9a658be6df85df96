"""SeaweedFS on this machine: S3, and a REST catalog that speaks as Amazon S3 Tables does."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tenacity import Retrying, stop_after_delay, wait_fixed

from lake_assets.config import CatalogConfig
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.processes.child import environment
from lake_assets_tests.helpers.servers.s3 import ACCESS, files_in_s3

BUCKET, TABLES = "files", "tables"
"""A bucket for files, and one for tables, which are there."""
SECONDS = 30


class SeaweedFS(NamedTuple):
    """The addresses of both services."""

    s3: str
    catalog: str

    def tables(self) -> dict[str, str]:
        """The section `catalog` of lake.yaml. The store refuses deletion vectors: tables need `format_version: 2`."""
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
            **files_in_s3(self.s3),
        }


@contextmanager
def seaweedfs(folder: Path) -> Iterator[SeaweedFS]:
    """Runs inside of the block; its files are in `folder`."""
    ports = [free_port() for _ in range(2)]
    found = SeaweedFS(*(f"http://127.0.0.1:{port}" for port in ports))
    # By default, it listens to all of the machine's addresses, and reports its use.
    given = {"ip": "127.0.0.1", "ip.bind": "127.0.0.1", "metricsIp": "127.0.0.1", "admin.ui": "false"}
    given |= {"master.telemetry": "false", "dir": str(folder), "bucket": BUCKET, "tableBucket": TABLES}
    given |= {"s3.port": str(ports[0]), "s3.port.iceberg": str(ports[1]), "s3.port.lance": "0"}
    keys = {
        "AWS_ACCESS_KEY_ID": ACCESS["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": ACCESS["secret_access_key"],
    }
    with (folder / "weed.log").open("wb") as log:
        process = subprocess.Popen(
            [
                Path(sys.executable).with_name("weed"),
                "mini",
                *(f"-{key}={value}" for key, value in given.items()),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment(**keys),
        )
    try:
        _wait(found)
        yield found
    finally:
        process.terminate()
        process.wait(SECONDS)


def _wait(server: SeaweedFS) -> None:
    """Until the bucket for tables is there, which is made last."""
    policy = Retrying(stop=stop_after_delay(SECONDS), wait=wait_fixed(0.1), reraise=True)
    policy(lambda: open_catalog(CatalogConfig.model_validate(server.tables())).list_namespaces())
