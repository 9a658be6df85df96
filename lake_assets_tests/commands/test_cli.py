"""The command line as a user meets it: what it prints, and its exit codes."""

import json
import re
import socket
import subprocess
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, snapshots, write_items
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS, ITEMS_HEADER, sequence, write_file
from lake_assets_tests.helpers.processes.child import PATIENCE, environment, run_python

LOAD = "public/items/LOAD00000001.csv"
CDC = "public/items/20260301-120100000.csv"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return command_lake(tmp_path)


def test_import_endpoint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    endpoint = folder / "endpoint.json"
    endpoint.write_text(
        json.dumps({"EngineName": "s3", "S3Settings": {"BucketName": "b", "CsvNullValue": ""}})
    )
    assert call(folder, "import-endpoint", str(endpoint)) == 0
    section = capsys.readouterr().out
    assert yaml.safe_load(section)["sources"]["dms"]["location"] == "s3://b"
    assert call(folder, "import-endpoint", str(endpoint), "--output", str(folder / "s.yaml")) == 0
    assert (folder / "s.yaml").read_text() == section
    assert "cannot be opened before" in capsys.readouterr().err
    endpoint.write_text("{")
    assert call(folder, "import-endpoint", str(endpoint)) == 2
    assert "is not JSON" in capsys.readouterr().err


def test_validate_says_what_the_file_describes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(folder, "validate") == 0
    shown = " ".join(capsys.readouterr().out.split())  # the line is broken where the folder's name is long
    assert "1 source, 2 tables, 2 silver tables, 0 marts: valid" in shown


def test_validate_refuses_a_wrong_file_with_the_places_of_its_mistakes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (folder / "lake.yaml").read_text(encoding="utf-8").replace("primary_key", "primary_keys")
    (folder / "wrong.yaml").write_text(text, encoding="utf-8")
    assert call(folder, "validate", config="wrong.yaml") == 2
    told = capsys.readouterr().err
    assert 'sources.shop.tables["public.items"].primary_keys' in told
    assert "primary_key" in told


def test_a_missing_file_is_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(folder, "sync", config="nowhere.yaml") == 2
    told = capsys.readouterr().err.strip()
    assert "nowhere.yaml" in told
    assert len(told.splitlines()) == 1


