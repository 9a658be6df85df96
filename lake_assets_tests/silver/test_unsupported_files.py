"""Parquet files that are intact, and for which Spark lacks a codec, an encoding or a key: the batch fails, says which,
and nothing is quarantined.

Here: such files in batches that Arrow holds and that Spark reads. Not here: damaged files (`test_quarantine.py`).
"""

import base64
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption
from pyspark.sql import SparkSession

from lake_assets.bronze.decode import files as decoding
from lake_assets.errors import LakeError
from lake_assets_tests.helpers.files.dms_files import Clock, DmsFile, cdc_file, parquet_bytes, put
from lake_assets_tests.helpers.lakes.bench import Bench

pytestmark = pytest.mark.spark
ITEMS = "public.items"
TABLE = {"columns": {"id": "long not null", "x": "double"}, "primary_key": ["id"], "cdc_only": True}
TYPES = {"id": pa.int64(), "x": pa.float64()}
Write = Callable[[pa.Table, Path], None]


class _Keys(encryption.KmsClient):  # type: ignore[misc]
    """A key server that hides nothing."""

    def __init__(self, configuration: Any) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, name: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: str, name: str) -> bytes:
        return base64.b64decode(wrapped)


def brotli(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path, compression="brotli")


def lzo(rows: pa.Table, path: Path) -> None:
    """Nothing here writes LZO: the footer of a Brotli file names it instead, by its number in Thrift's spelling."""
    brotli(rows, path)
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    footer = re.sub(rb"\x15\x08(?=\x16)", b"\x15\x06", content[-8 - length : -8])
    path.write_bytes(content[: -8 - length] + footer + content[-8:])
    metadata = pq.read_metadata(path)
    assert {metadata.row_group(0).column(n).compression for n in range(metadata.num_columns)} == {"LZO"}


def split_bytes(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path, use_dictionary=False, column_encoding={"x": "BYTE_STREAM_SPLIT"})


def encrypted(rows: pa.Table, path: Path, *, plain_footer: bool = False) -> None:
    factory = encryption.CryptoFactory(_Keys)
    wanted = encryption.EncryptionConfiguration(
        footer_key="k", column_keys={"k": ["x"]}, plaintext_footer=plain_footer
    )
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), wanted)
    with pq.ParquetWriter(path, rows.schema, encryption_properties=properties) as writer:
        writer.write_table(rows)


def partly_encrypted(rows: pa.Table, path: Path) -> None:
    encrypted(rows, path, plain_footer=True)


def replace_content(bench: Bench, file: DmsFile, write: Write) -> None:
    """The file, written in another way."""
    assert bench.location is not None
    content = parquet_bytes(file, ["id", "x"], ["id"], bench.dms, TYPES)
    bench.bucket[file.key] = file
    hidden = bench.folder / "written.parquet"
    write(pq.read_table(pa.BufferReader(content)), hidden)
    put(bench.location, file.key, hidden.read_bytes())


@pytest.mark.parametrize(
    ("write", "what", "cure"),
    [
        pytest.param(
            brotli,
            "compressed by BROTLI, a codec that this Spark lacks",
            "snappy, gzip or zstd",
            marks=pytest.mark.long,
        ),
        (lzo, "compressed by LZO, a codec that this Spark lacks", "snappy, gzip or zstd"),
        (
            split_bytes,
            "with something that this Spark lacks (Unsupported encoding: BYTE_STREAM_SPLIT",
            "leave",
        ),
        pytest.param(encrypted, "encrypted within Parquet", "SSE-KMS", marks=pytest.mark.long),
        (partly_encrypted, "encrypted within Parquet", "SSE-KMS"),
    ],
)
def test_what_spark_lacks_is_named_and_nothing_is_quarantined(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write, what: str, cure: str
) -> None:
    monkeypatch.setattr(decoding, "MOST_BYTES", -1)
    bench, clock = Bench(tmp_path, {ITEMS: TABLE}), Clock()
    usual = cdc_file(ITEMS, clock.now, [clock.change("I", {"id": 1, "x": 0.5})], "parquet")
    other = cdc_file(
        ITEMS, clock.now + timedelta(seconds=9), [clock.change("I", {"id": 2, "x": 1.5})], "parquet"
    )
    bench.put(usual, types=TYPES)
    replace_content(bench, other, write)
    error = bench.turn()["items"].error
    assert isinstance(error, LakeError)
    assert f"{other.key} is not damaged, but written {what}" in str(error)
    assert cure in str(error)
    assert bench.lake.runtime.quarantine.open("silver_shop.items") == []
    # Written again as usual, it is applied.
    bench.put(other, types=TYPES)
    bench.apply()
    assert bench.rows() == bench.truth()


def test_what_arrow_can_read_is_applied(spark: SparkSession, tmp_path: Path) -> None:
    """A small batch does not need Spark's reader."""
    bench, clock = Bench(tmp_path, {ITEMS: TABLE}), Clock()
    file = cdc_file(ITEMS, clock.now, [clock.change("I", {"id": 1, "x": 0.5})], "parquet")
    replace_content(bench, file, brotli)
    bench.apply()
    assert bench.rows() == bench.truth()
