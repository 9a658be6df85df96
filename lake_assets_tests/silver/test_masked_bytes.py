"""A lake with a masked column, searched for the plain value: every file of it, and everything that a run says.

Here: the files of a lake's tables; and a run of `lake-assets sync` with Dagster's history and Spark's event log. Not
here: the rows (`test_masking.py`).
"""

import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.command_lake import command_lake
from lake_assets_tests.helpers.lakes.small_lakes import DMS, TINY, sequence, write_file
from lake_assets_tests.helpers.oracles.masks import MASKING, SALT, hashed
from lake_assets_tests.helpers.processes.child import environment, output_of, run_python

SECRETS = ("ada@secret.example", "ada.old@secret.example", "Ada Secretname", "grace@secret.example", "S-4711")
CANARY = "nothing to hide"
"""A plain value: a search that does not find it proves nothing."""
HEADER = "Op,commit_ts,code,email,name,note,n,change_seq,BI_code"
COLUMNS = {"code": "string not null", "email": "string", "name": "string", "note": "string", "n": "int"}
MASK = {"code": "hash", "email": "hash", "name": "redact"}


COMMANDS = """
import sys
from pathlib import Path
from lake_assets_tests.helpers.lakes.command_lake import call

for arguments in (["sync"], ["quarantine", "list"], ["status"], ["maintain"]):
    code = call(Path(sys.argv[1]), *arguments)
    print(f"{arguments[0]} ended with {code}", flush=True)
"""
"""One after the other in one process, so that one Spark does."""


def line(
    op: str, code: str, email: str, name: str, note: str, number: int, n: str = "1", before: str = ""
) -> str:
    order = sequence(number) if number else ""
    return f"{op},2026-03-01 12:00:0{number}.000000,{code},{email},{name},{note},{n},{order},{before}"


LOADED = [
    line("I", "S-4711", "ada.old@secret.example", "Ada Secretname", CANARY, 0),
    line("I", "S-1", "grace@secret.example", "NULL", CANARY, 0),
]
CHANGED = [
    line("U", "S-9", "ada@secret.example", "Ada Secretname", CANARY, 1, before="S-4711"),
    line("D", "S-1", "grace@secret.example", "Ada Secretname", CANARY, 2),
]
BAD = [line("I", "S-2", "grace@secret.example", "Ada Secretname", CANARY, 3, n="Ada Secretname")]


def texts_of(path: Path) -> Iterator[str]:
    """A file's bytes, and what is compressed in it."""
    content = path.read_bytes()
    yield content.decode("latin-1")
    if content.startswith(b"PAR1"):
        table = pq.ParquetFile(path)
        yield str(table.read().to_pylist()) + str(table.metadata.to_dict())
    elif content.startswith(b"Obj\x01"):
        # Avro: each block ends as the file does, and begins with two numbers of a few bytes each.
        for block in content.split(content[-16:])[1:]:
            for start in range(2, min(20, len(block))):
                inflate = zlib.decompressobj(-zlib.MAX_WBITS)
                try:
                    found = inflate.decompress(block[start:])
                except zlib.error:
                    continue
                if inflate.eof and len(found) > 8:
                    yield found.decode("latin-1")


def show_no_secret(found: dict[Path, list[str]], warehouse: Path) -> None:
    """In all texts of these files; and what is no secret is found in the warehouse."""
    for secret in (*SECRETS, SALT):
        shown = [str(path) for path, texts in found.items() if any(secret in text for text in texts)]
        assert shown == [], f"{secret} is in files"
    in_warehouse = [text for path, texts in found.items() if warehouse in path.parents for text in texts]
    for plain in (CANARY, hashed("ada@secret.example"), hashed("S-9")):
        assert any(plain in text for text in in_warehouse), plain
    bounds = [text for path, texts in found.items() if path.suffix == ".avro" for text in texts]
    assert any(hashed("S-9")[:16] in text for text in bounds), "the bounds of data files were read"


