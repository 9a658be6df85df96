"""A catalog that is down, refuses the password or has no credentials: one sentence and exit code 2, from every command
that asks it, for each kind of catalog."""

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from pyiceberg.catalog import glue
from pyiceberg.exceptions import NoSuchTableError

from lake_assets.config import S3Config
from lake_assets.errors import LakeError
from lake_assets.iceberg.catalog_faults import fault_of
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.lakes.command_lake import call
from lake_assets_tests.helpers.lakes.small_lakes import DMS, ITEMS
from lake_assets_tests.helpers.servers.postgresql import PASSWORD

COMMANDS = (["status"], ["sync"], ["maintain"], ["quarantine", "list"], ["latency"])
SECRET = "hush-hush"


class Refusing(BaseHTTPRequestHandler):
    """A REST catalog that knows nobody."""

    def do_GET(self) -> None:
        said = {"error": {"message": "who are you?", "type": "NotAuthorizedException", "code": 401}}
        body = json.dumps(said).encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def refusing() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def refused(
    folder: Path,
    catalog: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    *said: str,
    commands: Sequence[list[str]] = COMMANDS,
) -> None:
    """Every command says so in one line, without a secret."""
    source = {"location": "bronze", "dms": DMS, "tables": {"public.items": ITEMS}}
    config = {"catalog": {"warehouse": "s3://bucket/warehouse"} | catalog, "sources": {"shop": source}}
    (folder / "lake.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    for command in commands:
        assert call(folder, *command) == 2, command
        told = capsys.readouterr()
        (line,) = (told.out + told.err).strip().splitlines()
        assert line.startswith("The catalog"), line
        for part in ("cannot be used: ", *said):
            assert part in line
        assert SECRET not in line
        assert quote(PASSWORD, safe="") not in line
        assert PASSWORD not in line


def test_a_sqlite_file_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "catalog.db").write_bytes(b"this is no database " * 100)
    refused(tmp_path, {"uri": "catalog.db"}, capsys, "catalog.db", "not a database", "Correct catalog.uri")


def test_a_sqlite_folder_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    refused(tmp_path, {"uri": "file/catalog.db"}, capsys, "sqlite at", "Correct catalog.uri")


def test_a_database_that_is_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    uri = f"jdbc:postgresql://127.0.0.1:{port}/lake?user=u&password={SECRET}"
    refused(tmp_path, {"type": "jdbc", "uri": uri}, capsys, str(port), "refused", "Start the database")


def test_a_database_that_refuses_the_password(
    tmp_path: Path,
    postgresql: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = f"jdbc:{postgresql.replace(quote(PASSWORD, safe=''), SECRET)}"
    refused(tmp_path, {"type": "jdbc", "uri": uri}, capsys, "password authentication failed")


def test_a_rest_catalog_that_is_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    catalog = {"type": "rest", "uri": f"http://127.0.0.1:{port}", "token": SECRET}
    refused(tmp_path, catalog, capsys, str(port), "refused", "Start the service")


def test_a_rest_catalog_that_refuses(
    tmp_path: Path, refusing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = {"type": "rest", "uri": refusing, "token": SECRET}
    refused(tmp_path, catalog, capsys, "who are you?", "credentials")


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any AWS credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))


@pytest.mark.usefixtures("nobody")
def test_glue_without_credentials(tmp_path: Path, s3: S3Config, capsys: pytest.CaptureFixture[str]) -> None:
    catalog = {"type": "glue", "glue.endpoint": s3.endpoint, "glue.region": "us-east-1"}
    refused(tmp_path, catalog, capsys, "Unable to locate credentials")


@pytest.mark.usefixtures("nobody")
def test_glue_that_is_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ten of them take half a minute. PyIceberg's property for it takes no number from a file.
    monkeypatch.setattr(glue, "MAX_RETRIES", 1)
    catalog = {
        "type": "glue",
        "glue.endpoint": f"http://127.0.0.1:{free_port()}",
        "glue.region": "us-east-1",
        "glue.access-key-id": "key",
        "glue.secret-access-key": SECRET,
    }
    refused(tmp_path, catalog, capsys, "Could not connect to the endpoint URL", commands=COMMANDS[:1])


@pytest.mark.parametrize("error", [LakeError("x"), NoSuchTableError("x"), ValueError("x"), OSError("x")])
def test_other_errors_are_not_the_catalogs(error: Exception) -> None:
    assert fault_of(error) is None
