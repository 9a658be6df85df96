"""Tables without a key whose rows are found by all of their columns: the same row twice, NULL, rows that are not there.

Here: cases, and histories by chance. Not here: logs (`test_apply.py`).
"""

import copy
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from lake_assets.errors import TableStopped
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets_tests.helpers.files.dms_files import Clock, DmsFile, Row, cdc_file, csv_bytes, load_file, put
from lake_assets_tests.helpers.lakes.bench import AT_ONCE, Bench, comparable
from lake_assets_tests.helpers.lakes.small_lakes import DMS, lake_config
from lake_assets_tests.helpers.oracles import oracle
from lake_assets_tests.helpers.oracles.random_history import pieces
from lake_assets_tests.helpers.processes.random_deaths import turn_with_a_chance_of_death

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TABLE = "public.items"
COLUMNS = {"v": "string", "n": "int", "x": "double"}
FULL_ROW: dict[str, Any] = {"columns": COLUMNS, "mode": "full_row", "quarantine": {"max_rows": 0}}


def lake(folder: Path, **table: Any) -> Bench:
    return Bench(folder, {TABLE: copy.deepcopy(FULL_ROW) | table})


def truth(bench: Bench) -> list[str]:
    return comparable(oracle.full_row(bench.files(TABLE), list(COLUMNS)))


def row(v: str | None, n: int | None, x: float | None = None) -> dict[str, Any]:
    return {"v": v, "n": n, "x": x}


