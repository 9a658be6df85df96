"""What a user hears of keys that are not read: each once, with what to do."""

import logging
from pathlib import Path

import pytest

from lake_assets.rounds.arrivals import log_arrivals
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS, ITEMS_HEADER, small_lake, write_file


def test_each_strange_key_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = small_lake(tmp_path, {"public.items": ITEMS})
    for key in (
        "public/items/LOAD00000001.csv",
        "public/items/notes.txt",
        "PUBLIC/ITEMS/LOAD00000001.csv",
        "public/others/LOAD00000001.csv",
        "awsdms_status/LOAD00000001.csv",
        "s3_validation_failures/x.csv",
    ):
        write_file(tmp_path, key, [ITEMS_HEADER])
    told: set[str] = set()
    with caplog.at_level(logging.WARNING, "lake_assets"):
        assert len(log_arrivals(lake.runtime, "shop", told).logged) == 1
        assert log_arrivals(lake.runtime, "shop", told).logged == []
    assert sorted(record.getMessage() for record in caplog.records) == [
        "shop: 1 file of PUBLIC.ITEMS, which lake.yaml does not configure; it configures public.items: correct its "
        "case, or set ignore_case: true",
        "shop: 1 file of public.others, which lake.yaml does not configure",
        "shop: public/items/notes.txt is no DMS file: 'notes.txt' is neither LOAD<8 hex digits> nor "
        "<YYYYMMDD-HHMMSSmmm>, with .csv, .parquet, .json or .jsonl, optionally .gz",
    ]
