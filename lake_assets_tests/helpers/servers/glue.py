"""moto's Glue, which takes a commit only if it follows the one that the client has read, as AWS does.

Without that, moto ignores the `VersionId` of UpdateTable, and of two commits at once the later one replaces the other.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import yaml

from lake_assets_tests.helpers.processes.child import ROOT
from lake_assets_tests.helpers.servers.s3 import ACCESS, s3_server


@contextmanager
def glue_server() -> Iterator[str]:
    """The address of a server with S3, and with an empty Glue that refuses stale commits."""
    empty_glue()
    with strict_glue(), s3_server() as endpoint:
        yield endpoint


@contextmanager
def strict_glue() -> Iterator[None]:
    """The Glue of all of moto's servers in this process refuses stale commits."""
    from moto.glue.responses import GlueResponse

    lock, plain = threading.Lock(), GlueResponse.update_table

    def update_table(self: Any) -> Any:
        with lock:
            _refuse_stale(self)
            return plain(self)

    with patch.object(GlueResponse, "update_table", update_table):
        yield


def empty_glue() -> None:
    """Drops all databases: all of moto's servers in a process have the same ones."""
    from moto.glue.models import glue_backends

    for account in glue_backends.values():
        for backend in account.values():
            backend.reset()


def _refuse_stale(request: Any) -> None:
    from moto.glue.exceptions import GlueClientError

    given, wanted = request.parameters, request.parameters["TableInput"]
    table = request.glue_backend.get_table(given["DatabaseName"], wanted["Name"])
    asked = given.get("VersionId")
    if asked is not None and str(asked) != str(table._current_version):
        raise GlueClientError(
            "ConcurrentModificationException", "Update table failed due to concurrent modifications."
        )


def demonstration_in_glue(endpoint: str, bucket: str) -> dict[str, Any]:
    """The demonstration's lake.yaml for such a server."""
    lake: dict[str, Any] = yaml.safe_load((ROOT / "lake.yaml").read_text(encoding="utf-8"))
    lake["catalog"] = tables_in_glue(endpoint, f"s3://{bucket}/warehouse")
    lake["sources"]["bikeshare"]["location"] = f"s3://{bucket}/bronze"
    lake["sources"]["bikeshare"]["s3"] = {"endpoint": endpoint, "path_style": True, **ACCESS}
    return lake


def tables_in_glue(endpoint: str, warehouse: str) -> dict[str, str]:
    """The section `catalog` of lake.yaml for such a server."""
    access = {"region": ACCESS["region"], "access-key-id": ACCESS["access_key_id"]}
    access |= {"secret-access-key": ACCESS["secret_access_key"], "endpoint": endpoint}
    return {
        "name": "lake",
        "type": "glue",
        "warehouse": warehouse,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": ACCESS["region"],
        "s3.path-style-access": "true",
        **{f"{service}.{key}": value for service in ("glue", "s3") for key, value in access.items()},
    }
