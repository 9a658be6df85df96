"""Every form of key through a pass and the log: each file once, in its table, its order and its epoch.

Here: forms of keys and settings of one table's own. Not here: what a key says (`test_keys.py`), the pass itself
(`test_discovery.py`).
"""

import gzip
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.bronze.files.inspect import UnreadableFile, inspect_file
from lake_assets.config import SourceConfig
from lake_assets_tests.helpers.files.scanned_source import HEADER, LATER_ROW, ROW, TRIPS, ScannedSource


@pytest.fixture
def source():
    table = {"columns": {"trip_id": "long not null"}, "primary_key": ["trip_id"]}
    dms = {"add_column_name": True, "timestamp_column_name": "commit_ts"}
    return SourceConfig.model_validate({"location": "unused", "dms": dms, "tables": {"public.trips": table}})


@pytest.fixture
def new_bench(open_catalog, location):
    return lambda source: ScannedSource(source, open_catalog, **location)


@pytest.fixture
def bench(new_bench, source):
    return new_bench(source)


def test_the_parts_of_a_parallel_load_are_one_epoch(bench):
    """The same counter in two folders is two files; a reload rewrites them one by one."""
    keys = [
        f"{TRIPS}/LOAD00000001.csv",
        f"{TRIPS}/SEGMENT1_LOAD00000001.csv",
        f"{TRIPS}/SEGMENT2_LOAD00000001.csv",
        f"{TRIPS}/p0/LOAD00000001.csv",
        f"{TRIPS}/p1/LOAD00000001.csv",
    ]
    for key in keys[:4]:
        bench.put(key)
    assert [(r.key, r.epoch) for r in bench.run().logged] == [(key, 1) for key in keys[:4]]
    bench.put(keys[4])
    assert [(r.key, r.epoch) for r in bench.run().logged] == [(keys[4], 1)]
    bench.put(keys[3], HEADER + LATER_ROW * 2)
    assert [(r.key, r.epoch) for r in bench.run().logged] == [(keys[3], 2)]
    for key in (keys[0], keys[4]):
        bench.put(key, HEADER + LATER_ROW * 3)
    assert [(r.key, r.epoch) for r in bench.run().logged] == [(keys[0], 2), (keys[4], 2)]


def test_hex_counters_are_in_order_past_0f(bench):
    names = [f"LOAD{number:08X}.csv" for number in (0x10, 0x9, 0xF, 0xA)]
    for name in names:
        bench.put(f"{TRIPS}/{name}")
    logged = [r.key.rsplit("/")[-1] for r in bench.run().logged]
    assert logged == ["LOAD00000009.csv", "LOAD0000000A.csv", "LOAD0000000F.csv", "LOAD00000010.csv"]


def test_parquet_under_gzip(bench):
    """DMS compresses pages; a file that was gzipped as a whole is logged, and says why it cannot be read."""
    table = pa.table({"commit_ts": ["2024-05-01 11:59:00.000000"], "trip_id": pa.array([1], pa.int64())})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="gzip")
    content = bytes(sink.getvalue())
    bench.put(f"{TRIPS}/LOAD00000001.parquet.gz", content)
    bench.put(f"{TRIPS}/LOAD00000002.parquet", gzip.compress(content))
    bench.put(f"{TRIPS}/LOAD00000003.parquet.gz", gzip.compress(content))
    logged = bench.run().logged
    assert [(r.format, r.compression, r.rows) for r in logged] == [
        ("parquet", "gzip", 1),
        ("parquet", "none", None),
        ("parquet", "gzip", None),
    ]
    for file in logged[1:]:
        with pytest.raises(UnreadableFile, match="gzipped as a whole"):
            inspect_file(bench.store, file, bench.source.dms)


@pytest.mark.parametrize("table", ["a b", "a+b", "100%", "a=b", "Grüße", "a%20b"])
def test_names_that_would_be_encoded_in_an_event(source, new_bench, table):
    bench = new_bench(
        source.model_copy(update={"tables": {f"my schema.{table}": source.tables["public.trips"]}})
    )
    keys = [f"my schema/{table}/LOAD00000001.csv", f"my schema/{table}/p=1/LOAD00000001.csv"]
    for key in keys:
        bench.put(key)
    found = bench.run()
    assert sorted((r.qualified_table, r.key, r.rows) for r in found.logged) == [
        (f"my schema.{table}", key, 1) for key in keys
    ]
    assert bench.run().logged == []


