"""CSV as DMS spells it."""

import csv
import io
import math
import random
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from lake_assets.demo.company.vocabulary import AWKWARD_TEXTS
from lake_assets.demo.dms.dms_csv import encode_csv
from lake_assets.demo.dms.dms_files import cdc_key, encode_cdc_file, encode_file, flush_time, load_key
from lake_assets.demo.dms.dms_layout import DmsLayout, FileContent
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.replay import split_csv
from lake_assets.demo.source.bike_schema import TABLES, Column
from lake_assets.demo.source.source_changes import Change
from lake_assets.demo.source.source_values import RowCodec

BARE = DmsWriterSettings(add_column_name=False)
TEXT = (Column("a", "string", False), Column("b", "string", False))


def encode(*rows, columns=TEXT, settings=BARE) -> str:
    return encode_csv(FileContent(columns, list(rows)), settings).decode()


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, "NULL"),
        (" padded ", " padded "),
        ("a,b", '"a,b"'),
        ('say "hi"', '"say ""hi"""'),
        ("two\nlines", '"two\nlines"'),
        ("\r", '"\r"'),
        ("ends with \\", "ends with \\"),
        ("\u2028", "\u2028"),
        ("🚲", "🚲"),
    ],
)
def test_only_what_needs_quotes_has_them(value, field):
    assert encode((value, "x")) == f"{field},x\n"


def test_texts_round_trip():
    rows = [(one, other) for one in (*AWKWARD_TEXTS, None) for other in (*AWKWARD_TEXTS, None)]
    text = encode(*rows)
    read = [
        tuple(None if (field, quoted) == ("NULL", False) else field for field, quoted in record)
        for record in split_csv(text)
    ]
    assert read == rows
    # A reader of another make agrees.
    theirs = list(csv.reader(io.StringIO(text, newline=""), strict=True, lineterminator="\n"))
    assert theirs == [["NULL" if field is None else field for field in row] for row in rows]


def test_without_rfc_4180_nothing_is_quoted():
    assert (
        encode(('a,"b"', "c"), settings=DmsWriterSettings(add_column_name=False, rfc_4180=False))
        == 'a,"b",c\n'
    )


def test_a_text_that_looks_like_null_is_refused():
    with pytest.raises(ValueError, match=r"column a .*csv_null_value"):
        encode(("NULL", "x"))
    assert (
        encode(("NULL", None), settings=DmsWriterSettings(add_column_name=False, csv_null_value="\\N"))
        == "NULL,\\N\n"
    )


def test_doubles_round_trip_to_the_bit():
    rng = random.Random(5)
    doubles = [struct.unpack(">d", rng.randbytes(8))[0] for _ in range(2_000)]
    doubles = [value for value in doubles if math.isfinite(value)] + [
        0.1,
        -0.0,
        5e-324,
        1.7976931348623157e308,
        48.2,
    ]
    text = encode(*((value,) for value in doubles), columns=(Column("d", "double", False),))
    assert [struct.pack(">d", float(line)) for line in text.splitlines()] == [
        struct.pack(">d", v) for v in doubles
    ]
    assert (
        encode((-0.5,), (None,), columns=(Column("d", "double", False),))
        == "-5.00000000000000000e-01\nNULL\n"
    )


def test_a_whole_line():
    row = {
        "trip_id": 7_000_000_000_002,
        "bike_id": 5_000_000_001,
        "member_id": 100_000_000_001,
        "start_station_id": 3,
        "end_station_id": None,
        "started_at": datetime(2026, 3, 1, 23, 59, 59, 5, tzinfo=UTC),
        "ended_at": datetime(2026, 3, 2, 1, 0, tzinfo=UTC),
        "distance_km": 0.5,
        "fare": Decimal("10.00"),
    }
    image = RowCodec(TABLES["trips"]).encode(row)
    sequence = "2026030201000000" + f"{28:019d}"
    change = Change("trips", "U", "2026-03-02 01:00:00.000000", sequence, (7_000_000_000_001,), image)
    data, ops = encode_cdc_file("trips", [change], DmsWriterSettings())
    assert data.decode() == (
        "Op,commit_ts,trip_id,bike_id,member_id,start_station_id,end_station_id,started_at,ended_at,distance_km,fare,"
        "change_seq,BI_trip_id\n"
        "U,2026-03-02 01:00:00.000000,7000000000002,5000000001,100000000001,3,NULL,2026-03-01 23:59:59.000005,"
        f"2026-03-02 01:00:00.000000,+5.00000000000000000e-01,10.00,{sequence},7000000000001\n"
    )
    assert ops == {("trips", "U"): 1}


def test_a_full_load_line():
    row = (1, 2, 3, 1, "2026-03-01 00:00:00.000000")
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)
    layout = DmsLayout(TABLES["station_status"], BARE)
    content = layout.full_load([row, row], start, timedelta(microseconds=7))
    assert encode_file(content, BARE).decode() == (
        "I,2026-03-01 12:00:00.000000,1,2,3,true,2026-03-01 00:00:00.000000,,NULL\n"
        "I,2026-03-01 12:00:00.000007,1,2,3,true,2026-03-01 00:00:00.000000,,NULL\n"
    )


def test_keys():
    gzipped = DmsWriterSettings(compression="gzip")
    assert load_key("trips", 26, BARE) == "public/trips/LOAD0000001A.csv"
    assert load_key("trips", 1, gzipped) == "public/trips/LOAD00000001.csv.gz"
    assert (
        flush_time("public/trips/20260228-230203004.csv.gz").isoformat() == "2026-02-28T23:02:03.004000+00:00"
    )
    flushed_at = datetime.fromisoformat("2026-03-01T01:02:03.004999+02:00")
    assert cdc_key("trips", flushed_at, BARE) == "public/trips/20260228-230203004.csv"
    parquet = DmsWriterSettings(data_format="parquet", compression="gzip")
    assert cdc_key("trips", flushed_at, parquet) == "public/trips/20260228-230203004.parquet"
