"""The board after a batch of a masked table: its figures, and no plain value.

Not here: the page itself (`test_board.py`).
"""

import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.board.board import content
from lake_assets_tests.helpers.files.dms_files import load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.masked_items import KEYED, TABLE, row
from lake_assets_tests.helpers.oracles.masks import MASKING
from lake_assets_tests.helpers.texts.html_tables import rows_of


@pytest.mark.spark
def test_a_batch_and_a_row_of_a_masked_table(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, {TABLE: KEYED}, {}, MASKING)
    bench.put(load_file(TABLE, [row("one"), row("two")]))
    bench.apply()
    committed = datetime.now(UTC) - timedelta(hours=3, minutes=5)
    key = f"public/items/{committed:%Y%m%d-%H%M%S}000.csv"
    bench.put_text(
        key,
        "Op,commit_ts,id,email,name,born,a.b`c,v,change_seq,BI_id",
        f"I,{committed:%Y-%m-%d %H:%M:%S},three,three@example.org,Name of three,2000-01-02,odd,plain,,",
        f"Secret Name,{committed:%Y-%m-%d %H:%M:%S},four,four@example.org,x,2000-01-02,odd,plain,,",
    )
    landed = time.time() - 130
    os.utime(tmp_path / "bronze" / key, (landed, landed))
    bench.apply()
    shown = content(bench.lake)
    (line,) = rows_of(shown, "Silver")
    assert line[:4] == ["shop.items", "up to date", "3", "0"]
    assert re.fullmatch(r"3 h (5|6) min", line[4]), "since the newest commit"
    from_file = r"2 min (1|2|3|4|5)\d s|3 min( \d+ s)?"
    assert re.fullmatch(f"({from_file}) / ({from_file})", line[5]), "since the file, which landed 130 s ago"
    assert line[6] == "1.0", "a full scan is one of a fresh copy"
    assert line[7] == "cdc, 2 rows"
    (held,) = rows_of(shown, "Id")
    assert held[1:] == ["shop.items", key, "unknown operation ***"]
    for plain in ("Secret", "example.org", "three", "four"):
        assert plain not in shown
