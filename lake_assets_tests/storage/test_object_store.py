"""Listing, reading and naming objects: the same rules in a folder and in a bucket."""

import os
import threading
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from botocore.exceptions import (
    ClientError,
)
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from lake_assets.config import S3Config
from lake_assets.storage.object_store import LocalStore, ObjectGone, S3Store, StoreError, open_store

KEYS = [
    "a-b/t/LOAD00000001.csv",
    "a.csv",
    "a/b.csv",
    "a/b/c.csv",
    "a/b0.csv",
    "a0/x.csv",
    "public/Order Lines/20240501-120000000.csv",
    "public/k=v%3D+&/ä.csv",
    "public/trips/LOAD00000001.csv",
    "public/trips/LOAD0000000A.csv",
]


@pytest.fixture(scope="module", params=["local", "s3"])
def store(request, tmp_path_factory):
    """A store with KEYS, each object containing its key."""
    if request.param == "local":
        root = tmp_path_factory.mktemp("bronze")
        for key in KEYS:
            (root / key).parent.mkdir(parents=True, exist_ok=True)
            (root / key).write_text(key)
        return open_store(str(root), S3Config())
    bucket = request.getfixturevalue("new_bucket")()
    for key in KEYS:
        bucket.put_object(Key=f"landing/{key}", Body=key.encode())
    bucket.put_object(Key="landing/", Body=b"")
    bucket.put_object(Key="landing2/other.csv", Body=b"not below the prefix")
    return open_store(f"s3://{bucket.name}/landing", request.getfixturevalue("s3"))


def test_lists_in_the_order_of_keys(store):
    listed = list(store.list())
    assert [obj.key for obj in listed] == sorted(KEYS)
    assert [obj.size for obj in listed] == [len(obj.key.encode()) for obj in listed]
    assert all(
        obj.last_modified.tzinfo is UTC or obj.last_modified.utcoffset().seconds == 0 for obj in listed
    )


