"""Masked columns: in every shape, layout and strategy silver is the oracle's rows, masked.

Here: rows, and quarantined rows. Not here: masks that change (`test_changed_masks.py`), which masks lake.yaml may have
(`config/test_masks.py`), all bytes of a lake (`test_masked_bytes.py`), histories by chance (`test_random_histories.py`,
`soak/`).
"""

import hmac
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from lake_assets.bronze.reader import staging
from lake_assets.bronze.scan import discovery
from lake_assets.checks.quarantine_rule import quarantine_grows_less
from lake_assets.commands.mend.quarantine_commands import retry
from lake_assets.config import Mask, QuarantineGrowth
from lake_assets.orchestration.checks.silver_checks import quarantine_evaluation
from lake_assets.silver.apply.failures import KIND
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets.silver.changes.in_silver import masked_values
from lake_assets.silver.table.masks import shown
from lake_assets_tests.helpers.files.dms_files import Clock, DmsFile, cdc_file, load_file, transaction_file
from lake_assets_tests.helpers.files.held_batches import read_by
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.masked_items import COLUMNS, KEYED, TABLE, row
from lake_assets_tests.helpers.oracles.masks import MASKING, SALT, hashed

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def story(extension: str = "csv") -> list[list[DmsFile]]:
    """Two turns: a load, an update, a key move and a delete; then a late file."""
    clock = Clock()
    late = clock.change("U", row("one", "late", name=None))
    clock.now += timedelta(seconds=5)
    changes = [
        clock.change("U", row("two", "new e-mail", email="second@example.org")),
        clock.change("U", row("four", "moved", email="three@example.org"), {"id": "three"}),
        clock.change("I", row("five", "", name="", **{"a.b`c": None})),
        clock.change("D", dict.fromkeys(COLUMNS) | {"id": "one-off"}),
    ]
    loaded = [row(key) for key in ("one", "two", "three", "one-off")]
    return [
        [
            load_file(TABLE, loaded, extension=extension),
            cdc_file(TABLE, clock.now + timedelta(minutes=1), changes, extension=extension),
        ],
        [cdc_file(TABLE, clock.now + timedelta(minutes=2), [late], extension=extension)],
    ]


def check(bench: Bench) -> None:
    assert bench.rows() == bench.truth()
    assert bench.rows("items_changes") == bench.truth(shape="change_log")
    ids = {row["id"] for row in bench.stored()}
    assert ids == {hashed(key) for key in ("one", "two", "four", "five")}, (
        "the key moved, and the hash with it"
    )