def test_the_same_row_more_than_once(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = lake(tmp_path), Clock()
    bench.put(load_file(TABLE, [row("a", 1), row("a", 1), row(None, 2, 0.5), row(None, 2, 0.5), row("", 3)]))
    bench.apply()
    assert bench.rows() == truth(bench)
    bench.put(
        cdc_file(
            TABLE,
            clock.now + timedelta(minutes=1),
            [
                clock.change("D", row("a", 1)),
                clock.change("U", row("b", 1), row("a", 1)),
                clock.change("D", row(None, 2, 0.5)),
                clock.change("I", row("", 3)),
                clock.change("U", row("", 3), row("", 3)),
            ],
        )
    )
    (batch,) = bench.apply()["items"]
    assert bench.rows() == truth(bench)
    assert len(bench.rows()) == 4
    assert (batch.rows_removed, batch.rows_written, batch.unmatched) == (5, 4, 0)


def test_what_is_not_there_is_told_and_changes_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = lake(tmp_path), Clock()
    changes = [
        clock.change("I", row("a", 1)),
        clock.change("D", row("b", 1)),
        clock.change("U", row("c", 2), row("b", 2)),
        clock.change("I", row("b", 1)),
    ]
    bench.put(cdc_file(TABLE, clock.now, changes[:3]))
    (batch,) = bench.apply()["items"]
    assert (batch.unmatched, bench.rows()) == (2, comparable([row("a", 1), row("c", 2)]))
    bench.put(cdc_file(TABLE, clock.now + timedelta(seconds=1), changes[3:]))
    (batch,) = bench.apply()["items"]
    assert (batch.unmatched, bench.rows()) == (0, truth(bench))
    # Between them all the time, it says: the row was there.
    late = dict(changes[1], Op="I", change_seq=changes[0]["change_seq"][:-1] + "9")
    bench.put(cdc_file(TABLE, clock.now - timedelta(seconds=1), [late]))
    bench.apply()
    assert bench.rows() == truth(bench) == comparable([row("a", 1), row("c", 2), row("b", 1)])


def test_an_update_without_a_before_image_is_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = lake(tmp_path, quarantine={"max_rows": 1}), Clock()
    bench.put(cdc_file(TABLE, clock.now, [clock.change("I", row("a", 1)), clock.change("U", row("b", 1))]))
    (batch,) = bench.apply()["items"]
    assert (batch.rows_quarantined, bench.rows()) == (1, comparable([row("a", 1)]))
    (held,) = bench.lake.runtime.quarantine.open("silver_shop.items")
    assert "without a before image" in held.reason


def test_a_column_that_the_source_has_no_more(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = lake(tmp_path), Clock()
    bench.put(load_file(TABLE, [row("a", 1, 0.5), row("b", 2, 0.5)]))
    bench.apply()
    moment = clock.now
    without = DmsFile(cdc_file(TABLE, moment, []).key, ())
    change = clock.change("D", {"v": "a", "n": 1})
    columns = {name: kind for name, kind in COLUMNS.items() if name != "x"}
    content = csv_bytes(replace(without, rows=(change,)), list(columns), list(columns), DMS)
    put(tmp_path / "bronze", without.key, content)
    error = bench.turn()["items"].error
    assert isinstance(error, TableStopped)
    assert "lacks column x" in str(error)
    bench.edit({TABLE: FULL_ROW | {"columns": columns}})
    bench.apply()
    assert bench.rows() == comparable([{"v": "b", "n": 2}])


def test_an_update_of_a_row_with_empty_bytes(spark: SparkSession, tmp_path: Path) -> None:
    columns = {"b": "binary", "n": "int"}
    bench, clock = Bench(tmp_path, {TABLE: FULL_ROW | {"columns": columns}}), Clock()
    bench.put(load_file(TABLE, [{"b": b"", "n": 1}, {"b": b"x", "n": 2}, {"b": None, "n": 3}]))
    bench.apply()
    changes = [
        clock.change("U", {"b": b"y", "n": 1}, {"b": b"", "n": 1}),
        clock.change("U", {"b": b"", "n": 3}, {"b": None, "n": 3}),
    ]
    bench.put(cdc_file(TABLE, clock.now, changes))
    (batch,) = bench.apply()["items"]
    assert bench.rows() == comparable([{"b": b"y", "n": 1}, {"b": b"x", "n": 2}, {"b": b"", "n": 3}])
    assert batch.unmatched == 0


def test_before_images_of_a_column_that_is_new(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet tells a column's type, so that it becomes silver's by itself; its before image does not."""
    bench, clock = lake(tmp_path), Clock()
    types = {"v": pa.string(), "n": pa.int32(), "x": pa.float64(), "c": pa.string()}
    bench.put(load_file(TABLE, [row("a", 1)], extension="parquet"), types=types)
    bench.apply()
    bench.tables[TABLE]["columns"]["c"] = "string"
    old, new = row("a", 1) | {"c": None}, row("b", 1) | {"c": "new"}
    bench.put(cdc_file(TABLE, clock.now, [clock.change("U", new, old)], "parquet"), types=types)
    bench.apply()
    bench.put(
        cdc_file(
            TABLE, clock.now + timedelta(seconds=5), [clock.change("U", new | {"n": 5}, new)], "parquet"
        ),
        types=types,
    )
    (batch,) = bench.apply()["items"]
    assert (batch.unmatched, bench.rows()) == (0, comparable([new | {"n": 5}]))


def test_the_empty_text_where_null_is_an_empty_field(spark: SparkSession, tmp_path: Path) -> None:
    columns = {"v": "string not null", "n": "int"}
    bench = Bench(tmp_path, {TABLE: FULL_ROW | {"columns": columns}}, {"csv_null_value": ""})
    clock = Clock()
    bench.put(load_file(TABLE, [{"v": "", "n": 1}, {"v": "", "n": 2}]))
    bench.apply()
    changes = [clock.change("D", {"v": "", "n": 1}), clock.change("U", {"v": "z", "n": 2}, {"v": "", "n": 2})]
    bench.put(cdc_file(TABLE, clock.now, changes))
    (batch,) = bench.apply()["items"]
    assert (batch.unmatched, bench.rows()) == (0, comparable([{"v": "z", "n": 2}]))


@pytest.mark.parametrize(
    ("dms", "table", "told"),
    [
        ({"before_image_prefix": None}, {}, "before images of all columns"),
        ({"add_column_name": False}, {}, "before images of all columns"),
        ({}, {"primary_key": ["n"]}, "is what mode: full_row does without"),
    ],
)
def test_contracts_that_cannot_be(tmp_path: Path, dms: Row, table: Row, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        lake_config(tmp_path, {TABLE: FULL_ROW | dict(table)}, source={"dms": DMS | dict(dms)})


def test_without_updates_no_before_images_are_needed(tmp_path: Path) -> None:
    table = FULL_ROW | AT_ONCE | {"never": ["updated"]}
    config = lake_config(tmp_path, {TABLE: table}, source={"dms": DMS | {"before_image_prefix": None}})
    assert config.sources["shop"].tables[TABLE].mode == "full_row"


def history(random: Random, number_of_changes: int) -> tuple[list[DmsFile], list[dict[str, Any]]]:
    """Files in the order in which they arrive, and the source's rows in the end."""
    values = [row(v, n, x) for v in (None, "", "a, b") for n in (None, 1) for x in (None, 0.5)]
    rows = [random.choice(values) for _ in range(6)]
    files, clock, changes = [load_file(TABLE, list(rows))], Clock(), []
    for number in range(number_of_changes):
        same = number > 0 and random.random() < 0.4
        kind = random.choice("IUD") if rows else "I"
        if kind == "I":
            rows.append(random.choice(values))
            changes.append(clock.change("I", rows[-1], None, same))
            continue
        old = rows.pop(random.randrange(len(rows)))
        if kind == "U" and any(value is not None and value != "" for value in old.values()):
            rows.append(random.choice(values))
            changes.append(clock.change("U", rows[-1], old, same))
        else:
            changes.append(clock.change("D", old, None, same))
    ranges = pieces(random, 0, len(changes), count=8)
    starts = [random.randrange(len(changes)) for _ in range(2)]
    ranges += [(start, min(len(changes), start + random.randint(1, 15))) for start in starts]
    found = [
        cdc_file(TABLE, clock.now + timedelta(seconds=n), changes[a:b]) for n, (a, b) in enumerate(ranges)
    ]
    lateness = {file.key: place + random.choice([0, 0, 3]) for place, file in enumerate(found)}
    return [*files, *sorted(found, key=lambda file: lateness[file.key])], rows


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 8))])
def test_histories_by_chance(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    random = Random(f"{seed} rows")
    files, rows = history(random, 60 if seed else 30)
    bench = lake(tmp_path)
    for number, (a, b) in enumerate(pieces(random, 0, len(files), count=4 if seed else 2)):
        bench.put(*files[a:b])
        turn_with_a_chance_of_death(bench, random)
        bench.apply()
        assert bench.rows() == truth(bench), f"seed {seed}, turn {number}"
    assert bench.rows() == comparable(rows)
    (target,) = bench.lake.targets
    assert rebuild(bench.lake.runtime, target, publish=False).equal
