"""CSV files of odd structure: every reader finds the same rows in them, or the same ones bad.

Here: quotes, delimiters, line ends, NUL, byte order marks, empty fields and lines, and how a file ends, by chance
(`helpers/files/structures.py`), read record by record, by Arrow (whole and in pieces), and in files of transactions.
Not here: spellings of values (`bronze/values/test_text_values.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.decode import blocks, texts
from lake_assets.bronze.decode.files import changes_in_pieces, decoded_changes
from lake_assets.bronze.decode.records import EMPTY_LINE, RETURN_FAULT
from lake_assets.bronze.files.content import UnreadableFile
from lake_assets.bronze.files.keys import TRANSACTIONS, TransactionFile
from lake_assets.bronze.files.transactions import inspect_transactions
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets_tests.helpers.files.dms_files import NOON
from lake_assets_tests.helpers.files.read_folder import Folder
from lake_assets_tests.helpers.files.structures import DIALECTS, structure

pytestmark = [pytest.mark.spark, pytest.mark.slow]
NAME = "public.items"
FILES, FEW = 120, 40
Row = tuple[Any, ...]
"""The values of a row that can be used, or why it is bad."""
Found = Mapping[str, Sequence[Row]]
"""By file."""


class Readers(Folder):
    """Files of one dialect, and what each reader finds in them."""

    def __init__(self, folder: Path, dms: dict[str, Any], last: str) -> None:
        columns = {"id": "long not null", "v": "string", "w": last}
        super().__init__(folder / "bronze", columns, ["id"], **dms)
        self.read: dict[str, Any] = {"name": NAME, "table": self.table, "dms": self.dms}

    def record_by_record(self) -> Found:
        return self.decoded([replace(file, irregular="to be read strictly") for file in self.files])

    def decoded(self, files: Sequence[LoggedFile] | None = None) -> Found:
        found = {}
        for file in self.files if files is None else files:
            rows = decoded_changes(self.store, [file], **self.read, partial=False, explain=False)
            assert rows is not None
            found[file.key.rpartition("/")[2]] = rows_of(rows)
        return found

    def in_pieces(self, size: int, few: int) -> Found:
        """`size`: bytes of a block; `few`: bytes that Python parses if Arrow refuses a record among them."""
        found = {}
        with patch.object(blocks, "BLOCK", size), patch.object(texts, "FEW", few):
            for file in self.files:
                pieces = [*changes_in_pieces(self.store, file, **self.read, partial=False, explain=False)]
                found[file.key.rpartition("/")[2]] = [row for piece in pieces for row in rows_of(piece)]
        return found


def rows_of(changes: pa.Table) -> list[Row]:
    return [
        ("bad", row["_bad"].replace("not 6 fields", "not 4 fields"))
        if row["_bad"] is not None
        else tuple(value for name, value in row.items() if name.startswith("image"))
        for row in changes.to_pylist()
    ]


CASES = [(number, last) for number in range(len(DIALECTS)) for last in ("string", "int")]


def told(cases: Iterable[tuple[int, str]]) -> list[Any]:
    """Few files of the first case, and many of each one."""
    return [(*CASES[0], FEW), *(pytest.param(*case, FILES, marks=pytest.mark.long) for case in cases)]


@pytest.mark.parametrize(("dialect", "last", "files"), told(CASES))
def test_all_readers_find_the_same_rows(
    spark: SparkSession, tmp_path: Path, dialect: int, last: str, files: int
) -> None:
    dms, random = DIALECTS[dialect], Random(f"{dialect} {last}")
    header = random.random() < 0.5
    readers = Readers(tmp_path, dms | {"add_column_name": header}, last)
    for number in range(files):
        names = dms.get("csv_delimiter", ",").join(("id", "v", "w")) + dms.get("csv_row_delimiter", "\n")
        made = structure(random, dms, numbers=last == "int")
        start = made.start + names if header else made.start
        content = start.encode() + made.content(dms).removeprefix(made.start.encode())
        readers.put(f"public/items/LOAD{number:08X}.csv", content)
    strict = readers.record_by_record()
    seen = {"whole": readers.decoded()} | {
        f"pieces of {size}": readers.in_pieces(size, few) for size, few in ((1, 0), (40, 20), (99, 0))
    }
    for name, found in seen.items():
        different = {file: (rows, strict[file]) for file, rows in found.items() if strict[file] != rows}
        assert {content_of(readers, file): rows for file, rows in different.items()} == {}, name
    # With a row delimiter of \r\n, many values make a file irregular.
    assert files // 10 < sum(file.irregular is None for file in readers.files) < files * 0.95


def content_of(readers: Readers, file: str) -> bytes:
    return (readers.folder / "public/items" / file).read_bytes()


@pytest.mark.parametrize(
    ("dialect", "last", "files"),
    told(case for case in CASES if "csv_row_delimiter" not in DIALECTS[case[0]]),
)
def test_files_of_transactions(
    spark: SparkSession, tmp_path: Path, dialect: int, last: str, files: int
) -> None:
    """As a table's own file, except for an empty line, which is no row. A file with a fault may be unreadable as a
    whole, because its rows belong to several tables."""
    dms, random = DIALECTS[dialect], Random(f"{dialect} {last} transactions")
    own = Readers(tmp_path / "own", dms, last)
    settings = {**dms, "preserve_transactions": True, "cdc_path": "cdc"}
    all_of_them = Readers(tmp_path / "all", settings, last)
    for number in range(files):
        made, name = structure(random, dms, numbers=last == "int"), f"{number:09}.csv"
        file = own.put(f"public/items/20260301-{name}", made.content(dms, "I"))
        assert file is not None
        key = f"cdc/CDC_TXN-20260301{name}"
        path = all_of_them.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.content(dms, "I", "items", "public"))
        try:
            transactions = TransactionFile(key, "none", NOON)
            shares = inspect_transactions(all_of_them.store, transactions, all_of_them.dms, [NAME])
        except UnreadableFile as error:
            all_of_them.unreadable[name] = error.reason
            continue
        if (share := shares.get(NAME)) is not None:
            whole = replace(file, key=key, format=TRANSACTIONS, rows=share.rows, irregular=share.irregular)
            all_of_them.files.append(whole)
    strict, found = own.record_by_record(), all_of_them.decoded()
    in_pieces = [all_of_them.in_pieces(size, few) for size, few in ((1, 0), (60, 20), (8 << 20, 64 << 10))]
    different = {}
    for number in range(files):
        name = f"{number:09}.csv"
        rows = [row for row in strict.get(f"20260301-{name}", ()) if row != ("bad", EMPTY_LINE)]
        if name in all_of_them.unreadable:
            assert any(row[0] == "bad" for row in rows), (name, all_of_them.unreadable[name], rows)
            continue
        key = f"CDC_TXN-20260301{name}"
        for reader in (found, *in_pieces):
            if rows != reader.get(key, []):
                content = (own.folder / f"public/items/20260301-{name}").read_bytes()
                different[name] = (content, rows, reader.get(key))
    assert different == {}
    assert len(found) > files // 3


def test_before_images_that_end_with_a_carriage_return(spark: SparkSession, tmp_path: Path) -> None:
    """Of a text, the last field of a row of a CDC file: in quotes in a regular file, without them in an irregular
    one."""
    folder = Folder(
        tmp_path, {"id": "string not null"}, ["id"], add_column_name=False, before_image_prefix="BI_"
    )
    folder.put("public/items/20260301-120000000.csv", b'U,b,"a\r"\nU,b,a\n')
    folder.put("public/items/20260301-120000001.csv", b'U,b,a\r\nU,b,"a\r"\n')
    assert [file.irregular is None for file in folder.files] == [True, False]
    found = folder.changes(spark).orderBy("_file", "_row").selectExpr("_bad", "_before.id").collect()
    assert [bad or before for bad, before in found] == ["a\r", "a", RETURN_FAULT, "a\r"]
