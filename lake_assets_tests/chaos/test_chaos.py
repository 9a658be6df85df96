"""The disturbances occur, the verdict detects differences, and the lake survives the disturbances.

Here: the server's faults and the verdict, without Dagster or Spark; in `make test-long`, three minutes of everything.
Not here: the ten minutes whose results are in docs/chaos.md (`make chaos`).
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lake_assets.config.config_file import load_lake
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets_tests.chaos.lake import PREFIX, SOURCE, write_lake
from lake_assets_tests.chaos.storage import BUCKET, Storage, Trouble
from lake_assets_tests.chaos.verdict import change_log_differences, log_differences
from lake_assets_tests.helpers.processes.child import output_of, run_python
from lake_assets_tests.helpers.servers.s3 import client

HEADER = "Op,commit_ts,change_seq,station_id,bikes_available,docks_available,is_renting,last_reported\n"
FOLDER = f"{PREFIX}public/station_status/"


@pytest.fixture(scope="module")
def storage() -> Iterator[Storage]:
    found = Storage(seed=1)
    found.make_bucket()
    yield found
    found.close()


def put(storage: Storage, name: str, *sequences: str) -> None:
    rows = [f"U,2026-03-01 12:00:00,{seq},1,2,3,true,2026-03-01 12:00:00\n" for seq in sequences]
    storage.client("s3").put_object(Bucket=BUCKET, Key=FOLDER + name, Body=(HEADER + "".join(rows)).encode())


@pytest.fixture
def lake(storage: Storage, tmp_path: Path) -> Lake:
    path = write_lake(tmp_path, storage, "sc://localhost", datetime.now(UTC).date(), continuous=False)
    return open_lake(load_lake(path, environ={}))


@pytest.mark.parametrize(
    ("kind", "code", "written"),
    [("500", "InternalError", False), ("503", "SlowDown", False), ("500 after", "InternalError", True)],
)
def test_requests_that_are_refused(storage: Storage, kind: str, code: str, written: bool) -> None:
    once = Config(retries={"max_attempts": 0})
    s3 = client("s3", storage.disturbed, config=once)
    key = f"other/{kind}"
    storage.troubles["s3"] = Trouble(1.0, (kind,))
    with pytest.raises(ClientError, match=code):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"")
    storage.troubles["s3"] = Trouble(1.0, ("slow",), 0.2)
    began = time.monotonic()
    assert s3.list_objects_v2(Bucket=BUCKET, Prefix=key)["KeyCount"] == written
    assert 0 < time.monotonic() - began < 5
    storage.troubles.clear()
    assert storage.met[f"s3 {kind}"] == 1


def test_the_verdict_sees_a_file_that_is_missing_and_one_that_is_there_twice(
    storage: Storage, lake: Lake
) -> None:
    put(storage, "20260301-120000000.csv", "1", "2")
    log_arrivals(lake.runtime, SOURCE)
    assert log_differences(lake, storage) == []
    (logged,) = lake.runtime.file_log.files(SOURCE)
    put(storage, "20260301-120001000.csv", "3")
    (missing,) = log_differences(lake, storage)
    assert "20260301-120001000.csv" in missing
    log_arrivals(lake.runtime, SOURCE)
    lake.runtime.file_log.log_again([logged])
    (double,) = log_differences(lake, storage)
    assert "20260301-120000000.csv" in double
    assert "2 times in the file log" in double


def test_the_verdict_sees_changes_that_are_missing(storage: Storage, lake: Lake) -> None:
    put(storage, "20260301-120002000.csv", "7", "8")
    lacking = change_log_differences(lake, storage)
    assert {"station_status_changes lacks change 7", "station_status_changes lacks change 8"} <= set(lacking)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("options", [[], ["--continuous"]])
def test_three_bad_minutes(options: list[str]) -> None:
    arguments = ("--minutes", "3", "--seed", "11", *options)
    done = run_python("-m", "lake_assets_tests.chaos", *arguments, timeout=1100)
    assert "Spark killed" in output_of(done)
