"""What a key says."""

from datetime import UTC, date, datetime

import pytest

from lake_assets.bronze.files.keys import (
    DataFile,
    FileKind,
    IgnoredKey,
    TransactionFile,
    UnknownKey,
    decode_event_key,
    parse_key,
)
from lake_assets.config import DmsSettings

PLAIN = DmsSettings()


def partitioned(sequence: str, delimiter: str) -> DmsSettings:
    return DmsSettings.model_validate(
        {
            "date_partition_enabled": True,
            "date_partition_sequence": sequence,
            "date_partition_delimiter": delimiter,
        }
    )


@pytest.mark.parametrize(
    ("name", "file_format", "compression"),
    [
        ("LOAD00000001.csv", "csv", "none"),
        ("LOAD00000009.csv.gz", "csv", "gzip"),
        ("LOAD0000000A.parquet", "parquet", "none"),
        ("LOADDEADBEEF.csv", "csv", "none"),
        ("LOAD0000000F.csv", "csv", "none"),
        ("LOAD00000010.csv", "csv", "none"),
        ("LOAD00000001.parquet.gz", "parquet", "gzip"),
        ("LOAD00000001.json", "json", "none"),
        ("LOAD00000001.jsonl", "json", "none"),
        ("LOAD00000001.json.gz", "json", "gzip"),
        ("LOAD00000001.jsonl.gz", "json", "gzip"),
        # MongoDB's and other unnamed segments of a parallel load
        ("SEGMENT1_LOAD00000001.csv", "csv", "none"),
        ("SEGMENT12_LOAD0000000A.csv.gz", "csv", "gzip"),
        # a parallel load's folders, by partition or segment name
        ("p0/LOAD00000001.csv", "csv", "none"),
        ("SALES_2026 Q1/LOAD0000001F.parquet", "parquet", "none"),
        ("region=eu/LOAD00000001.csv", "csv", "none"),
        ("2026-03-01/LOAD00000001.csv", "csv", "none"),
        ("p0/SEGMENT1_LOAD00000001.csv", "csv", "none"),
    ],
)
def test_full_load(name, file_format, compression):
    key = f"public/trips/{name}"
    assert parse_key(key, PLAIN) == DataFile(
        key, "public", "trips", FileKind.LOAD, file_format, compression, flush_time=None, capture_date=None
    )


@pytest.mark.parametrize(
    ("name", "microsecond"),
    [
        ("20221023-013830913.parquet", 913_000),
        ("20221023-013830007.csv", 7_000),
        ("20221023-0138300000.csv", 0),
        ("20221023-0138309135.csv.gz", 913_500),
    ],
)
def test_cdc_flush_time(name, microsecond):
    file = parse_key(f"dbo/Order Lines/{name}", PLAIN)
    assert isinstance(file, DataFile)
    assert (file.schema, file.table, file.kind) == ("dbo", "Order Lines", FileKind.CDC)
    assert file.flush_time == datetime(2022, 10, 23, 1, 38, 30, microsecond, UTC)
    assert file.capture_date == date(2022, 10, 23)
    assert file.qualified_table == "dbo.Order Lines"


def test_names_keep_their_case():
    file = parse_key("HR/EMPLOYEES/LOAD00000001.csv", PLAIN)
    assert isinstance(file, DataFile)
    assert file.qualified_table == "HR.EMPLOYEES"


@pytest.mark.parametrize("delimiter", ["slash", "dash", "underscore", "none"])
@pytest.mark.parametrize(
    ("sequence", "parts"),
    [
        ("yyyymmdd", ("2022", "10", "23")),
        ("yyyymmddhh", ("2022", "10", "23", "23")),
        ("mmyyyydd", ("10", "2022", "23")),
        ("ddmmyyyy", ("23", "10", "2022")),
        ("yyyymm", ("2022", "10")),
    ],
)
def test_every_date_partition(sequence, parts, delimiter):
    folder = {"slash": "/", "dash": "-", "underscore": "_", "none": ""}[delimiter].join(parts)
    # Flushed after midnight: the folder's date is the transaction's.
    key = f"public/trips/{folder}/20221024-000012345.csv"
    file = parse_key(key, partitioned(sequence, delimiter))
    assert isinstance(file, DataFile)
    # A month's folder has no day, so there it is the flush date.
    assert file.capture_date == date(2022, 10, 24 if sequence == "yyyymm" else 23)
    assert isinstance(parse_key(key, PLAIN), UnknownKey), "the contract says there are no date folders"


