"""The text and the line of a record, as they stand in the file."""

import gzip
import io
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.bronze.files.keys import TRANSACTIONS
from lake_assets.bronze.quarantine.raw_rows import RawRow, raw_records
from lake_assets_tests.helpers.files.read_folder import Folder

KEY = "public/items/LOAD00000001"
LINES = b'id,name\n1,"a\nb"\n2,c\n3,"d"\n'


def rows_of(tmp_path: Path, name: str, content: bytes, *ordinals: int, **dms: object) -> dict[int, RawRow]:
    folder = Folder(tmp_path, {"id": "long", "name": "string"}, ["id"], **({"add_column_name": True} | dms))
    file = folder.put(name, content)
    assert file is not None
    return raw_records(folder.store, file, folder.dms, ordinals)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (LINES, {0: RawRow(2, '1,"a\nb"'), 1: RawRow(4, "2,c"), 2: RawRow(5, '3,"d"')}),
        (LINES.replace(b"c", b'5" pipe'), {0: RawRow(2, '1,"a\nb"'), 1: RawRow(4, '2,5" pipe')}),
        (LINES.replace(b"c", b"\xff"), {1: RawRow(4, r"2,\xff")}),
        (LINES + b"\n\n4,x", {3: RawRow(6, ""), 4: RawRow(7, ""), 5: RawRow(8, "4,x")}),
    ],
)
def test_csv(tmp_path, content, expected):
    """Regular or not, compressed or not."""
    assert rows_of(tmp_path, f"{KEY}.csv", content, *expected) == expected
    assert rows_of(tmp_path, f"{KEY}.csv.gz", gzip.compress(content), *expected) == expected


def test_a_record_that_is_not_there(tmp_path):
    assert rows_of(tmp_path, f"{KEY}.csv", LINES, 7) == {}
    assert rows_of(tmp_path, f"{KEY}.csv", LINES) == {}


def test_another_row_delimiter(tmp_path):
    content = LINES.replace(b"\n", b"\r\n")
    assert rows_of(tmp_path, f"{KEY}.csv", content, 2, csv_row_delimiter="\r\n") == {2: RawRow(5, '3,"d"')}
    content = b'id,name|1,"a|b"|2,c|'
    assert rows_of(tmp_path, f"{KEY}.csv", content, 1, csv_row_delimiter="|") == {1: RawRow(1, "2,c")}


def test_records_across_pieces(tmp_path):
    content = b"id,name\n" + b"".join(b'%d,"%s\n"\n' % (n, b"x" * 99_000) for n in range(40))
    assert rows_of(tmp_path, f"{KEY}.csv", content, 33) == {33: RawRow(68, '33,"' + "x" * 99_000 + '\n"')}


def test_json(tmp_path):
    content = b'{"id": 1}\n{"id": 2\n{"id": 3}'
    assert rows_of(tmp_path, f"{KEY}.json", content, 1, 2) == {
        1: RawRow(2, '{"id": 2'),
        2: RawRow(3, '{"id": 3}'),
    }
    assert rows_of(tmp_path, f"{KEY}.json", content.replace(b"2\n", b"2}\n"), 1) == {
        1: RawRow(2, '{"id": 2}')
    }


def test_parquet(tmp_path):
    sink = io.BytesIO()
    numbers = pa.array([Decimal("12345678901234567890.12"), None, Decimal(1)], pa.decimal128(30, 2))
    pq.write_table(
        pa.table({"id": [1, 2, 3], "n": numbers, "b": [b"\xff", b"", None]}), sink, row_group_size=2
    )
    assert rows_of(tmp_path, f"{KEY}.parquet", sink.getvalue(), 0, 2) == {
        0: RawRow(1, '{"id": 1, "n": "12345678901234567890.12", "b": "ff"}'),
        2: RawRow(3, '{"id": 3, "n": "1.00", "b": null}'),
    }


def test_transactions(tmp_path):
    """Among the rows of its own table, with the lines of all."""
    content = (
        b'I,other,public,1,"a\nb"\n\nI,items,public,1,"x\n""y"""\nI,items,audit,1\nU,"items",public,\xc3\xa9\r\n'
        b"D,items,public,3"
    )
    folder = Folder(tmp_path, {"id": "long"}, ["id"], preserve_transactions=True, cdc_path="cdc")
    (tmp_path / "cdc").mkdir()
    (tmp_path / "cdc/CDC_TXN-20260301121000000.csv").write_bytes(content)
    csv = folder.put(f"{KEY}.csv", b"1\n")
    assert csv is not None
    own = replace(csv, key="cdc/CDC_TXN-20260301121000000.csv", format=TRANSACTIONS)
    assert raw_records(folder.store, own, folder.dms, [0, 1, 2, 3]) == {
        0: RawRow(4, 'I,items,public,1,"x\n""y"""'),
        1: RawRow(7, 'U,"items",public,é\r'),
        2: RawRow(8, "D,items,public,3"),
    }
    other = replace(own, table="other")
    assert raw_records(folder.store, other, folder.dms, [0]) == {0: RawRow(1, 'I,other,public,1,"a\nb"')}
