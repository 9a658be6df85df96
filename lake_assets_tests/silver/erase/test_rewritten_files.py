"""A file without some of its rows: every other row stays as it is. Pure: no Spark, no catalog.

Here: files of odd structure by chance, JSON lines, Parquet of every type. Not here: an erasure
(`commands/erase/test_erase.py`).
"""

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.bronze.decode.files import changes_in_pieces
from lake_assets.bronze.files.inspect import UnreadableFile
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.errors import LakeError
from lake_assets.silver.erase.rewritten_files import are_equal, content_without, refuse_other_types
from lake_assets.storage.object_store import ObjectStore
from lake_assets.storage.one_object import OneObject
from lake_assets_tests.helpers.files.read_folder import PARQUET_DMS, Folder
from lake_assets_tests.helpers.files.structures import DIALECTS, structure

COLUMNS = {"id": "long not null", "v": "string", "w": "string"}


def decoded(folder: Folder, file: LoggedFile, content: bytes | None = None) -> list[dict[str, Any]]:
    """The rows of the file, or of another content in its place, without their places."""
    store = folder.store if content is None else cast(ObjectStore, OneObject(content))
    pieces = changes_in_pieces(
        store, file, name="public.items", table=folder.table, dms=folder.dms, partial=False
    )
    return [row for piece in pieces for row in piece.drop_columns(["_row", "_file"]).to_pylist()]


@pytest.mark.parametrize("dialect", range(len(DIALECTS)))
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_odd_structures(tmp_path: Path, dialect: int, ending: str) -> None:
    """A row whose end depends on those behind it may change; then the caller sees it, and erases nothing."""
    dms, random = DIALECTS[dialect], Random(dialect)
    folder, whole, changed = Folder(tmp_path, COLUMNS, ["id"], **dms), 0, 0
    for number in range(150):
        content = structure(random, dms).content(dms, "I")
        key = f"public/items/20260301-12{number // 60:02d}{number % 60:02d}000.{ending}"
        file = folder.put(key, gzip.compress(content) if ending == "csv.gz" else content)
        if file is None:
            continue
        try:
            before = decoded(folder, file)
        except UnreadableFile:
            continue
        places = [place for place in range(len(before)) if random.random() < 0.4]
        after = decoded(folder, file, content_without(folder.store, file, folder.dms, places))
        kept = [row for place, row in enumerate(before) if place not in places]
        whole += after == kept
        changed += after != kept
        if file.irregular is None:
            assert after == kept, (content, places)
    assert whole > 100
    assert changed < whole / 10


def test_json_lines(tmp_path: Path) -> None:
    folder = Folder(tmp_path, COLUMNS, ["id"])
    lines = [b'{"Op":"I","id":%d,"v":"\xc3\xa9 %d","w":null}\r\n' % (n, n) for n in range(6)]
    content = b"\xef\xbb\xbf" + b"\n".join([b"".join(lines[:2]), b"  ", b"".join(lines[2:]) + b"no object"])
    file = folder.put("public/items/20260301-120000000.json", content)
    assert file is not None
    before = decoded(folder, file)
    after = content_without(folder.store, file, folder.dms, [0, 3])
    assert decoded(folder, file, after) == [row for place, row in enumerate(before) if place not in (0, 3)]
    assert after.endswith(b"no object")
    assert b'"id":3' not in after


VALUES = pa.table(
    {
        "tiny": pa.array([1, 2, None], pa.uint8()),
        "far": pa.array([-62135596800000000, 253402214400000000, None], pa.timestamp("us")),
        "real": pa.array([float("nan"), -0.0, 0.0]),
        "at": pa.array([1, 2, 3], pa.time32("ms")),
        "price": pa.array([1, None, 3], pa.decimal128(20, 2)),
        "word": pa.array(["x", "y", "z"]).dictionary_encode(),
        "bytes": pa.array([b"x", b"", None]),
        "list": pa.array([[1], [], None]),
    }
)


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "none"])
@pytest.mark.parametrize("old_times", [True, False])
@pytest.mark.parametrize("version", ["1.0", "2.6"])
def test_parquet_keeps_types_and_codec(tmp_path: Path, codec: str, old_times: bool, version: str) -> None:
    folder = Folder(tmp_path, {"id": "long not null"}, ["id"], **PARQUET_DMS)
    out = io.BytesIO()
    rows = VALUES.append_column("id", pa.array([1, 2, 3]))
    pq.write_table(
        rows,
        out,
        compression=codec,
        version=version,
        use_deprecated_int96_timestamps=old_times,
        row_group_size=2,
    )
    file = folder.put("public/items/LOAD00000001.parquet", out.getvalue())
    assert file is not None
    content = content_without(folder.store, file, folder.dms, [1])
    before, after = (pq.ParquetFile(pa.BufferReader(each)) for each in (out.getvalue(), content))
    assert after.schema.equals(before.schema)
    assert (
        after.metadata.row_group(0).column(0).compression
        == before.metadata.row_group(0).column(0).compression
    )
    found = pq.read_table(pa.BufferReader(content), coerce_int96_timestamp_unit="us")
    assert str(found.to_pylist()) == str([row for row in rows.to_pylist() if row["id"] != 2])


def test_types_that_arrow_does_not_write_together(tmp_path: Path) -> None:
    """Arrow writes either all times in the old type, or none."""
    folder = Folder(tmp_path, {"id": "long not null"}, ["id"], **PARQUET_DMS)
    contents = []
    for old_times in (True, False):
        out = io.BytesIO()
        pq.write_table(pa.table({"at": VALUES["far"]}), out, use_deprecated_int96_timestamps=old_times)
        contents.append(out.getvalue())
    file = folder.put("public/items/LOAD00000001.parquet", contents[0])
    assert file is not None
    with pytest.raises(LakeError, match="Arrow does not write at as INT96 beside its other columns"):
        refuse_other_types(pq.ParquetFile(pa.BufferReader(contents[0])), contents[1], file)


def test_equal_rows_in_other_pieces() -> None:
    rows = pa.table({"a": [1.0, float("nan"), -0.0, 4.0], "b": ["x", None, "z", "w"]})

    def cut(*sizes: int) -> Iterator[pa.Table]:
        at = 0
        for size in sizes:
            yield rows.slice(at, size)
            at += size

    assert are_equal(cut(1, 0, 3), cut(2, 2))
    assert not are_equal(cut(1, 3), cut(2, 1))
    assert not are_equal(cut(4), iter([rows.set_column(0, "a", pa.array([1.0, float("nan"), 0.0, 4.0]))]))
