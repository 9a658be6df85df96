"""Parquet as DMS writes it."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets_tests.helpers.oracles.demo_history import make_history


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = make_history(
        tmp_path_factory.mktemp("parquet"), DmsWriterSettings(data_format="parquet"), changes=600, days=1
    )
    return made.folder / "public"


def test_types(folder):
    schema = pq.read_schema(next((folder / "trips").glob("2*.parquet")))
    assert {field.name: field.type for field in schema} == {
        "Op": pa.string(),
        "commit_ts": pa.string(),
        "trip_id": pa.int64(),
        "bike_id": pa.int64(),
        "member_id": pa.int64(),
        "start_station_id": pa.int32(),
        "end_station_id": pa.int32(),
        "started_at": pa.timestamp("us", tz="UTC"),
        "ended_at": pa.timestamp("us", tz="UTC"),
        "distance_km": pa.float64(),
        "fare": pa.decimal128(10, 2),
        "change_seq": pa.string(),
        "BI_trip_id": pa.int64(),
    }
    assert [field.name for field in schema if not field.nullable] == ["commit_ts"]


def test_storage(folder):
    metadata = pq.read_metadata(next((folder / "trips").glob("LOAD*.parquet")))
    assert metadata.format_version == "1.0"
    assert metadata.metadata is None, "no Arrow schema, which DMS does not write either"
    columns = {
        metadata.schema.column(at).name: metadata.schema.column(at) for at in range(metadata.num_columns)
    }
    assert columns["fare"].physical_type == "FIXED_LEN_BYTE_ARRAY"
    assert columns["started_at"].physical_type == "INT64"
    assert columns["started_at"].converted_type == "TIMESTAMP_MICROS"


def test_full_load_has_no_sequence(folder):
    loaded = pq.read_table(next((folder / "members").glob("LOAD*.parquet")))
    assert set(loaded.column("Op").to_pylist()) == {"I"}
    assert loaded.column("change_seq").null_count == loaded.num_rows
    assert loaded.column("BI_member_id").null_count == loaded.num_rows
    assert loaded.column("birth_date").type == pa.date32()
    assert len(set(loaded.column("commit_ts").to_pylist())) == loaded.num_rows
