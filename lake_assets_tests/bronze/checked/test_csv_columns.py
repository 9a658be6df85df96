"""The values of CSV files as Arrow decodes them, beside those that Spark gives.

Here: spellings. Not here: whole batches (`silver/changes/test_staged_csv.py`).
"""

from pathlib import Path

import pyarrow as pa
import pytest

from lake_assets.bronze.checked.csv_columns import _plain, decoded
from lake_assets.bronze.checked.dms_columns import FAULTS, Unusable
from lake_assets.bronze.layouts.file_layouts import named_layout
from lake_assets_tests.helpers.files.read_folder import Folder


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("decimal(10, 2)", "340282366920938463463374607431762114560"),  # 2**128 - 6096896 * 10**2, about
        ("decimal(10, 2)", "1e-999"),
        ("decimal(10, 2)", "1e00001"),
        ("decimal(10, 2)", "1000000000000000.00000000000000500000000000000000000e-50"),
        ("decimal(10, 2)", "123456789.00"),
        ("decimal(38, 0)", "9" * 39),
        ("decimal(38, 38)", "4"),
        ("decimal(38, 4)", "410009090749430807060507804449523222"),
    ],
)
def test_a_number_that_arrow_would_cut_is_left_to_spark(declared: str, text: str) -> None:
    with pytest.raises(FAULTS):
        _plain(pa.chunked_array([[text]]), declared)


@pytest.mark.parametrize("text", ["0.01", "-12345678.90", ".5", "+7", "7.", "99999999.9900000", None])
def test_a_plain_decimal_is_decoded(text: str | None) -> None:
    assert _plain(pa.chunked_array([pa.array([text], pa.string())]), "decimal(10, 2)").null_count == (
        text is None
    )


def test_an_absent_text_that_is_empty_where_null_is_is_left_to_spark(tmp_path: Path) -> None:
    columns = {"id": "long not null", "v": "string not null"}
    folder = Folder(tmp_path, columns, ["id"], add_column_name=True, csv_null_value="")
    file = folder.put("public/items/20260301-120000000.csv", b"Op,id\nI,1\n")
    assert file is not None
    assert file.columns is not None
    layout = named_layout(file, file.columns, "public.items", folder.table, folder.dms)
    with pytest.raises(Unusable):
        list(decoded(folder.store, file, layout, folder.table, folder.dms))