def test_an_object_that_is_written_again_keeps_what_it_has_beside_its_content(new_bucket, s3):
    """Lifecycle rules go by tags and storage class, and readers by metadata."""
    bucket = new_bucket()
    store = S3Store(f"{bucket.name}/landing", s3)
    given = {
        "Metadata": {"task": "dms-1"},
        "StorageClass": "STANDARD_IA",
        "ContentType": "text/csv",
        "ContentEncoding": "gzip",
        "ServerSideEncryption": "AES256",
    }
    bucket.put_object(
        Key="landing/a.csv", Body=b"two rows", Tagging="team=bikes%20%2B%20racks%3D1&keep=7y", **given
    )
    (former,) = store.list()
    store.write("a.csv", b"a row", former)
    client = bucket.meta.client
    written = client.get_object(Bucket=bucket.name, Key="landing/a.csv")
    assert {name: written.get(name) for name in given} == given
    assert written["Body"].read() == b"a row"
    tags = client.get_object_tagging(Bucket=bucket.name, Key="landing/a.csv")["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"team": "bikes + racks=1", "keep": "7y"}
    bucket.put_object(Key="landing/old.csv", Body=b"x", StorageClass="GLACIER", Metadata={"task": "dms-1"})
    (_, archived) = store.list()
    store.write("old.csv", b"y", archived)
    again = client.get_object(Bucket=bucket.name, Key="landing/old.csv")
    assert again["Metadata"] == {"task": "dms-1"}
    assert again["Body"].read() == b"y", "the proof of an erasure reads it"
    store.write("a.csv", b"another file")
    plain = client.get_object(Bucket=bucket.name, Key="landing/a.csv")
    assert ("StorageClass" in plain, plain["Metadata"]) == (False, {}), "a new file has the bucket's defaults"


def test_removes_an_object(store):
    store.write("removed/one.csv", b"x")
    store.remove("removed/one.csv")
    store.remove("removed/one.csv")
    assert "removed/one.csv" not in [obj.key for obj in store.list()]


def test_removes_the_object_that_was_listed_and_no_other(store):
    listed = store.write("removed/same.csv", b"x")
    store.write("removed/same.csv.gz", b"y")
    assert store.remove_same(listed)
    assert not store.remove_same(listed)
    (other,) = store.list("removed/same.csv")
    assert other.key == "removed/same.csv.gz"
    store.write("removed/same.csv", b"written again")
    assert not store.remove_same(listed)
    assert [obj.key for obj in store.list("removed/same.csv")] == ["removed/same.csv", "removed/same.csv.gz"]
    for obj in store.list("removed/"):
        store.remove(obj.key)


def test_removes_no_object_that_is_written_again_after_it_was_listed(new_bucket, s3, monkeypatch):
    """Between the listing and the deletion: S3 compares the ETag."""
    bucket = new_bucket()
    store = S3Store(f"{bucket.name}/landing", s3)
    listed = store.write("a.csv", b"x")
    sent = []

    def delete(**request):
        sent.append(request)
        raise ClientError({"Error": {"Code": "PreconditionFailed"}}, "DeleteObject")

    # The server of the tests knows no condition.
    monkeypatch.setattr(
        S3Store, "_client", SimpleNamespace(delete_object=delete, get_paginator=store._client.get_paginator)
    )
    assert not store.remove_same(listed)
    assert sent == [{"Bucket": bucket.name, "Key": "landing/a.csv", "IfMatch": f'"{listed.etag}"'}]


@pytest.mark.parametrize(
    "start_after", [None, "a", "a/b", "a/b.csv", "a/b/c.csv", "public/trips/LOAD00000001.csv", "z"]
)
@pytest.mark.parametrize(
    "prefix", ["", "a", "a/", "a/b", "a/b/", "public/trips/", "public/trips/LOAD0", "nothing"]
)
def test_prefix_and_start_after(store, prefix, start_after):
    expected = [key for key in sorted(KEYS) if key.startswith(prefix) and key > (start_after or "")]
    assert [obj.key for obj in store.list(prefix, start_after)] == expected


def test_reads_what_it_lists(store):
    for obj in store.list():
        with store.open(obj.key) as stream:
            assert stream.read(3) + stream.read() == obj.key.encode()


def test_seeks_on_demand(store):
    key = KEYS[-1]
    content = key.encode()
    with store.open(key, seekable=True) as file:
        assert file.seekable()
        assert file.seek(-4, os.SEEK_END) == len(content) - 4
        assert file.read() == content[-4:]
        assert file.read() == b""
        file.seek(2)
        assert file.read(3) == content[2:5]
        file.seek(1, os.SEEK_CUR)
        assert (file.tell(), file.read(100)) == (6, content[6:])
    with pytest.raises(ObjectGone), store.open("nothing.csv", seekable=True):
        pass


def test_ranges_of_two_contents_do_not_mix(new_bucket, s3):
    bucket = new_bucket()
    bucket.put_object(Key="x", Body=b"first")

    def read_in_two_ranges():
        with open_store(f"s3://{bucket.name}", s3).open("x", seekable=True) as file:
            assert file.read(2) == b"fi"
            bucket.put_object(Key="x", Body=b"second")
            file.read(2)

    with pytest.raises(ObjectGone, match="changed"):
        read_in_two_ranges()


def test_versions_tell_contents_apart(store):
    versions = {store.version(obj) for obj in store.list()}
    assert len(versions) == len(KEYS)
    assert not any('"' in version for version in versions)


def test_a_vanished_object_is_gone(store):
    with pytest.raises(ObjectGone, match="nothing"), store.open("nothing.csv"):
        pass


def test_more_than_two_pages_of_s3(new_bucket, s3):
    bucket = new_bucket()
    keys = [f"public/trips/LOAD{number:08X}.csv" for number in range(1, 2206)]
    behind_the_server = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]  # the server needs 5 ms for a PUT
    for key in keys:
        behind_the_server.put_object(bucket.name, f"in/{key}", b"x")
    store = open_store(f"s3://{bucket.name}/in/", s3)
    assert [obj.key for obj in store.list()] == keys
    assert [obj.key for obj in store.list("public/", keys[3])] == keys[4:]


