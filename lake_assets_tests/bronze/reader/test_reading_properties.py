"""Whatever a row holds and however the endpoint spells it: what was written is what is read.

Here: random rows under random settings, through the writer of the tests, compared value by value. Not here: files that
no DMS would write (`test_reading_damaged_files.py`).
"""

import gzip
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lake_assets.bronze.decode import blocks
from lake_assets.bronze.decode import files as decoding
from lake_assets_tests.helpers.files.dms_files import (
    NOON,
    Row,
    cdc_file,
    csv_bytes,
    json_bytes,
    load_file,
    parquet_bytes,
)
from lake_assets_tests.helpers.files.read_folder import Folder

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COLUMNS = {
    "id": "long not null",
    "text": "string",
    "other": "string",
    "price": "decimal(38, 10)",
    "at": "timestamptz",
    "day": "date",
    "flag": "boolean",
    "size": "double",
}
ARROW = {
    "id": pa.int64(),
    "price": pa.decimal128(38, 10),
    "at": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "flag": pa.bool_(),
    "size": pa.float64(),
}
NULLS = ["NULL", "", "null", r"\N", "\\", "-", "(null)", "é", "\x1f", " ", "0"]
CASES, BATCH = 2_000, 80
EXAMPLES = {"csv": 13, "csv.gz": 5, "parquet": 4, "json": 3, "jsonl.gz": 3}


@st.composite
def endpoints(draw: st.DrawFn) -> dict[str, Any]:
    """Settings that DMS accepts."""
    delimiter = draw(st.sampled_from([",", ",", ",", "\t", "|", ";", "\\", "\x01", "¦", "€", "😀", " ", "x"]))
    end = draw(st.sampled_from(["\n", "\n", "\n", "\r\n", "\r", ";", "\x1e", "¶", "|"]))
    dms = {
        "csv_delimiter": delimiter,
        "csv_row_delimiter": end,
        "csv_null_value": draw(st.sampled_from(NULLS)),
        "rfc_4180": draw(st.sampled_from([True, True, False])),
        "add_column_name": draw(st.booleans()),
        "include_op_for_full_load": draw(st.booleans()),
        "timestamp_column_name": "commit_ts",
        "timestamp_zone": draw(st.sampled_from(["UTC", "Asia/Tokyo"])),
        "change_sequence_column": draw(st.sampled_from([None, "change_seq"])),
    }
    if delimiter in end or dms["csv_null_value"] in (delimiter, *end) or " " in (delimiter, end):
        # Times have spaces in them, and without quotes nothing protects them.
        dms |= {"csv_delimiter": ",", "csv_row_delimiter": "\n"}
    return dms


def texts(dms: dict[str, Any], *, protected: bool) -> st.SearchStrategy[str]:
    marks = [
        dms["csv_delimiter"],
        *dms["csv_row_delimiter"],
        '"',
        "\n",
        "\r",
        "\\",
        " ",
        "\t",
        "a",
        "é",
        "😀",
    ]
    marks += ["\x01", "\x1f", "\x7f", "\u0085", "\u2028", "\ufeff", "\U0010ffff", ",", ";", "'", "#", "Ω"]
    if not protected:
        marks = [mark for mark in marks if mark not in (dms["csv_delimiter"], *dms["csv_row_delimiter"])]
    pieces = st.text(st.sampled_from(marks), max_size=8)
    plain = st.sampled_from([*NULLS, '""', '"', "  lead", "trail  ", "\ufeff", "NaN", "true", "[]", '","'])
    found = pieces | pieces | plain
    return found if protected else found.filter(lambda text: not any(mark in text for mark in _marks(dms)))


def _marks(dms: dict[str, Any]) -> list[str]:
    return [dms["csv_delimiter"], dms["csv_row_delimiter"], *dms["csv_row_delimiter"]]


@st.composite
def batches(draw: st.DrawFn, kind: str, size: int) -> tuple[dict[str, Any], list[Row]]:
    dms = draw(endpoints())
    protected = dms["rfc_4180"] or not kind.startswith("csv")
    text = texts(dms, protected=protected)
    moments = st.integers(0, 10**15).map(lambda micros: NOON + timedelta(microseconds=micros))
    rows = st.fixed_dictionaries(
        {
            "text": st.none() | text,
            "other": text,
            "price": st.none() | st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}E-10")),
            "at": st.none() | moments,
            "day": st.none() | st.dates(date(1970, 1, 1), date(9999, 12, 31)),
            "flag": st.none() | st.booleans(),
            "size": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        }
    )
    found = draw(st.lists(rows, min_size=size, max_size=size))
    return dms, [{"id": number, **row} for number, row in enumerate(found)]