@pytest.mark.parametrize(
    ("folder", "name", "expected"),
    [
        ("2022/10", "20221031-235959999.csv", date(2022, 10, 31)),
        ("2022/10", "20221101-000001000.csv", date(2022, 10, 31)),
        ("2022/12", "20230101-000001000.csv", date(2022, 12, 31)),
    ],
)
def test_a_months_folder_holds_no_day_of_the_next_month(folder, name, expected):
    file = parse_key(f"public/trips/{folder}/{name}", partitioned("yyyymm", "slash"))
    assert isinstance(file, DataFile)
    assert file.capture_date == expected


def test_cdc_from_before_date_partitions_were_switched_on():
    file = parse_key("public/trips/20221024-000012345.csv", partitioned("yyyymmdd", "slash"))
    assert isinstance(file, DataFile)
    assert file.capture_date == date(2022, 10, 24)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("public/trips/", "folder marker"),
        ("", "folder marker"),
        ("public/trips/.LOAD00000001.csv.crc", "hidden or temporary"),
        ("public/trips/_SUCCESS", "hidden or temporary"),
        (".staging/trips/LOAD00000001.csv", "hidden or temporary"),
        ("_temporary/0/part.csv", "hidden or temporary"),
        ("public/trips/_temporary/LOAD00000001.csv", "hidden or temporary"),
        ("awsdms_status/LOAD00000001.csv", "control table"),
        ("public/awsdms_apply_exceptions/20221023-013830913.csv", "control table"),
        ("dbo/AWSDMS_HISTORY/LOAD00000001.csv", "control table"),
        ("public/awsdms_validation_failures_v1/LOAD00000001.csv", "control table"),
        ("s3_validation_failures/public/trips/x.csv", "control table"),
    ],
)
def test_ignored(key, reason):
    parsed = parse_key(key, PLAIN)
    assert isinstance(parsed, IgnoredKey)
    assert reason in parsed.reason


def test_a_table_may_begin_with_an_underscore():
    assert isinstance(parse_key("public/_prisma_migrations/LOAD00000001.csv", PLAIN), DataFile)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("LOAD00000001.csv", "<schema>/<table>/<file>"),
        ("trips/LOAD00000001.csv", "<schema>/<table>/<file>"),
        ("/trips/LOAD00000001.csv", "<schema>/<table>/<file>"),
        ("public//LOAD00000001.csv", "<schema>/<table>/<file>"),
        ("public/trips/LOAD0000001.csv", "neither LOAD"),
        ("public/trips/LOAD00000001.CSV", "neither LOAD"),
        ("public/trips/LOAD0000000a.csv", "neither LOAD"),
        ("public/trips/LOAD0000000G.csv", "neither LOAD"),
        ("public/trips/LOAD00000001.csv.bz2", "neither LOAD"),
        ("public/trips/LOAD00000001.orc", "neither LOAD"),
        ("public/trips/LOAD00000001.csv.gz.gz", "neither LOAD"),
        ("public/trips/LOAD00000001.csv\n", "neither LOAD"),
        ("public/trips/notes.txt", "neither LOAD"),
        ("public/trips/20221023-01383091.csv", "neither LOAD"),
        ("public/trips/20221023-01383091345.csv", "neither LOAD"),
        ("public/trips/\u0662\u0660221023-013830913.csv", "neither LOAD"),
        ("public/trips/20221323-013830913.csv", "not a date and time"),
        ("public/trips/20230229-013830913.csv", "not a date and time"),
        ("public/trips/20221023-253830913.csv", "not a date and time"),
        ("public/trips/20221023-016030913.csv", "not a date and time"),
        ("public/trips/00000101-000000000.csv", "not a date and time"),
        ("public/trips/p0/p1/LOAD00000001.csv", "full-load file in the folder 'p0/p1'"),
        ("public/trips/2022/10/23/LOAD00000001.csv", "full-load file in the folder"),
        ("public/trips/p0/20221023-013830913.csv", "date_partition_enabled is false"),
        ("public/trips/SEGMENT_LOAD00000001.csv", "neither LOAD"),
        ("public/trips/SEGMENT1_20221023-013830913.csv", "neither LOAD"),
        ("cdc/CDC_TXN-20201117153046033.csv", "dms.preserve_transactions to true and dms.cdc_path to 'cdc'"),
        ("CDC_TXN-20201117153046033.csv", "dms.cdc_path to 'its CdcPath'"),
        ("public/trips/CDC_TXN-20201117153046033.csv", "dms.cdc_path to 'public/trips'"),
    ],
)
def test_unknown(key, reason):
    parsed = parse_key(key, PLAIN)
    assert isinstance(parsed, UnknownKey)
    assert reason in parsed.reason


