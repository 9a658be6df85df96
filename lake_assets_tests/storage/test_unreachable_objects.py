"""S3 that cannot be reached, breaks off or refuses: one sentence with the object, the next step and no secret.

Here: the lake's own client. Not here: what S3 refuses to Spark or to the catalog's client (`test_refusals.py`).
"""

import io
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    IncompleteReadError,
    ReadTimeoutError,
)

from lake_assets.bronze.files.inspect import inspect_file
from lake_assets.bronze.files.keys import DataFile, parse_key
from lake_assets.config import DmsSettings
from lake_assets.storage.object_store import S3Store, StoreError, open_store
from lake_assets.storage.stored_object import StoredObject


def test_a_missing_bucket(s3):
    with pytest.raises(
        StoreError, match=r"s3://nobody-made-this/in: S3 answered NoSuchBucket; create the bucket"
    ):
        list(S3Store("nobody-made-this/in", s3).list())


def test_an_unreachable_server(s3, monkeypatch):
    store = S3Store("lake", s3)

    def fail(**_):
        raise EndpointConnectionError(endpoint_url="http://user:hush@127.0.0.1")

    monkeypatch.setattr(store._client, "list_objects_v2", fail)
    with pytest.raises(
        StoreError, match=r"s3://lake cannot be reached \(EndpointConnectionError\)"
    ) as raised:
        list(store.list())
    assert "hush" not in str(raised.value)


def test_a_stream_that_breaks_off(s3, new_bucket):
    bucket = new_bucket()
    bucket.put_object(Key="x", Body=b"x")
    with (
        pytest.raises(StoreError, match="IncompleteReadError"),
        open_store(f"s3://{bucket.name}", s3).open("x"),
    ):
        raise IncompleteReadError(actual_bytes=1, expected_bytes=2)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("AccessDenied", "grant s3:ListBucket"),
        ("InvalidAccessKeyId", "renew the credentials"),
        ("PermanentRedirect", "set s3.region"),
        ("SlowDown", "S3 limits the rate of requests"),
        ("KMS.DisabledException", "enable or restore the KMS key"),
        ("NewCode", "look the code up"),
    ],
)
def test_a_refusal_names_the_next_step_and_no_secret(s3, monkeypatch, code, advice):
    store = S3Store("lake/in", s3)

    def refuse(**_):
        raise ClientError({"Error": {"Code": code, "Message": "AKIA-X may not"}}, "ListObjectsV2")

    monkeypatch.setattr(store._client, "list_objects_v2", refuse)
    with pytest.raises(StoreError, match=rf"s3://lake/in: S3 answered {code}; .*{advice}") as raised:
        list(store.list())
    assert "AKIA-X" not in str(raised.value)


@pytest.mark.parametrize(
    ("call", "request_", "right"),
    [
        (lambda store: store.open("x").__enter__(), "get_object", "s3:GetObject on the bucket's objects;"),
        (lambda store: store.write("x", b""), "put_object", "s3:PutObject"),
        (lambda store: store.remove("x"), "delete_object", "s3:DeleteObject"),
        (
            lambda store: store.write("x", b"", StoredObject("x", 1, datetime.now(UTC), "")),
            "get_object_tagging",
            "s3:GetObjectTagging on",
        ),
    ],
)
def test_a_refusal_names_object_and_right(s3, monkeypatch, call, request_, right):
    store = S3Store("lake/in", s3)
    operation = "".join(part.capitalize() for part in request_.split("_"))
    said = ["Access Denied", "User: arn:aws:iam::1:user/me is not authorized to perform: kms:Decrypt on it"]

    def refuse(**_):
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": said.pop(0)}}, operation)

    monkeypatch.setattr(store._client, "head_object", lambda **_: {"TagCount": 1})
    monkeypatch.setattr(store._client, request_, refuse)
    for needed in (right, "kms:Decrypt."):
        with pytest.raises(
            StoreError, match=rf"s3://lake/in/x: S3 answered AccessDenied; grant {needed}"
        ) as raised:
            call(store)
        assert "arn" not in str(raised.value)


@pytest.mark.parametrize("kind", ["GLACIER", "DEEP_ARCHIVE"])
@pytest.mark.parametrize("seekable", [False, True])
def test_an_archived_object_is_to_be_restored(s3, new_bucket, kind, seekable):
    """It is listed like any other; the sentence names the object and its storage class."""
    bucket = new_bucket()
    bucket.put_object(Key="in/public/t/LOAD00000001.parquet", Body=b"PAR1", StorageClass=kind)
    store = open_store(f"s3://{bucket.name}/in", s3)
    (found,) = store.list()
    sentence = rf"in/public/t/LOAD00000001.parquet: .*storage class {kind}. Restore the object"
    with pytest.raises(StoreError, match=sentence), store.open(found.key, seekable=seekable) as file:
        file.read(4)


def test_a_range_that_breaks_off_is_no_damage(s3, new_bucket, monkeypatch):
    """Botocore's time-outs are OSErrors, for which a reader of Parquet takes a damaged file."""
    bucket, key = new_bucket(), "public/items/LOAD00000001.parquet"
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [1]}), sink)
    bucket.put_object(Key=key, Body=sink.getvalue())
    store, file = open_store(f"s3://{bucket.name}", s3), parse_key(key, DmsSettings())
    assert isinstance(store, S3Store)
    assert isinstance(file, DataFile)
    assert inspect_file(store, file, DmsSettings()).rows == 1

    whole, stalled = store._client.get_object, list[Any]()

    def stalls(**request):
        if not stalled:
            stalled.append(request)
            raise ReadTimeoutError(endpoint_url="somewhere")
        return whole(**request)

    monkeypatch.setattr(store._client, "get_object", stalls)
    with pytest.raises(StoreError, match=r"LOAD00000001\.parquet cannot be reached \(ReadTimeoutError\)"):
        inspect_file(store, file, DmsSettings())
