"""Local folders and S3 (moto's server)."""

from typing import Any

import boto3
import pytest

from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.dms.output_storage import LocalStorage, open_storage
from lake_assets.demo.feed import run_feed
from lake_assets.demo.history import generate_history
from lake_assets.demo.replay import replay_files
from lake_assets_tests.helpers.oracles.demo_history import END, differences
from lake_assets_tests.helpers.processes.faults import Killed
from lake_assets_tests.helpers.servers.s3 import s3_server


@pytest.fixture
def s3(monkeypatch):
    """A client; the endpoint is in the environment, as in a deployment."""
    with s3_server() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield boto3.client("s3")


def test_history_and_feed_in_s3(s3, tmp_path):
    s3.create_bucket(Bucket="histories")
    settings = DmsWriterSettings(compression="gzip")
    database = tmp_path / "source.db"
    sizes: dict[str, Any] = {
        "changes": 400,
        "days": 1,
        "stations": 8,
        "bikes": 60,
        "members": 40,
        "past_trips": 80,
    }
    written = generate_history("s3://histories/dms/bronze/", database, end=END, settings=settings, **sizes)
    keys = [found["Key"] for found in s3.list_objects_v2(Bucket="histories")["Contents"]]
    assert len(keys) == written.load_files + written.cdc_files
    assert "dms/bronze/public/trips/LOAD00000001.csv.gz" in keys
    assert differences("s3://histories/dms/bronze", database, settings) == {}

    fed = run_feed("s3://histories/dms/bronze", database, rate=300, duration=0.5, seed=1)
    assert fed.changes > 20
    assert differences("s3://histories/dms/bronze", database, settings) == {}

    with pytest.raises(FileExistsError):
        generate_history(
            "s3://histories/dms/bronze", tmp_path / "other.db", end=END, settings=settings, **sizes
        )
    s3.put_object(Bucket="histories", Key="dms/bronze/public/someone_elses/LOAD00000001.csv", Body=b"")
    generate_history(
        "s3://histories/dms/bronze", database, end=END, settings=settings, overwrite=True, **sizes
    )
    assert [found["Key"] for found in s3.list_objects_v2(Bucket="histories")["Contents"]] == sorted(
        [*keys, "dms/bronze/public/someone_elses/LOAD00000001.csv"]
    ), "only the seven tables' files were replaced"


def test_an_endpoint_can_be_given(s3, monkeypatch):
    endpoint = s3.meta.endpoint_url
    s3.create_bucket(Bucket="other-lake")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    storage = open_storage("s3://other-lake", endpoint_url=endpoint)
    storage.write("a/b", b"1")
    storage.write("a/c", b"2")
    assert (list(storage.list("a/")), storage.read("a/b")) == (["a/b", "a/c"], b"1")
    storage.remove("a/b")
    assert list(storage.list("")) == ["a/c"]


@pytest.mark.parametrize("location", ["s3://", "s3:///x", "gs://bucket/x"])
def test_locations_that_are_none(location):
    with pytest.raises(ValueError, match="location"):
        open_storage(location)


def test_a_local_write_shows_whole_files_only(tmp_path, monkeypatch):
    storage = LocalStorage(tmp_path)
    storage.write("public/trips/a.csv", b"old")

    def die(self, target):
        assert self.name.startswith("."), "a temporary file is hidden"
        raise Killed

    monkeypatch.setattr("pathlib.Path.replace", die)
    with pytest.raises(Killed):
        storage.write("public/trips/a.csv", b"new and longer")
    assert storage.read("public/trips/a.csv") == b"old"
    assert list(storage.list("public/trips/")) == ["public/trips/a.csv"], "a hidden file is nobody's"
    monkeypatch.undo()
    storage.write("public/trips/a.csv", b"new and longer")
    assert [path.name for path in (tmp_path / "public" / "trips").iterdir()] == ["a.csv"]


def test_a_missing_folder_is_an_empty_location(tmp_path):
    assert all(not rows for rows in replay_files(tmp_path / "none", DmsWriterSettings()).values())