def test_a_store_that_pages_in_another_way_is_refused(new_bucket, s3, monkeypatch):
    store = open_store(f"s3://{new_bucket().name}/in/", s3)
    paginator = SimpleNamespace(paginate=lambda **request: [{"IsTruncated": True, "NextMarker": "a"}])
    monkeypatch.setattr(S3Store, "_client", SimpleNamespace(get_paginator=lambda name: paginator))
    with pytest.raises(StoreError, match="only a part of its objects"):
        list(store.list())


@pytest.mark.parametrize(
    ("location", "shown", "uri"),
    [
        ("s3://lake/dms/in", "s3://lake/dms/in", "s3a://lake/dms/in/public/Order Lines/%3D.csv"),
        ("s3://lake/dms/in/", "s3://lake/dms/in", "s3a://lake/dms/in/public/Order Lines/%3D.csv"),
        ("s3://lake", "s3://lake", "s3a://lake/public/Order Lines/%3D.csv"),
        ("/data/bronze", "/data/bronze", "file:///data/bronze/public/Order Lines/%3D.csv"),
        ("file:///data/bronze/", "/data/bronze", "file:///data/bronze/public/Order Lines/%3D.csv"),
    ],
)
def test_addresses(location, shown, uri):
    store = open_store(location, S3Config(region="us-east-1"))
    assert store.location == shown
    assert store.spark_uri("public/Order Lines/%3D.csv") == uri


def test_a_relative_folder_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_store("bronze", S3Config()).spark_uri("a/b/c.csv") == f"file://{tmp_path}/bronze/a/b/c.csv"


@pytest.mark.parametrize("location", ["gs://bucket/prefix", "s3://", "s3:///prefix"])
def test_a_location_that_is_none(location):
    with pytest.raises(StoreError, match="s3://bucket/prefix"):
        open_store(location, S3Config(region="us-east-1"))


def test_a_missing_folder_is_empty(tmp_path):
    assert list(LocalStore(tmp_path / "not yet").list()) == []


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "bronze").write_text("x")
    with pytest.raises(StoreError, match="is a file"):
        list(LocalStore(tmp_path / "bronze").list())


def test_hidden_files_and_pipes_are_not_listed(tmp_path):
    for name in (".LOAD00000001.csv.tmp", ".git/config", "public/trips/.x.csv", "public/trips/x.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    os.mkfifo(tmp_path / "public" / "pipe.csv")
    (tmp_path / "public" / "dangling.csv").symlink_to(tmp_path / "nowhere")
    assert [obj.key for obj in LocalStore(tmp_path).list()] == ["public/trips/x.csv"]


def test_files_that_vanish_and_appear_while_listing(tmp_path):
    for table in range(20):
        (tmp_path / f"s/t{table:02}").mkdir(parents=True)
        for number in range(20):
            (tmp_path / f"s/t{table:02}/{number:02}.csv").write_text("x")
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            for table in range(1, 20, 2):
                for number in range(20):
                    with suppress(FileNotFoundError):
                        (tmp_path / f"s/t{table:02}/{number:02}.csv").unlink()
                (tmp_path / f"s/t{table:02}").rmdir()
                (tmp_path / f"s/t{table:02}").mkdir()
                (tmp_path / f"s/t{table:02}/new.csv").write_text("x")
                (tmp_path / f"s/t{table:02}/new.csv").unlink()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(30):
            keys = [obj.key for obj in LocalStore(tmp_path).list()]
            assert keys == sorted(keys)
            steady = [key for key in keys if int(key[3:5]) % 2 == 0]
            assert len(steady) == 200, "what nobody touched is always there"
    finally:
        stop.set()
        thread.join()


def test_local_times_are_whole_microseconds(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("x")
    os.utime(path, ns=(0, 1_714_564_800_123_456_789))
    (obj,) = LocalStore(tmp_path).list()
    assert obj.last_modified == datetime(2024, 5, 1, 12, 0, 0, 123456, UTC)


def test_a_file_that_changes_while_it_is_hashed(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("first")
    store = LocalStore(tmp_path)
    (listed,) = store.list()
    first = store.version(listed)
    path.write_text("second, longer")
    assert store.version(listed) == first, "that version was seen, and is known by its size and time"
    (again,) = store.list()
    path.write_text("third, longer still")
    with pytest.raises(ObjectGone, match="changed"):
        store.version(again)