@pytest.mark.spark
def test_no_file_of_a_table_its_log_or_the_quarantine_has_a_plain_value(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = {
        "columns": COLUMNS,
        "primary_key": ["code"],
        "mask": MASK,
        "partition_by": ["truncate(3, email)"],
    }
    bench = Bench(tmp_path, {"public.items": table | {"also": ["change_log"]}}, {}, MASKING)
    bench.put_text("public/items/LOAD00000001.csv", HEADER, *LOADED)
    bench.put_text("public/items/20260301-120100000.csv", HEADER, *CHANGED, *BAD)
    bench.apply()
    assert len(bench.lake.runtime.quarantine.open()) == 2
    found = {path: list(texts_of(path)) for path in tmp_path.rglob("*") if path.is_file()}
    own = {path: texts for path, texts in found.items() if (tmp_path / "bronze") not in path.parents}
    assert tmp_path / "catalog.db" in own
    show_no_secret(own, tmp_path / "warehouse")
    assert [row["code"] for row in bench.stored()] == [hashed("S-9")]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_no_byte_of_a_run_has_a_plain_value_or_the_salt(spark: SparkSession, tmp_path: Path) -> None:
    items = {
        "columns": COLUMNS,
        "primary_key": ["code"],
        "mask": MASK,
        "partition_by": ["truncate(3, email)"],
    }
    tables = {
        "public.items": items | {"also": ["change_log", "history"]},
        "public.deleted": items | {"mode": "soft_delete"},
        "public.rows": {
            "columns": COLUMNS,
            "mode": "full_row",
            "mask": {"code": "hash", "email": "hash", "name": "hash"},
        },
        "public.appended": {"columns": COLUMNS, "mode": "append_log", "mask": MASK},
    }
    at_once = {name: {"full_load_complete": "immediately", **table} for name, table in tables.items()}
    events = tmp_path / "events"
    events.mkdir()
    conf = TINY | {
        "spark.eventLog.enabled": True,
        "spark.eventLog.compress": False,
        "spark.eventLog.dir": events.as_uri(),
    }
    folder = command_lake(
        tmp_path,
        sources={"shop": {"location": "bronze", "dms": DMS, "tables": at_once}},
        spark={"conf": conf},
        **MASKING,
    )
    for table in ("items", "deleted"):
        write_file(folder, f"public/{table}/LOAD00000001.csv", [HEADER, *LOADED])
        write_file(folder, f"public/{table}/20260301-120100000.csv", [HEADER, *CHANGED, *BAD])
    for table in ("rows", "appended"):
        header = HEADER if table == "appended" else HEADER.removesuffix(",BI_code")
        rows = LOADED if table == "appended" else [text.removesuffix(",") for text in LOADED]
        write_file(folder, f"public/{table}/LOAD00000001.csv", [header, *rows])
    (folder / "home").mkdir()
    (folder / "dagster.yaml").rename(folder / "home" / "dagster.yaml")
    env = environment(DAGSTER_HOME=str(folder / "home"), LAKE_MASK_SALT=SALT)

    done = run_python("-c", COMMANDS, folder, env=env, timeout=500)
    said = output_of(done) + done.stderr
    assert all(f"{name} ended with 0" in said for name in ("quarantine", "status", "maintain"))
    found = {path: list(texts_of(path)) for path in folder.rglob("*") if path.is_file()}
    own = {
        path: texts
        for path, texts in found.items()
        if path.name != "lake.yaml" and (folder / "bronze") not in path.parents
    }
    kinds = {path.relative_to(folder).parts[0] for path in own}
    assert {"warehouse", "catalog.db", "home", "events"} <= kinds
    show_no_secret(own, folder / "warehouse")
    assert [secret for secret in (*SECRETS, SALT) if secret in said] == []
    everything = [text for texts in own.values() for text in texts]
    for byte in (0x36, 0x5C):
        pad = bytes(letter ^ byte for letter in SALT.encode())
        assert not any(pad.hex() in text.lower() for text in everything), "Spark showed a literal"
        assert not any(pad.decode("latin-1") in text for text in everything)
    catalog = open_catalog(load_lake(folder / "lake.yaml").catalog)
    stored = {
        name: catalog.load_table(f"silver_shop.{name}").scan().to_arrow().to_pylist()
        for name in ("items", "rows")
    }
    assert [row["code"] for row in stored["items"]] == [hashed("S-9")]
    assert {row["code"] for row in stored["rows"]} == {hashed("S-4711"), hashed("S-1")}