@pytest.mark.parametrize(
    ("folder", "sequence", "delimiter"),
    [
        ("2022-10-23", "yyyymmdd", "slash"),
        ("2022/10/23", "yyyymmdd", "dash"),
        ("2022/10/23", "yyyymm", "slash"),
        ("2022/10", "yyyymmdd", "slash"),
        ("2022/13/01", "yyyymmdd", "slash"),
        ("20230229", "yyyymmdd", "none"),
        ("2022/10/23/24", "yyyymmddhh", "slash"),
        ("0000-10", "yyyymm", "dash"),
        ("part/2022/10/23", "yyyymmdd", "slash"),
        ("2022_10_23", "yyyymmdd", "dash"),
    ],
)
def test_a_folder_that_is_not_the_contracts_date(folder, sequence, delimiter):
    parsed = parse_key(f"public/trips/{folder}/20221023-013830913.csv", partitioned(sequence, delimiter))
    assert isinstance(parsed, UnknownKey)
    assert folder in parsed.reason


# --- the zone of date folders and CDC names


@pytest.mark.parametrize(
    ("zone", "name", "flushed"),
    [
        (None, "20221023-230000000", datetime(2022, 10, 23, 23, tzinfo=UTC)),
        ("Asia/Seoul", "20221024-080000000", datetime(2022, 10, 23, 23, tzinfo=UTC)),
        ("America/New_York", "20221023-190000000", datetime(2022, 10, 23, 23, tzinfo=UTC)),
        # an hour that comes twice: the later one, so that the file is not taken for one from before a full load
        ("America/New_York", "20221106-013000000", datetime(2022, 11, 6, 6, 30, tzinfo=UTC)),
    ],
)
def test_the_zone_of_date_partitions_is_that_of_cdc_names_too(zone, name, flushed):
    dms = DmsSettings(date_partition_enabled=True, date_partition_timezone=zone)
    file = parse_key(f"public/trips/2022/10/24/{name}.csv", dms)
    assert isinstance(file, DataFile)
    assert (file.flush_time, file.capture_date) == (flushed, date(2022, 10, 24))


def test_a_zone_without_date_partitions_is_without_effect():
    file = parse_key("public/trips/20221024-080000000.csv", DmsSettings(date_partition_timezone="Asia/Seoul"))
    assert isinstance(file, DataFile)
    assert file.flush_time == datetime(2022, 10, 24, 8, tzinfo=UTC)


def test_a_local_time_before_the_first_year():
    dms = DmsSettings(date_partition_enabled=True, date_partition_timezone="Asia/Seoul")
    assert isinstance(parse_key("public/trips/00010101-000000000.csv", dms), UnknownKey)


# --- names as they are


@pytest.mark.parametrize("table", ["a b", "a+b", "100%", "a=b", "Grüße", "表", "a%20b", "it's", "a;b", "😀"])
def test_a_listed_key_is_right_as_it_is(table):
    file = parse_key(f"my schema/{table}/LOAD00000001.csv", PLAIN)
    assert isinstance(file, DataFile)
    assert file.qualified_table == f"my schema.{table}"


