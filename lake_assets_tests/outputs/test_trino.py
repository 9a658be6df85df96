"""Trino reads silver and the marts through Glue, with the catalog file that `lake-assets warehouse trino` prints.

Here: every table, compared with what PyIceberg reads. Not here: engines without a server (`test_readers.py`).
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets.config.config_file import load_lake
from lake_assets.demo.history import generate_history
from lake_assets.iceberg.table_io import current_snapshot, summary
from lake_assets.lake import open_lake
from lake_assets_tests.helpers.oracles.demo_history import unequal_tables
from lake_assets_tests.helpers.processes.child import PATIENCE, environment, output_of, run_python
from lake_assets_tests.helpers.servers.glue import demonstration_in_glue, glue_server
from lake_assets_tests.helpers.servers.s3 import client, credentials
from lake_assets_tests.helpers.warehouses.trino import TRINO, catalog_at_moto, trino_server

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not TRINO.exists(), reason="`make test-long` installs Trino"),
]
BUCKET = "for-trino"
END = datetime(2026, 11, 8, tzinfo=UTC)
WITH_VECTORS = "public.bikes"
"""The one table of format version 3."""


def test_it_reads_every_table_of_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with glue_server() as endpoint:
        for name, value in credentials(endpoint).items():
            monkeypatch.setenv(name, value)
        client("s3", endpoint).create_bucket(Bucket=BUCKET)
        text = demonstration_in_glue(endpoint, BUCKET)
        text["format_version"] = 2
        text["sources"]["bikeshare"]["tables"][WITH_VECTORS]["format_version"] = 3
        text.setdefault("automation", {}).update(max_files_per_batch=20, rewrite_below_mb=0)
        path = tmp_path / "lake.yaml"
        path.write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")
        generate_history(
            f"s3://{BUCKET}/bronze/",
            tmp_path / "source.db",
            seed=13,
            changes=2_000,
            days=2,
            past_trips=300,
            end=END,
        )
        command = ("-m", "lake_assets.cli", "--config", path)
        later = held_back(client("s3", endpoint))
        for files in ({}, later):
            for key, body in files.items():
                client("s3", endpoint).put_object(Bucket=BUCKET, Key=key, Body=body)
            output_of(run_python(*command, "sync", timeout=PATIENCE, env=environment()))
        lake = open_lake(load_lake(path))
        assert unequal_tables(lake.config, tmp_path / "source.db") == []
        printed = output_of(run_python(*command, "warehouse", "trino", timeout=PATIENCE, env=environment()))
        marked = rows = 0
        with trino_server(tmp_path / "trino", catalog_at_moto(printed, endpoint)) as connection:
            for identifier in lake.tables:
                table = lake.runtime.catalog.load_table(identifier)
                expected = table.scan().to_arrow().to_pylist()
                marks = int(summary(current_snapshot(table)).get("total-position-deletes", "0"))
                if identifier.endswith(WITH_VECTORS.replace("public", "")) and marks:
                    with pytest.raises(Exception, match="Unexpected PUFFIN file format"):
                        rows_of(connection, identifier)
                    continue
                assert rows_of(connection, identifier) == plain(expected), identifier
                marked += marks
                rows += len(expected)
        assert rows > 1_000
        assert marked, "no table had rows that only marks leave out"


def held_back(s3: Any) -> dict[str, bytes]:
    """Takes the newer half of the changes from the bucket, so that a later batch has them."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="bronze/")
    keys = [found["Key"] for page in pages for found in page["Contents"] if "LOAD" not in found["Key"]]
    newer = sorted(keys, key=lambda key: key.rpartition("/")[2])[len(keys) // 2 :]
    bodies = {key: s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in newer}
    for key in newer:
        s3.delete_object(Bucket=BUCKET, Key=key)
    return bodies


def rows_of(connection: Any, identifier: str) -> list[str]:
    cursor = connection.cursor()
    cursor.execute(f"SELECT * FROM {identifier}")
    found = cursor.fetchall()
    names = [column[0] for column in cursor.description]
    return plain([dict(zip(names, row, strict=True)) for row in found])


def plain(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as sorted texts that are equal only for equal values."""
    return sorted(repr({name.lower(): _value(value) for name, value in sorted(row.items())}) for row in rows)


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).isoformat()
    return value
