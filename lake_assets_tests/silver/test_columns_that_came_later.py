"""Headerless files to which DMS's own columns were added on some day: a data set of the real shape loads with no
setting beyond the endpoint's own.

Here: such data sets through `sync`, compared with the oracle. Not here: what a file's width and values leave of its
layouts (`bronze/layouts/test_headerless.py`).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.orchestration.sync import sync
from lake_assets.rounds.pending_work import SyncResult
from lake_assets_tests.helpers.files.dms_files import (
    NOON,
    Clock,
    DmsFile,
    Row,
    cdc_file,
    csv_bytes,
    load_file,
    put,
)
from lake_assets_tests.helpers.lakes.bench import Bench

pytestmark = pytest.mark.spark
ACCOUNTS, CODES, PAIRS, LONG = "public.accounts", "public.codes", "public.pairs", "public.long_codes"
TABLES: dict[str, dict[str, Any]] = {
    ACCOUNTS: {
        "columns": {"id": "long not null", "owner": "string", "fee": "decimal(10, 2)"},
        "primary_key": ["id"],
        "also": ["change_log", "history"],
    },
    CODES: {"columns": {"code": "string not null", "v": "string"}, "primary_key": ["code"]},
    LONG: {
        "columns": {"code": "string not null", "v": "string"},
        "primary_key": ["code"],
        "name": "long_codes",
    },
    PAIRS: {
        "columns": {"a": "long not null", "b": "string not null", "v": "string"},
        "primary_key": ["a", "b"],
    },
}
SILVER = {ACCOUNTS: "accounts", CODES: "codes", PAIRS: "pairs", LONG: "long_codes"}
ENDPOINT: dict[str, Any] = {
    "add_column_name": False,
    "include_op_for_full_load": True,
    "csv_null_value": "",
}
"""Beside the names of the columns that DMS adds. As real files have it, NULL is an empty field."""
NO_IMAGES: dict[str, Any] = {"before_image_prefix": None}
DIGITS = "2024070510150000" + "7" * 19
"""A key that looks like a sequence."""


class DataSet:
    """Files of some tables as an endpoint writes them that had fewer columns at first."""

    def __init__(
        self, folder: Path, names: Sequence[str], more: Mapping[str, Any] | None = None, **dms: Any
    ) -> None:
        tables = {name: TABLES[name] | dict((more or {}).get(name, {})) for name in names}
        self.bench = Bench(folder, tables, ENDPOINT | dms)
        self.clock = Clock()
        self.instance = dg.DagsterInstance.ephemeral()

    def put(self, file: DmsFile, **settings: Any) -> DmsFile:
        """As an endpoint with other settings wrote it."""
        table = ".".join(file.key.split("/")[:2])
        dms = {**self.bench.dms, **settings}
        content = csv_bytes(file, self.bench.columns(table), self.bench.key(table), dms)
        assert self.bench.location is not None
        put(self.bench.location, file.key, content)
        self.bench.bucket[file.key] = file
        return file

    def changes(self, table: str, *rows: Row, **settings: Any) -> DmsFile:
        self.clock.now += timedelta(minutes=1)
        return self.put(cdc_file(table, self.clock.now, rows), **settings)

    def sync(self) -> SyncResult:
        return sync(self.bench.lake, self.instance, gold=False)

    def check(self) -> None:
        for table in self.bench.tables:
            assert self.bench.rows(SILVER[table]) == self.bench.truth(table), table


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    """Full loads and changes without before images, and then with them."""
    found = DataSet(tmp_path_factory.mktemp("lake"), list(TABLES))
    c = found.clock.change
    accounts = [{"id": n, "owner": f"o{n}", "fee": None} for n in range(1, 6)]
    codes = [{"code": code, "v": "loaded"} for code in ("A1", "B2", "C3")]
    pairs = [{"a": 1, "b": code, "v": "loaded"} for code in ("x", "y", "z")]
    found.put(load_file(ACCOUNTS, accounts[:3]), **NO_IMAGES)
    found.put(load_file(ACCOUNTS, accounts[3:], part=2), **NO_IMAGES)
    found.put(load_file(CODES, codes), **NO_IMAGES)
    found.put(load_file(LONG, [{"code": DIGITS, "v": "loaded"}, {"code": "short", "v": None}]), **NO_IMAGES)
    found.put(load_file(PAIRS, pairs), **NO_IMAGES)
    found.changes(
        ACCOUNTS,
        c("U", {"id": 1, "owner": "new", "fee": Decimal("5.00")}),
        c("D", {"id": 2}),
        c("I", {"id": 9, "owner": None, "fee": None}),
        **NO_IMAGES,
    )
    found.changes(CODES, c("U", {"code": "A1", "v": "new"}), c("D", {"code": "B2"}), **NO_IMAGES)
    found.changes(LONG, c("U", {"code": DIGITS, "v": "new"}), **NO_IMAGES)
    found.changes(PAIRS, c("U", {"a": 1, "b": "x", "v": "new"}), **NO_IMAGES)
    found.clock.now += timedelta(days=5)
    found.changes(
        ACCOUNTS,
        c("U", {"id": 10, "owner": "new", "fee": Decimal("5.00")}, {"id": 1}),
        c("I", {"id": 11, "owner": "later"}),
    )
    found.changes(
        CODES, c("U", {"code": "A2", "v": "moved"}, {"code": "A1"}), c("I", {"code": "D4", "v": "d"})
    )
    found.changes(LONG, c("U", {"code": "other", "v": "moved"}, {"code": DIGITS}))
    found.changes(PAIRS, c("U", {"a": 2, "b": "x", "v": "moved"}, {"a": 1, "b": "x"}))
    return found


def test_it_loads_with_no_setting_beyond_the_endpoints_own(filled: DataSet) -> None:
    assert filled.sync().failed == {}
    filled.check()
    assert filled.bench.rows("accounts_changes") == filled.bench.truth(ACCOUNTS, "change_log")


def test_late_files_of_either_kind_are_read_again_alike(filled: DataSet) -> None:
    """A replay reads the files from before that day once more."""
    early, late = Clock(NOON + timedelta(minutes=5, seconds=20)), filled.clock
    late.now = NOON + timedelta(minutes=5, seconds=30)
    filled.changes(CODES, early.change("U", {"code": "C3", "v": "late"}), **NO_IMAGES)
    late.now = NOON + timedelta(days=5, minutes=30)
    filled.changes(CODES, late.change("U", {"code": "C4", "v": "late too"}, {"code": "C3"}))
    assert filled.sync().failed == {}
    filled.check()


def test_a_key_that_may_be_either_is_refused_until_somebody_says_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Not every row has what looks like a sequence: these are before images, or rows without their sequence."""
    later: dict[str, Any] = {"change_sequence_column": None}
    found = DataSet(tmp_path, [LONG])
    found.put(load_file(LONG, [{"code": DIGITS, "v": "loaded"}]), **NO_IMAGES)
    rows = [{"code": "first", "v": "moved"}, {"code": "second", "v": "new"}]
    one, two = (found.clock.change(op, row) for op, row in zip("UI", rows, strict=True))
    moved = {**one, "BI_code": DIGITS}
    file = found.changes(LONG, moved, two, **later)
    failed = found.sync().failed
    assert "they could be (Op, commit_ts, code, v, change_seq) or (Op, commit_ts, code, v, BI_code)" in str(
        failed
    )
    assert file.key in str(failed)
    assert "before_image_prefix: null" in str(failed)
    ends = f"{found.clock.now + timedelta(seconds=1):%Y%m%d-%H%M%S}000"
    found.bench.edit({LONG: TABLES[LONG] | {"earlier": [{"until_file": ends, "dms": later}]}})
    found.changes(LONG, found.clock.change("U", {"code": "third", "v": "v"}, {"code": "second"}))
    assert found.sync().failed == {}
    found.check()


