"""`lake-assets erase` where a bucket keeps versions, and where a stream has landed.

Not here: folders (`test_erase.py`).
"""

import gzip
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.config import S3Config
from lake_assets.errors import LakeError
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets_tests.commands.erase.people import (
    HERS,
    PEOPLE,
    TABLE,
    erased,
    forget,
    history_of,
    left_of_her,
    person,
    plan_of,
)
from lake_assets_tests.helpers.files.dms_files import load_file
from lake_assets_tests.helpers.files.dms_messages import NOON, MemoryStream, message
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.oracles.random_history import TABLE as LANDED
from lake_assets_tests.helpers.servers.s3 import ACCESS, client
from lake_assets_tests.silver.test_stream_histories import loaded, stream, stream_bench

__all__ = ["stream"]
pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_bucket_that_keeps_versions(spark: SparkSession, tmp_path: Path, s3: S3Config) -> None:
    bucket, aws = f"people-{os.getpid()}", client("s3", s3.endpoint)
    aws.create_bucket(Bucket=bucket)
    aws.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    source = {"location": f"s3://{bucket}/dms", "s3": {"endpoint": s3.endpoint, "path_style": True, **ACCESS}}
    landing = tmp_path / "landing"
    bench = Bench(
        tmp_path / "lake", {TABLE: PEOPLE | {"also": ["change_log"]}}, location=landing, source=source
    )
    for files in history_of():
        bench.put(*files)
        for file in files:
            aws.put_object(Bucket=bucket, Key=f"dms/{file.key}", Body=(landing / file.key).read_bytes())
        bench.apply()
    # DMS reloads the table without her: the former version of the object still has her.
    reload = load_file(TABLE, [person(number, 9) for number in range(2, 8)], at=NOON + timedelta(hours=3))
    bench.put(reload)
    aws.put_object(Bucket=bucket, Key=f"dms/{reload.key}", Body=(landing / reload.key).read_bytes())
    bench.apply()
    erased(bench)
    versions = aws.list_object_versions(Bucket=bucket)["Versions"]
    assert len(versions) == 4, "no former version is left"
    for version in versions:
        body = aws.get_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])[
            "Body"
        ].read()
        assert not HERS.search(body), version["Key"]
    assert left_of_her(tmp_path / "lake") == []
    forget(bench, 1)
    assert bench.rows("people") == bench.truth(TABLE)
    head = bench.lake.runtime.file_log.head()
    assert bench.apply() == {"people": [], "people_changes": []}
    assert bench.lake.runtime.file_log.head() == head
    # The change log also keeps the load that the reload has overwritten.
    (current,) = (target for target in bench.lake.targets if target.name == "people")
    assert rebuild(bench.lake.runtime, current, publish=False).equal


def test_files_of_a_stream(stream: MemoryStream, tmp_path: Path) -> None:
    def row(number: int, v: str) -> dict[str, Any]:
        return {"v": v, "id": number, "part": "x", "n": number}

    bench = stream_bench(tmp_path, "mysql", ["id"], also=["change_log"])
    stream.put("a", *loaded([row(1, "Adelheid"), row(2, "b"), row(3, "c")], NOON - timedelta(minutes=5)))
    bench.apply()
    for number, v in ((1, "Hollerbach"), (2, "d")):
        update = message("update", row(number, v), before={}, table=LANDED, transaction=10 + number)
        stream.put("a", update)
        bench.apply()
    stream.put("a", message("delete", row(1, "Hollerbach"), table=LANDED, transaction=20))
    bench.apply()
    before = {
        name: [line for line in bench.rows(name) if "'id': 1," not in line]
        for name in ("items", "items_changes")
    }
    # A reader that was killed has left a file that the log does not know.
    logged = bench.lake.runtime.file_log.files("shop")[-1]
    left = tmp_path / "bronze" / logged.key.replace(logged.key[-19:], "0123456789ab.csv.gz")
    left.write_bytes(gzip.compress(b"Op,v,id\nI,Adelheid,1\n"))
    with pytest.raises(LakeError, match="is landing now: run it again in ten minutes"):
        erased(bench)
    long_ago = time.time() - 3600
    os.utime(left, (long_ago, long_ago))
    assert plan_of(bench).orphans == (left.relative_to(tmp_path / "bronze").as_posix(),)
    erased(bench)
    assert not left.exists()
    assert left_of_her(tmp_path) == []
    assert {name: bench.rows(name) for name in before} == before
    assert bench.apply() == {"items": [], "items_changes": []}
    stream.put("a", message("update", row(3, "e"), before={}, table=LANDED, transaction=30))
    bench.apply()
    assert bench.stored_by_id("v") == {2: "d", 3: "e"}
    for target in bench.lake.targets:
        assert rebuild(bench.lake.runtime, target, publish=False).equal, target.name
