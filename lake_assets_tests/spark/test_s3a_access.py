"""Spark reads DMS files with each kind of access that a source may have.

Here: the settings of Hadoop's S3 client. Not here: boto3's (`storage/test_secret_values.py`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.config import S3Config
from lake_assets.spark.session import SparkSessions
from lake_assets_tests.helpers.lakes.small_lakes import lake_config


def read(folder: Path, new_bucket: Callable[[], Any], access: S3Config) -> list[str]:
    """The lines of a file, read by a session with this access."""
    bucket = new_bucket()
    bucket.put_object(Key="in/file.txt", Body=b"one\ntwo\n")
    lake = lake_config(folder, source={"location": f"s3://{bucket.name}/in", "s3": access})
    frame = SparkSessions(lake).root().read.text(f"s3a://{bucket.name}/in/file.txt")
    return [row[0] for row in frame.collect()]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_session_token(tmp_path: Path, s3: S3Config, new_bucket: Callable[[], Any]) -> None:
    access = S3Config.model_validate({**dict(s3), "session_token": "a-token"})
    assert read(tmp_path, new_bucket, access) == ["one", "two"]


@pytest.mark.spark
def test_a_profile(spark: SparkSession, tmp_path: Path, s3: S3Config, new_bucket: Callable[[], Any]) -> None:
    """Hadoop looks for the file where AWS's tools do; a setting names another one for this test."""
    file = tmp_path / "credentials"
    file.write_text("[lake]\naws_access_key_id = an-id\naws_secret_access_key = hush\n")
    access = S3Config(profile="lake", region=s3.region, endpoint=s3.endpoint, path_style=True)
    bucket = new_bucket()
    bucket.put_object(Key="in/file.txt", Body=b"one\n")
    lake = lake_config(
        tmp_path,
        source={"location": f"s3://{bucket.name}/in", "s3": access},
        spark={"conf": {f"spark.hadoop.fs.s3a.bucket.{bucket.name}.auth.profile.file": str(file)}},
    )
    frame = SparkSessions(lake).root().read.text(f"s3a://{bucket.name}/in/file.txt")
    assert [row[0] for row in frame.collect()] == ["one"]
