"""Files with rows for Spark, and what is left of them."""

import gc
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from lake_assets.bronze.checked import staging
from lake_assets.bronze.checked.staging import Staging

ROWS = pa.table({"_0": pa.array(["a", "b"]).dictionary_encode()})


def new(folder: Path) -> Staging:
    return Staging(PyArrowFileIO(), f"file://{folder}")


def test_wide_rows_do_not_wait_in_memory_for_many_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "BYTES_OF_A_GROUP", 3 * ROWS.nbytes)
    with new(tmp_path).file() as out:
        for _ in range(7):
            out.add(ROWS)
    with pq.ParquetFile(out.address.removeprefix("file://")) as file:
        groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    assert groups == [6, 6, 2]


@pytest.mark.filterwarnings("error")
def test_a_file_that_is_given_up_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # what other tests have left
    monkeypatch.setattr(staging, "ROWS_OF_A_GROUP", 1)
    attempt = new(tmp_path)
    with pytest.raises(ValueError, match="given up"):
        give_up(attempt)
    gc.collect()
    attempt.clear()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def give_up(attempt: Staging) -> None:
    with attempt.file() as out:
        out.add(ROWS)
        raise ValueError("given up")