@pytest.mark.parametrize(
    "layout",
    ["parquet", *(pytest.param(name, marks=pytest.mark.long) for name in ("csv", "headerless", "Spark"))],
)
def test_a_table_with_a_key_and_its_change_log(
    spark: SparkSession, tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if layout == "Spark":
        monkeypatch.setattr("lake_assets.bronze.decode.files.MOST_BYTES", -1)
    dms = {"add_column_name": False} if layout == "headerless" else {}
    bench = Bench(tmp_path, {TABLE: KEYED | {"also": ["change_log"]}}, dms, MASKING)
    for turn in story("parquet" if layout == "parquet" else "csv"):
        bench.put(
            *turn, types={"born": pa.date32()} | {name: pa.string() for name in COLUMNS if name != "born"}
        )
        bench.apply()
        assert bench.rows() == bench.truth()
    check(bench)


def test_plain_values_are_never_left_beside_the_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are masked before they are staged."""
    monkeypatch.setattr(staging.Staging, "clear", lambda self: None)
    bench = Bench(tmp_path, {TABLE: KEYED | {"mode": "history"}}, {}, MASKING)
    with read_by("staged"):
        for turn in story():
            bench.put(*turn)
            bench.apply()
    assert bench.table().scan().to_arrow().num_rows > 0
    folders = (tmp_path / "warehouse").rglob(f"*{staging.PREFIX}*")
    staged = [
        pq.read_table(path) for folder in folders for path in folder.rglob("*.parquet") if path.stat().st_size
    ]
    assert sum(table.num_rows for table in staged) > 0
    shown = str([table.drop_columns(["c3"]).to_pylist() for table in staged])
    assert hashed("one") in shown
    assert [
        plain for plain in ("example.org", "Name of", "odd ", "'one'", "datetime.date(") if plain in shown
    ] == []


def test_files_of_transactions(spark: SparkSession, tmp_path: Path) -> None:
    dms = {"preserve_transactions": True, "cdc_path": "cdc", "add_column_name": False}
    bench = Bench(tmp_path, {TABLE: KEYED | {"also": ["change_log"]}}, dms, MASKING)
    for load, *changes in story():
        if load.is_load:
            bench.put(load)
        else:
            changes = [load]
        bench.put(*(transaction_file(f.flushed, [(TABLE, r) for r in f.rows]) for f in changes))
        bench.apply()
    check(bench)


def test_parquet_numbers_as_hashed_texts(spark: SparkSession, tmp_path: Path) -> None:
    """A hash is that of the text: the same for a number in CSV and in Parquet."""
    columns = {"id": "string not null", "v": "string"}
    bench = Bench(
        tmp_path, {TABLE: {"columns": columns, "primary_key": ["id"], "mask": {"id": "hash"}}}, {}, MASKING
    )
    clock = Clock()
    bench.put(
        load_file(TABLE, [{"id": n, "v": "x"} for n in (1, 2)], extension="parquet"), types={"id": pa.int64()}
    )
    moved = [clock.change("U", {"id": 3, "v": "y"}, {"id": 2})]
    bench.put(cdc_file(TABLE, clock.now + timedelta(minutes=1), moved))
    bench.apply()
    assert bench.rows() == bench.truth()


@pytest.mark.parametrize("mode", ["full_row", pytest.param("append_log", marks=pytest.mark.long)])
def test_a_table_without_a_key(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    columns = {"a": "string", "b": "string", "n": "int"}
    mask = {"a": "hash", "b": "hash"} if mode == "full_row" else {"a": "redact", "b": None}
    bench, clock = (
        Bench(tmp_path, {TABLE: {"columns": columns, "mode": mode, "mask": mask}}, {}, MASKING),
        Clock(),
    )
    bench.put(
        load_file(
            TABLE, [{"a": "x", "b": "y", "n": 1}, {"a": "x", "b": "y", "n": 1}, {"a": None, "b": "", "n": 2}]
        )
    )
    bench.apply()
    changes = [clock.change("I", {"a": "z", "b": None, "n": 3})]
    if mode == "full_row":
        changes += [
            clock.change("U", {"a": "X", "b": "y", "n": 1}, {"a": "x", "b": "y", "n": 1}),
            clock.change("D", {"a": None, "b": "", "n": 2}),
        ]
    bench.put(cdc_file(TABLE, clock.now + timedelta(minutes=1), changes))
    bench.apply()
    assert bench.rows() == bench.truth(shape=mode)


def test_values_that_the_source_did_not_supply_stay(spark: SparkSession, tmp_path: Path) -> None:
    columns = {"id": "long not null", "email": "string", "name": "string", "v": "string"}
    table = {"columns": columns, "primary_key": ["id"], "mask": {"email": "hash", "name": "redact"}}
    bench, clock = Bench(tmp_path, {TABLE: table}, {"csv_no_sup_value": "?"}, MASKING), Clock()
    bench.put(load_file(TABLE, [{"id": 1, "email": "a@example.org", "name": "A", "v": "old"}]))
    bench.put(
        cdc_file(
            TABLE,
            clock.now + timedelta(minutes=1),
            [clock.change("U", {"id": 1, "email": "?", "name": "?", "v": "new"})],
        )
    )
    bench.apply()
    assert bench.stored() == [{"id": 1, "email": hashed("a@example.org"), "name": "***", "v": "new"}]


@pytest.mark.long
def test_a_wide_table(spark: SparkSession, tmp_path: Path) -> None:
    columns = {"id": "long not null"} | {f"c{n}": "string" if n % 2 else "long" for n in range(240)}
    mask = {"c1": "hash", "c2": None, "c239": "redact"}
    bench = Bench(tmp_path, {TABLE: {"columns": columns, "primary_key": ["id"], "mask": mask}}, {}, MASKING)
    bench.put(load_file(TABLE, [{"id": 1, **{f"c{n}": str(n) if n % 2 else n for n in range(240)}}]))
    bench.apply()
    assert bench.rows() == bench.truth()


@pytest.mark.parametrize("salt", [SALT, "salt of a hundred characters " * 4])
def test_masked_values(salt: str) -> None:
    """Of a salt that is longer than a block of HMAC, every character counts."""
    plain = pa.chunked_array([["mail", None], ["", "mail"]], pa.string())

    def masked(mask: Mask, values: pa.ChunkedArray = plain) -> list[str | None]:
        found: list[str | None] = masked_values(values, mask, SecretStr(salt)).to_pylist()
        return found

    def own(text: str) -> str:
        return hmac.new(salt.encode(), text.encode(), "sha256").hexdigest()

    assert masked(Mask.HASH) == [own("mail"), None, own(""), own("mail")]
    assert masked(Mask.REDACT) == ["***", None, "***", "***"]
    assert masked(Mask.NULL) == [None] * 4
    assert masked(Mask.NULL, pa.chunked_array([[1, None]])) == [None, None]


# --- rows that cannot be used


def test_quarantined_rows_show_no_values(spark: SparkSession, tmp_path: Path) -> None:
    """Neither the text of the row, nor a value in the place of another."""
    bench = Bench(tmp_path, {TABLE: KEYED | {"columns": COLUMNS | {"n": "int"}}}, {}, MASKING)
    bench.put(load_file(TABLE, [row("one", n=1)]))
    header = "Op,commit_ts,id,email,name,born,a.b`c,v,n,change_seq,BI_id"
    bench.put_text(
        "public/items/20260301-130000000.csv",
        header,
        "U,2026-03-01 12:30:00,one,two@secret.org,Secret Name,1999-09-09,x,v,many,,",
        "Secret Name,2026-03-01 12:30:00,one,two@secret.org,x,1999-09-09,x,v,1,,",
        "U,2026-03-01 12:30:00,one,two@secret.org,x,born to Secret,x,v,1,,",
        "U,two@secret.org,one,Secret Name,1999-09-09,x,v,1,,",
    )
    bench.apply()
    held = bench.lake.runtime.quarantine.open("silver_shop.items")
    assert [one.raw for one in held] == ["***"] * 4
    assert [one.reason for one in held] == [
        "n is not a valid int",
        "unknown operation ***",
        "born is not a valid date",
        "not 11 fields, but 10",
    ]
    assert "secret" not in str(held).lower()


def test_rows_that_were_quarantined_before_the_mask(spark: SparkSession, tmp_path: Path) -> None:
    table = {"columns": {"id": "long not null", "email": "string", "n": "int"}, "primary_key": ["id"]}
    bench = Bench(tmp_path, {TABLE: table}, {}, MASKING)
    bench.put_text(
        "public/items/20260301-130000000.csv",
        "Op,commit_ts,id,email,n,change_seq,BI_id",
        "I,2026-03-01 12:30:00,1,one@secret.org,1,,",
        "I,2026-03-01 12:30:00,2,secret.org,two@secret.org,,",
    )
    bench.apply()
    (held,) = bench.lake.runtime.quarantine.open()
    assert "secret.org" in held.reason
    bench.edit({TABLE: table | {"mask": {"email": "hash"}}})
    lake = bench.lake
    assert "secret" not in str(shown([held], lake.targets))
    assert "secret" not in str(shown([replace(held, raw=None)], lake.targets)), "its text could not be read"
    assert "secret" not in str(quarantine_evaluation(lake.targets[0], [held]))
    grown = quarantine_grows_less(lake.targets[0], QuarantineGrowth())(lake.runtime, ())
    assert not grown.passed
    assert "secret" not in str(grown)
    rebuild(lake.runtime, lake.targets[0])
    retry(lake.runtime, [held])
    bench.apply()
    (again,) = shown(lake.runtime.quarantine.open(), lake.targets)
    assert again.reason == "n is not a valid int"


@pytest.mark.parametrize("budget", [0, pytest.param(1 << 20, marks=pytest.mark.long)])
def test_a_file_that_has_lost_its_header(
    spark: SparkSession, tmp_path: Path, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first row is not taken for names of columns, which the log and the error would have."""
    discover = partial(discovery.discover, inspect_budget_bytes=budget)
    monkeypatch.setattr("lake_assets.rounds.arrivals.discover", discover)
    bench = Bench(tmp_path, {TABLE: KEYED}, {}, MASKING)
    bench.put_text(
        "public/items/LOAD00000001.csv",
        *(f"I,2026-03-01 12:00:00,{n},{n}@secret.org,Secret Name,1999-09-09,x,v,," for n in (1, 2)),
    )
    error = str(bench.turn()["items"].error)
    assert "has columns ***" in error or "has column ***" in error
    assert "lacks column id" in error
    said = (
        error
        + str(bench.lake.runtime.file_log.files("shop", TABLE))
        + str(bench.lake.runtime.findings.of(KIND))
    )
    assert "secret" not in said.lower()