def test_a_full_load_without_transfer_times_is_of_the_first_layout(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its object is dated by a copy of the bucket, from after the source's change."""
    noted = {"id": "long not null", "owner": "string", "note": "string"}
    was = {"id": "long not null", "memo": "string", "owner": "string"}
    untimed: dict[str, Any] = {"timestamp_column_name": None}
    table = {"columns": noted, "primary_key": ["id"], "also": []}
    began = datetime(2026, 3, 2, tzinfo=UTC)
    earlier = [{"until_file": f"{began:%Y%m%d-%H%M%S}000", "columns": was}]
    found = DataSet(tmp_path, [ACCOUNTS], {ACCOUNTS: table | {"earlier": earlier}}, **untimed)
    location = found.bench.location
    assert location is not None
    put(location, "public/accounts/LOAD00000001.csv", b"I,1,memo,me,\nI,2,,you,\n")
    first = Clock().change("U", {"id": 1})["change_seq"]
    put(location, "public/accounts/20260301-130000000.csv", f"U,1,changed,me,{first},\n".encode())
    last = Clock(began).change("U", {"id": 2})["change_seq"]
    put(location, "public/accounts/20260302-130000000.csv", f"U,2,we,noted,{last},\n".encode())
    assert found.sync().failed == {}
    rows = found.bench.stored("accounts")
    assert [row["owner"] for row in sorted(rows, key=lambda row: row["id"])] == ["me", "we"]