def test_schemas_that_share_table_names(source, new_bench):
    table = source.tables["public.trips"]
    bench = new_bench(source.model_copy(update={"tables": {"public.trips": table, "sales.trips": table}}))
    for schema in ("public", "sales", "hr"):
        bench.put(f"{schema}/trips/LOAD00000001.csv")
    bench.put("sales/trips/LOAD00000001.csv", HEADER + ROW * 2)
    found = bench.run()
    assert [(r.qualified_table, r.epoch, r.rows) for r in found.logged] == [
        ("public.trips", 1, 1),
        ("sales.trips", 1, 2),
    ]
    assert found.unconfigured == {"hr.trips": 1}


def test_a_folder_that_differs_by_case_is_told_with_the_configured_table(bench):
    bench.put("PUBLIC/TRIPS/LOAD00000001.csv")
    found = bench.run()
    assert (found.logged, found.unconfigured) == ([], {"PUBLIC.TRIPS": 1})
    case = "it configures public.trips: correct its case, or set ignore_case: true"
    assert found.hints == {"PUBLIC.TRIPS": case}


def test_case_is_ignored_when_asked(source, new_bench):
    bench = new_bench(source.model_copy(update={"ignore_case": True}))
    bench.put("PUBLIC/TRIPS/LOAD00000001.csv")
    bench.put("PUBLIC/TRIPS/20240501-120000000.csv")
    assert [(r.qualified_table, r.key) for r in bench.run().logged] == [
        ("public.trips", "PUBLIC/TRIPS/LOAD00000001.csv"),
        ("public.trips", "PUBLIC/TRIPS/20240501-120000000.csv"),
    ]
    assert [r.key for r in bench.log.files("bikeshare", "public.trips")] == [
        "PUBLIC/TRIPS/LOAD00000001.csv",
        "PUBLIC/TRIPS/20240501-120000000.csv",
    ]
    # A second folder of the same table is not mixed in, not even the one with the exact name.
    bench.put(f"{TRIPS}/LOAD00000001.csv")
    for _ in range(2):
        found = bench.run()
        assert found.logged == []
        ((told, reason),) = [(entry.key, entry.reason) for entry in found.unknown]
        assert told == f"{TRIPS}/LOAD00000001.csv"
        assert "the table's files come from PUBLIC/TRIPS" in reason


def test_settings_of_one_table(source, new_bench):
    """One table's files have no header and lie in date folders; its neighbour's do not."""
    plain = source.tables["public.trips"]
    own = plain.model_copy(
        update={
            "dms": {
                "add_column_name": False,
                "date_partition_enabled": True,
                "date_partition_timezone": "Asia/Seoul",
            }
        }
    )
    bench = new_bench(source.model_copy(update={"tables": {"public.trips": plain, "public.rides": own}}))
    bench.put(f"{TRIPS}/20240501-120000000.csv")
    bench.put("public/rides/2024/05/02/20240502-080000000.csv", ROW * 2)
    bench.put("public/trips/2024/05/02/20240502-080000000.csv")
    found = bench.run()
    assert [(r.table, r.rows, r.columns, r.flush_time) for r in found.logged] == [
        ("rides", 2, None, datetime(2024, 5, 1, 23, tzinfo=UTC)),
        ("trips", 1, ("Op", "commit_ts", "trip_id"), datetime(2024, 5, 1, 12, tzinfo=UTC)),
    ][::-1]
    assert found.logged[1].capture_date == date(2024, 5, 2)
    assert [entry.key for entry in found.unknown] == ["public/trips/2024/05/02/20240502-080000000.csv"]


def test_the_first_commit_of_files_without_an_operation(source, new_bench):
    """Where the operation is missing, the time is the first field: it decides when a full load began."""
    own = {"add_column_name": False, "cdc_inserts_only": True}
    table = source.tables["public.trips"].model_copy(update={"dms": own})
    bench = new_bench(source.model_copy(update={"tables": {"public.trips": table}}))
    bench.put(f"{TRIPS}/20240501-120000000.csv", b"2024-05-01 11:59:00.000000,1\n")
    (file,) = bench.run().logged
    assert file.first_commit_ts == datetime(2024, 5, 1, 11, 59, tzinfo=UTC)