def expected(row: Row, dms: dict[str, Any], kind: str) -> dict[str, Any]:
    """A text that is the endpoint's null token cannot be distinguished from it."""
    read = dict(row)
    if kind.startswith("csv"):
        for name, value in row.items():
            if isinstance(value, str) and value == dms["csv_null_value"]:
                read[name] = None
            elif not isinstance(value, str) and str(value) == dms["csv_null_value"]:
                read[name] = None  # the number 0, where "0" is the null token
    return read


def write(folder: Folder, dms: dict[str, Any], kind: str, rows: list[Row]) -> None:
    """Half as a full load, half as changes."""
    half = len(rows) // 2
    extension = kind
    changes = [{"Op": "I", "commit_ts": NOON, "change_seq": "2" * 35, **row} for row in rows[half:]]
    for file in (
        load_file("public.items", rows[:half], extension=extension),
        cdc_file("public.items", NOON, changes, extension=extension),
    ):
        if kind == "parquet":
            content = parquet_bytes(file, list(COLUMNS), ["id"], dms, ARROW)
        elif kind.startswith("json"):
            names = ["Op", "commit_ts", *COLUMNS, *(["change_seq"] if dms["change_sequence_column"] else [])]
            content = json_bytes(file, names, dms, ascii_only=half % 2 == 0)
        else:
            content = csv_bytes(file, list(COLUMNS), ["id"], dms)
        assert folder.put(file.key, gzip.compress(content) if kind.endswith("gz") else content)


@pytest.mark.parametrize(("share", "size"), [(40, 20), pytest.param(1, BATCH, marks=pytest.mark.long)])
def test_what_was_written_is_read(spark: SparkSession, share: int, size: int) -> None:
    """A share of the cases, in files of so many rows."""
    seen: Counter[str] = Counter()

    def read_back(dms: dict[str, Any], kind: str, rows: list[Row]) -> None:
        with TemporaryDirectory() as name:
            folder = Folder(Path(name), COLUMNS, ["id"], **dms)
            write(folder, dms, kind, rows)
            with pytest.MonkeyPatch.context() as patched:
                # In turn at once, and in pieces: large ones and one for each record.
                turn = sum(seen[kind] for kind in EXAMPLES) // size % 4
                patched.setattr(blocks, "BLOCK", 1 if turn % 2 else blocks.BLOCK)
                patched.setattr(decoding, "MOST_BYTES", decoding.MOST_BYTES if turn > 1 else -1)
                read = folder.changes(spark).collect()
        seen[kind] += len(rows)
        if kind.startswith("csv"):
            seen["regular"] += sum(file.irregular is None for file in folder.files)
            seen["irregular"] += sum(file.irregular is not None for file in folder.files)
        assert sum(file.rows or 0 for file in folder.files) == len(read) == len(rows)
        found = {}
        for row in read:
            image = row["_image"].asDict()
            image["at"] = image["at"] and image["at"].astimezone(NOON.tzinfo)
            found[image["id"]] = row["_bad"] or image
        wanted = {row["id"]: expected(row, dms, kind) for row in rows}
        if dms["csv_null_value"] == "0" and kind.startswith("csv"):
            # The key 0 is the null token.
            assert found.pop(None) == "id is NULL"
            del wanted[0]
        differing = {key: (found.get(key), wanted.get(key)) for key in wanted | found}
        differing = {key: both for key, both in differing.items() if both[0] != both[1]}
        assert not differing, f"{kind} {dms}: read, written: {list(differing.values())[:3]}"

    def read_back_many(kind: str, examples: int) -> None:
        @given(batches(kind, size))
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            # A read takes a second: the message names the rows, smaller ones are not searched for.
            phases=[Phase.generate],
        )
        def batch(case: tuple[dict[str, Any], list[Row]]) -> None:
            read_back(case[0], kind, case[1])

        batch()

    for kind, examples in EXAMPLES.items():
        read_back_many(kind, -(-examples // share))
    print(f"written and read: {dict(seen)}")
    assert sum(seen[kind] for kind in EXAMPLES) >= CASES // share
    if share == 1:
        assert min(seen["regular"], seen["irregular"]) > 0