@pytest.mark.parametrize(
    ("encoded", "key"),
    [
        ("public/trips/LOAD00000001.csv", "public/trips/LOAD00000001.csv"),
        ("public/Order+Lines/20221023-013830913.csv", "public/Order Lines/20221023-013830913.csv"),
        ("public/a%2Bb/LOAD00000001.csv", "public/a+b/LOAD00000001.csv"),
        ("public/year%3D2022/LOAD00000001.csv", "public/year=2022/LOAD00000001.csv"),
        ("public/100%25/LOAD00000001.csv", "public/100%/LOAD00000001.csv"),
        ("public/a%2520b/LOAD00000001.csv", "public/a%20b/LOAD00000001.csv"),
        ("public/Gr%C3%BC%C3%9Fe/LOAD00000001.csv", "public/Grüße/LOAD00000001.csv"),
        ("public/%F0%9F%98%80/LOAD00000001.csv", "public/😀/LOAD00000001.csv"),
    ],
)
def test_the_keys_of_events_are_encoded(encoded, key):
    assert decode_event_key(encoded) == key


def test_an_events_key_that_is_no_text():
    with pytest.raises(ValueError, match="utf-8"):
        decode_event_key("public/%FF/LOAD00000001.csv")


def transactions(cdc_path):
    return DmsSettings(preserve_transactions=True, cdc_path=cdc_path, data_format="parquet")


@pytest.mark.parametrize(
    ("cdc_path", "key", "compression", "flushed"),
    [
        (
            "cdc",
            "cdc/CDC_TXN-20201117153046033.csv",
            "none",
            datetime(2020, 11, 17, 15, 30, 46, 33_000, tzinfo=UTC),
        ),
        (
            "cdc",
            "cdc/CDC_TXN-20201117153046033.csv.gz",
            "gzip",
            datetime(2020, 11, 17, 15, 30, 46, 33_000, tzinfo=UTC),
        ),
        (
            "/a/b c/",
            "a/b c/CDC_TXN-20240229235959999.csv",
            "none",
            datetime(2024, 2, 29, 23, 59, 59, 999_000, tzinfo=UTC),
        ),
        (
            "public/trips",
            "public/trips/CDC_TXN-20240101000000000.csv",
            "none",
            datetime(2024, 1, 1, tzinfo=UTC),
        ),
        ("_cdc", "_cdc/CDC_TXN-20240101000000000.csv", "none", datetime(2024, 1, 1, tzinfo=UTC)),
    ],
)
def test_transaction_files_are_csv_below_cdc_path(cdc_path, key, compression, flushed):
    """Whatever data_format says. The time is that of the flush, UTC, and there is no other."""
    parsed = parse_key(key, transactions(cdc_path))
    assert parsed == TransactionFile(key, compression, flushed)
    assert isinstance(parsed, TransactionFile)
    assert (parsed.kind, parsed.format, parsed.capture_date) == ("cdc", "transactions", flushed.date())


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("CDC_TXN-20201117153046033.csv", "in the folder '', but dms.cdc_path is 'cdc'"),
        ("other/CDC_TXN-20201117153046033.csv", "in the folder 'other', but dms.cdc_path is 'cdc'"),
        ("cdc/2020/11/17/CDC_TXN-20201117153046033.csv", "in the folder 'cdc/2020/11/17'"),
        ("cdc/CDC_TXN-20201117153046033.parquet", "with .csv or .csv.gz"),
        ("cdc/CDC_TXN-2020111715304603.csv", "is not CDC_TXN-<17 digits>"),
        ("cdc/CDC_TXN-202011171530460333.csv", "is not CDC_TXN-<17 digits>"),
        ("cdc/CDC_TXN-20201317153046033.csv", "not a date and time"),
    ],
)
def test_what_is_no_transaction_file(key, reason):
    parsed = parse_key(key, transactions("cdc"))
    assert isinstance(parsed, UnknownKey)
    assert reason in parsed.reason


def test_a_table_file_of_the_time_before_preserve_transactions():
    parsed = parse_key("public/trips/20221023-013830913.csv", transactions("cdc"))
    assert isinstance(parsed, DataFile)
    assert parsed.kind == "cdc"