def test_a_mart_module_that_is_none_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = yaml.safe_load((folder / "lake.yaml").read_text(encoding="utf-8"))
    config["gold"]["marts"] = ["lake_assets.no_such_mart"]
    (folder / "lake.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    assert call(folder, "validate") == 2
    assert "lake_assets.no_such_mart" in capsys.readouterr().err


def test_sync_of_an_empty_location_says_so_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(folder, "sync") == 0
    told = capsys.readouterr()
    assert told.err.count("no DMS file") == 1
    assert "location" in told.err
    assert "Nothing was pending" in told.out


@pytest.mark.long
@pytest.mark.usefixtures("keep_little")
def test_maintain(spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of all tables, of one of them, and with one that cannot be maintained beside others that can."""
    write_items(folder)
    write_items(folder, "others")
    config = yaml.safe_load((folder / "lake.yaml").read_text(encoding="utf-8"))
    config["maintenance"] = {"keep_snapshots": "0s"}
    (folder / "lake.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    assert call(folder, "sync") == 0
    capsys.readouterr()

    assert call(folder, "maintain", "--table", "public.items") == 0
    printed = capsys.readouterr().out
    assert "silver_shop.items" in printed
    assert "others" not in printed
    lake = load_lake(folder / "lake.yaml")
    catalog = open_catalog(lake.catalog)
    assert len(catalog.load_table("silver_shop.items").snapshots()) == 1
    assert len(catalog.load_table("silver_shop.others").snapshots()) > 1
    assert call(folder, "sync") == 0
    assert "Nothing was pending" in capsys.readouterr().out

    (snapshot,) = catalog.load_table("silver_shop.items").snapshots()
    Path(re.sub("^file:/*", "/", snapshot.manifest_list)).unlink()
    assert call(folder, "maintain") == 1
    told = capsys.readouterr()
    assert "silver_shop.items failed" in told.err
    assert "lake_ops.bronze_files" in told.out
    assert len(catalog.load_table("silver_shop.others").snapshots()) == 1

    assert call(folder, "maintain", "--table", "public.nothing") == 2


def test_sync_applies_and_a_second_one_commits_nothing(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_items(folder)
    assert call(folder, "sync") == 0
    told = capsys.readouterr()
    assert "1 table and 0 marts" in told.out
    assert "no DMS files under" in told.err
    assert "public/others/" in told.err
    config = load_lake(folder / "lake.yaml")
    before = snapshots(config, "silver_shop.items", "lake_ops.bronze_files")
    rows = open_catalog(config.catalog).load_table("silver_shop.items").scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["name"]) for row in rows) == [(1, "name 1"), (2, "changed")]

    assert call(folder, "sync") == 0
    assert "Nothing was pending; nothing was committed." in capsys.readouterr().out
    assert snapshots(config, "silver_shop.items", "lake_ops.bronze_files") == before

    assert call(folder, "status", "--json") == 0
    lines = {line["table"]: line for line in json.loads(capsys.readouterr().out)}
    items, others = lines["silver_shop.items"], lines["silver_shop.others"]
    assert (items["state"], items["rows"], items["pending_files"], items["position"]) == (
        "up to date",
        2,
        0,
        2,
    )
    assert items["quarantined"] == 0
    assert items["lag_seconds"] > 0
    assert items["last_batch"]["kind"] == "full_load", "with the change since"
    assert items["last_batch"]["rows-updated"] == "1"
    assert (others["state"], others["rows"]) == ("no files", 0)


def test_a_failing_table_gives_exit_code_1_and_the_others_are_applied(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_items(folder)
    write_items(folder, "others")
    write_file(
        folder,
        "public/others/20260301-120200000.csv",
        [
            ITEMS_HEADER,
            f"U,2026-03-01 12:01:00.000000,2,x,not a price,2026-03-01 11:00:00.000000,{sequence(2)},",
        ],
    )
    assert call(folder, "sync") == 1
    told = capsys.readouterr().err.replace("\n", " ")
    assert "silver_shop.others failed" in told
    assert "20260301-120200000.csv: price is not a valid decimal(10, 2)" in told
    assert "row 1 of" in told
    config = load_lake(folder / "lake.yaml")
    assert open_catalog(config.catalog).load_table("silver_shop.items").scan().to_arrow().num_rows == 2

    assert call(folder, "status", "--json") == 1
    lines = {line["table"]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["silver_shop.items"]["state"] == "up to date"
    assert lines["silver_shop.others"]["state"] == "failing"
    assert "price is not a valid decimal(10, 2)" in lines["silver_shop.others"]["reason"]
    assert "lake-assets sync --table public.others" in lines["silver_shop.others"]["reason"]


def test_what_was_quarantined_is_said_with_the_command_that_names_it(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = yaml.safe_load((folder / "lake.yaml").read_text(encoding="utf-8"))
    config["sources"]["shop"]["tables"]["public.items"] = ITEMS | {"quarantine": {"max_rows": 10}}
    (folder / "lake.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    write_items(folder)
    row = f"U,2026-03-01 12:01:00.000000,2,x,not a price,2026-03-01 11:00:00.000000,{sequence(2)},"
    write_file(folder, "public/items/20260301-120200000.csv", [ITEMS_HEADER, row])
    (folder / "bronze/public/items/20260301-120300000.parquet").write_bytes(b"PAR1, but no Parquet")
    said = "1 row and 1 file are quarantined; to see which: lake-assets quarantine list --table public.items"
    assert call(folder, "sync") == 0
    told = capsys.readouterr()
    assert f"silver_shop.items: {said}" in told.err
    assert "quaran" in told.out
    assert call(folder, "status") == 0
    told = capsys.readouterr()
    assert f"silver_shop.items: {said}" in told.err
    assert "quaran" in told.out
    assert call(folder, "status", "--json") == 0
    items = json.loads(capsys.readouterr().out)[0]
    assert (items["quarantined"], items["quarantined_files"]) == (2, 1)
    assert isinstance(items["lag_seconds"], float)
    assert call(folder, "sync") == 0
    assert "quarantine list" not in capsys.readouterr().err, "this call quarantined nothing"


def test_an_error_of_the_jvm_is_its_root_cause_and_the_log_has_the_rest(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_items(folder)
    assert call(folder, "sync") == 0
    capsys.readouterr()
    for file in (folder / "warehouse/silver_shop/items").rglob("*.parquet"):
        file.unlink()
    row = f"U,2026-03-01 13:00:00.000000,2,again,2.00,2026-03-01 11:00:00.000000,{sequence(3)},"
    write_file(folder, "public/items/20260301-130100000.csv", [ITEMS_HEADER, row])
    assert call(folder, "sync") == 1
    (told,) = [line for line in capsys.readouterr().err.splitlines() if "silver_shop.items failed" in line]
    assert "An error occurred while calling" not in told
    assert re.search(r"items/data/\S+\.parquet", told), told
    log = (folder / "spark.log").read_text(encoding="utf-8")
    assert "silver_shop.items could not be applied" in log
    assert "\tat org.apache.iceberg." in log


def test_sync_and_maintain_take_a_table_by_each_of_its_names(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_items(folder)
    write_items(folder, "others")
    catalog = open_catalog(load_lake(folder / "lake.yaml").catalog)
    for number, name in enumerate(("public.items", "items", "silver_shop.items"), start=2):
        assert call(folder, "sync", "--no-gold", "--table", name) == 0
        assert catalog.load_table("silver_shop.items").scan().to_arrow().num_rows == number
        assert not catalog.table_exists("silver_shop.others")
        row = (
            f"I,2026-03-01 13:00:00.000000,{number + 1},n,2.00,2026-03-01 11:00:00.000000,{sequence(number)},"
        )
        write_file(folder, f"public/items/20260301-13{number:02d}00000.csv", [ITEMS_HEADER, row])
        capsys.readouterr()
        assert call(folder, "maintain", "--table", name) == 0
        printed = capsys.readouterr().out
        assert "silver_shop.items" in printed
        assert "others" not in printed


@pytest.mark.parametrize(("option", "value"), [("--table", "public.nothing"), ("--source", "nothing")])
def test_a_wrong_call_gives_exit_code_2_and_names_what_there_is(
    folder: Path, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(folder, "sync", option, value) == 2
    told = capsys.readouterr().err
    assert ("public.items" if option == "--table" else "shop") in told


IN_PROCESS = """
import sys
from lake_assets import cli
try:
    cli.main()
finally:
    heavy = {"dagster", "pyspark", "pandas", "boto3", "pyarrow.dataset", "pyiceberg.io.pyarrow"}
    print("imported", sorted(heavy & sys.modules.keys()))
"""

PRINTS_WHILE_SPARK_STARTS = """
import os, sys, threading, time
from pathlib import Path
from lake_assets.commands.run.opening import opened

lake, number = opened(Path(sys.argv[1])), 0
lake.runtime.sessions.begin()
while any(thread.name == "spark-start" for thread in threading.enumerate()):
    os.write(2, f"{number}\\n".encode())
    number += 1
    time.sleep(0.01)
lake.runtime.sessions.root().range(1).count()
print(number)
"""


def without_java(folder: Path, command: str = "sync") -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, on a machine without Java; it prints which slow modules it imported."""
    empty = folder / "bin"
    empty.mkdir(exist_ok=True)
    own = environment(PATH=str(empty))
    own.pop("JAVA_HOME", None)
    return run_python("-c", IN_PROCESS, "--config", folder / "lake.yaml", command, env=own, timeout=120)


def test_a_sync_with_nothing_pending_needs_neither_java_nor_slow_imports(
    spark: SparkSession, folder: Path
) -> None:
    """Also the second time, and while it names a file that is in no table."""
    write_items(folder)
    (folder / "bronze/public/items/20260301-150000000.csv").write_bytes(b"")
    assert call(folder, "sync") == 0
    for _ in range(2):
        run = without_java(folder)
        assert run.returncode == 0, run.stderr
        assert "Nothing was pending; nothing was committed." in run.stdout
        assert "imported []" in run.stdout
        assert "20260301-150000000.csv" in run.stderr
    run = without_java(folder, "status")
    assert run.returncode == 0, run.stderr
    assert "imported []" in run.stdout


def test_without_java_sync_says_so_in_one_sentence(tmp_path: Path) -> None:
    folder = command_lake(tmp_path, spark={"mode": "embedded"})
    write_items(folder)
    run = without_java(folder)
    assert run.returncode == 2
    assert "Java" in run.stderr
    assert "17" in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_dev_on_a_port_in_use_says_so_in_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert call(folder, "dev", "--port", str(port)) == 2
    told = capsys.readouterr().err
    assert f"Port {port} " in told
    assert len(told.strip().splitlines()) == 1
    assert "--port" in told


def test_a_decision_on_full_load_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(folder, "full-load", "public.items") == 2
    assert "--same-load" in capsys.readouterr().err
    assert call(folder, "full-load", "public.nothing", "--reload") == 1
    assert "lake.yaml has no table public.nothing" in capsys.readouterr().err
    assert call(folder, "full-load", "public.items", "--same-load") == 1
    assert "no full-load file is ambiguous" in capsys.readouterr().err


@pytest.mark.spark
def test_no_message_is_lost_while_spark_starts(folder: Path) -> None:
    """Dagster's settings are wrong, which `sync` finds out after it has begun to start Spark."""
    write_items(folder)
    (folder / "dagster.yaml").write_text("no_such_setting: true\n", encoding="utf-8")
    run = run_python("-m", "lake_assets.cli", "--config", folder / "lake.yaml", "sync", timeout=PATIENCE)
    assert run.returncode != 0
    assert "no_such_setting" in run.stderr


@pytest.mark.spark
def test_the_messages_of_spark_go_to_its_log_only(tmp_path: Path) -> None:
    folder = command_lake(tmp_path, spark={"mode": "embedded"})
    write_items(folder)
    run = run_python("-c", PRINTS_WHILE_SPARK_STARTS, folder / "lake.yaml", timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    assert run.stderr == "".join(f"{number}\n" for number in range(int(run.stdout)))
    assert "WARN" in (folder / "spark.log").read_text(encoding="utf-8")
