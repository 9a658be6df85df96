"""Columns that change at the source while files land, with the types that a real PostgreSQL states.

Here: silver compared with the source's own table after each change. Not here: what each difference may mean
(`schema/test_at_source.py`), the check that reports differences (`orchestration/checks/test_source_check.py`).
"""

import random
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from pyspark.sql import SparkSession

from lake_assets.commands.mend.quarantine_commands import retry
from lake_assets.errors import TableStopped
from lake_assets_tests.helpers.files.dms_files import cdc_file, load_file
from lake_assets_tests.helpers.oracles.live_table import COLUMNS, ITEMS, Live, NewDatabase

pytestmark = pytest.mark.spark


@pytest.fixture(params=["header", "no header", "json"])
def live(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path, request: pytest.FixtureRequest
) -> Live:
    """Three rows in silver."""
    found = Live(tmp_path, new_database, request.param)
    for number in (1, 2, 3):
        found.insert(number, name=f"n{number}", size=number, price=Decimal("1.50"))
    found.load()
    found.changes(found.update(1, size=11))
    found.check()
    return found


def test_a_column_is_added(live: Live) -> None:
    live.ddl("ALTER TABLE items ADD fee numeric(12, 3)", "ALTER TABLE items ADD seen timestamptz")
    live.changes(live.update(2, fee=Decimal("0.125")), live.insert(4, fee=Decimal("999999999.999")))
    live.check()
    assert live.types()["fee"] == "decimal(12, 3)"
    assert live.types()["seen"] == "timestamptz"
    newest = live.bench.lake.runtime.contracts.of("silver_shop.items").newest
    assert newest is not None
    assert "source database" in newest.origin, "the contract says who stated the type"


def test_a_column_is_dropped(live: Live) -> None:
    live.ddl("ALTER TABLE items DROP size")
    live.changes(live.update(2, name="later"), live.insert(4, name="new"))
    if live.form == "no header":
        # DMS might as well no longer add one of its columns.
        with pytest.raises(TableStopped, match="at the source the columns are id, name, price"):
            live.bench.apply()
        return
    live.check()
    assert {row["id"]: row["size"] for row in live.bench.stored()} == {1: 11, 2: None, 3: 3, 4: None}


def test_a_column_that_is_never_null_leaves_lake_yaml(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path
) -> None:
    columns = COLUMNS | {"name": "string not null"}
    live = Live(tmp_path, new_database, columns=columns, also=["change_log", "history"])
    live.insert(1, name="a", size=1)
    live.load()
    live.changes(live.update(1, name="b"))
    live.check()
    live.ddl("ALTER TABLE items DROP name")
    live.bench.edit({ITEMS: {**live.bench.tables[ITEMS], "columns": {n: columns[n] for n in live.columns}}})
    live.changes(live.update(1, size=2), live.insert(2, size=3))
    live.check()
    live.check_rebuilt()


def test_a_column_is_renamed(live: Live) -> None:
    live.ddl("ALTER TABLE items RENAME size TO width")
    live.changes(live.update(2, width=22))
    live.bench.apply()
    rows = {row["id"]: row for row in live.bench.stored()}
    if live.form == "no header":
        assert rows[2]["size"] == 22, "its place says which column it is"
    else:
        assert (rows[2]["width"], live.types()["width"]) == (22, "int"), "a rename looks like a new column"


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "not asked"])
@pytest.mark.parametrize("loaded", [True, False], ids=["a load", "changes"])
def test_a_narrower_file_is_not_read_as_one_without_before_images(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path, asked: bool, loaded: bool
) -> None:
    # Texts fit any column, and a full load's sequences and before images are empty: the values show nothing.
    columns = {"id": "long not null", "name": "string", "note": "string"}
    dms: dict[str, Any] = {} if loaded else {"change_sequence_column": None}
    live = Live(tmp_path, new_database, "no header", dms, columns=columns)
    live.ddl(
        "DROP TABLE items", "CREATE TABLE items (id bigint PRIMARY KEY, name varchar(9), note varchar(9))"
    )
    if not asked:
        live.bench.edit_source(database=None)
    live.insert(1, name="a", note="b")
    live.load()
    live.changes(live.update(1, note="c"))
    live.check()
    live.ddl("ALTER TABLE items DROP name")
    if loaded:
        live.clock.now += timedelta(hours=8)
        live.put(load_file(ITEMS, live.rows(), at=live.clock.now))
    else:
        live.changes(live.update(1, note="d"))
    said = "the columns are id, note" if asked else r"fields and no header, and lake\.yaml expects \d"
    with pytest.raises(TableStopped, match=said):
        live.bench.apply()
    assert live.bench.stored() == [{"id": 1, "name": "a", "note": "c"}]


def test_full_loads_without_before_images_go_on(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path
) -> None:
    live = Live(tmp_path, new_database, "no header")
    for number, hours in ((1, 0), (2, 8)):
        live.clock.now += timedelta(hours=hours)
        live.insert(number, name="a", size=number)
        bare = {**live.bench.dms, "change_sequence_column": None, "before_image_prefix": None}
        live.put(load_file(ITEMS, live.rows(), at=live.clock.now), dms=bare)
        live.changes(live.update(number, size=9))
        live.check()


def test_parts_of_a_reload_with_a_new_column(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path
) -> None:
    """The second part was transferred before the first one."""
    live = Live(tmp_path, new_database, "no header")
    live.insert(1, name="a", size=1)
    live.insert(2, name="b", size=2)
    live.load()
    live.changes(live.update(1, size=3))
    live.check()
    live.ddl("ALTER TABLE items ADD fee numeric(5, 2)")
    live.update(2, fee=Decimal("1.25"))
    at = live.clock.now + timedelta(hours=8)
    parts = [[row for row in live.rows() if row["id"] == number] for number in (1, 2)]
    live.put(load_file(ITEMS, parts[0], at=at))
    live.put(load_file(ITEMS, parts[1], part=2, at=at - timedelta(seconds=30)))
    live.check()
    live.check_rebuilt()


def test_the_order_of_the_sources_columns_counts(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path
) -> None:
    columns = {"id": "long not null", "price": "decimal(10, 2)", "name": "string", "size": "int"}
    live = Live(tmp_path, new_database, "no header", columns=columns)
    live.insert(1, name="a", size=1)
    live.put(load_file(ITEMS, live.rows()), list(columns))
    live.bench.apply()
    live.ddl("ALTER TABLE items ADD fee int")
    live.changes(live.update(1, fee=1), columns=[*columns, "fee"])
    with pytest.raises(TableStopped, match="the columns are id, name, size, price, fee"):
        live.bench.apply()


def test_a_shape_that_is_behind_takes_the_same_columns(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path
) -> None:
    live = Live(tmp_path, new_database, "no header", also=["history"])
    live.insert(1, size=1)
    live.load()
    live.check()
    live.ddl("ALTER TABLE items ADD fee int")
    live.changes(live.update(1, fee=7))
    live.bench.apply(["items"])
    live.ddl("ALTER TABLE items DROP fee", "ALTER TABLE items ADD tax int")
    live.bench.apply()
    newest = next(row for row in live.bench.stored("items_history") if row["_is_current"])
    assert newest["fee"] == 7
    assert "tax" not in newest


@pytest.mark.parametrize(("column", "said"), [('"Name"', "differs from name only in case"), ('"Op"', "Op")])
def test_a_name_that_silver_cannot_have(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path, column: str, said: str
) -> None:
    live = Live(tmp_path, new_database, "no header")
    live.insert(1, size=1)
    live.load()
    live.check()
    live.ddl(f"ALTER TABLE items ADD {column} varchar(9)")
    live.changes(live.update(1, size=2))
    before = live.bench.lake.runtime.contracts.of("silver_shop.items").versions
    for _ in range(2):
        with pytest.raises(TableStopped, match=said):
            live.bench.apply()
    assert live.bench.lake.runtime.contracts.of("silver_shop.items").versions == before


def test_a_retry_asks_too(spark: SparkSession, new_database: NewDatabase, tmp_path: Path) -> None:
    live = Live(tmp_path, new_database)
    live.bench.edit_source(database=None)
    live.insert(1, size=1)
    live.load()
    live.ddl("ALTER TABLE items ALTER size TYPE bigint")
    live.changes(live.update(1, size=2**40))
    live.bench.apply()
    assert live.bench.stored_by_id("size") == {1: 1}, "the row is quarantined"
    live.bench.edit_source(database=SecretStr(live.address))
    (held,) = live.bench.lake.runtime.quarantine.all("silver_shop.items")
    retry(live.bench.lake.runtime, [held])
    live.check()


def test_types_are_widened(live: Live) -> None:
    live.ddl("ALTER TABLE items ALTER size TYPE bigint", "ALTER TABLE items ALTER price TYPE numeric(14, 2)")
    live.changes(
        live.update(2, size=2**40), live.insert(4, price=Decimal("123456789012.34")), live.insert(5, size=1)
    )
    live.check()
    assert (live.types()["size"], live.types()["price"]) == ("long", "decimal(14, 2)")
    assert live.bench.lake.runtime.quarantine.all("silver_shop.items") == []


def test_a_bad_row_is_quarantined_if_the_source_has_no_wider_type(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path
) -> None:
    live = Live(tmp_path, new_database)
    live.insert(1, size=1)
    live.load()
    live.changes(live.clock.change("I", {"id": 2, "size": "many"}), live.insert(3, size=3))
    live.check()
    (held,) = live.bench.lake.runtime.quarantine.all("silver_shop.items")
    assert "size" in held.reason


def test_an_earlier_file_that_arrives_late(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path
) -> None:
    live = Live(tmp_path, new_database, "no header")
    live.insert(1, size=1)
    live.load()
    live.changes(live.update(1, size=2))
    live.check()
    late = live.insert(2, name="late", size=1)
    before = live.columns
    live.clock.now += timedelta(minutes=1)
    late_file = cdc_file(ITEMS, live.clock.now, [late])
    live.ddl("ALTER TABLE items ADD fee numeric(5, 2)", "ALTER TABLE items ALTER size TYPE bigint")
    live.changes(live.insert(3, fee=Decimal("1.25")))
    live.bench.apply()
    live.changes(live.insert(4, size=2**35))
    live.bench.apply()
    live.put(late_file, before)
    live.check()


def test_a_first_load_that_lake_yaml_does_not_describe(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path
) -> None:
    """Without transfer times, the load is dated by its object, which is newer than the changes."""
    live = Live(tmp_path, new_database, "no header", {"timestamp_column_name": None})
    live.ddl("ALTER TABLE items ADD fee numeric(5, 2)")
    live.insert(1, size=1, fee=Decimal("1.25"))
    live.load()
    live.check()
    live.changes(live.update(1, size=2))
    live.check()


def test_a_change_of_lake_yaml_keeps_what_files_brought(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path
) -> None:
    live = Live(tmp_path, new_database, "no header")
    live.insert(1, name="a", size=1)
    live.load()
    live.changes(live.update(1, size=2))
    live.check()
    table = {"columns": COLUMNS, "primary_key": ["id"]}
    live.ddl("ALTER TABLE items ADD fee numeric(5, 2)")
    live.changes(live.update(1, fee=Decimal("1.25")))
    live.check()
    live.bench.edit({ITEMS: table | {"comments": {"size": "in cm"}, "ignore": ["other"]}})
    live.changes(live.insert(2, fee=Decimal("2.25"), size=4))
    live.check()
    # The user takes over what the files brought.
    live.bench.edit({ITEMS: table | {"columns": COLUMNS | {"fee": "decimal(5, 2)"}}})
    live.changes(live.insert(3, fee=Decimal("3.25")))
    live.check()


def test_what_the_source_does_not_explain_stops_the_table(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path
) -> None:
    live = Live(tmp_path, new_database, "no header")
    live.insert(1, size=1)
    live.load()
    live.check()
    live.ddl("ALTER TABLE items ADD fee numeric(5, 2)")
    change = live.update(1, fee=Decimal("1.25"))
    columns = live.columns
    live.ddl("ALTER TABLE items DROP fee", "ALTER TABLE items DROP name", "ALTER TABLE items ADD tax int")
    live.changes(change, columns=columns)
    with pytest.raises(TableStopped, match=r"9 fields and no header.* the columns are id, size, price, tax"):
        live.bench.apply()


@pytest.mark.parametrize("form", ["header", "no header"])
def test_a_database_that_cannot_be_read(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path, form: str
) -> None:
    live = Live(tmp_path, new_database, form)
    live.insert(1, size=1)
    live.load()
    live.check()
    live.ddl("ALTER TABLE items ADD fee numeric(5, 2)", "ALTER TABLE items RENAME TO hidden")
    live.ddl("CREATE VIEW items AS SELECT * FROM hidden")
    live.changes(live.update(1, fee=Decimal("1.25")))
    with pytest.raises(TableStopped, match=r"no table public.items.* goes on by itself"):
        live.bench.apply()
    live.ddl("DROP VIEW items", "ALTER TABLE hidden RENAME TO items")
    live.check()


@pytest.mark.parametrize("policy", ["stop", "ignore"])
@pytest.mark.parametrize("form", ["header", "no header"])
def test_policies_hold(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path, form: str, policy: str
) -> None:
    live = Live(tmp_path, new_database, form, schema_changes=policy, quarantine={"max_rows": 0})
    live.insert(1, size=1)
    live.load()
    live.check()
    live.ddl("ALTER TABLE items ALTER size TYPE bigint")
    live.changes(live.update(1, size=2**40))
    wanted = "at the source size is long" if policy == "stop" else "max_rows is 0"
    with pytest.raises(TableStopped, match=wanted):
        live.bench.apply()


DDL = (
    "ADD c{n} numeric(8, 2)",
    "ADD c{n} bigint",
    "ADD c{n} boolean",
    "ADD c{n} text",
    "DROP {column}",
    "ALTER {whole} TYPE bigint",
)


@pytest.mark.parametrize("form", [pytest.param("header", marks=pytest.mark.long), "no header"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 9))])
def test_random_changes_of_columns(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path, seed: int, form: str
) -> None:
    chance = random.Random(f"{seed} {form}")
    live = Live(tmp_path, new_database, form, also=["change_log", "history"])
    for number in range(1, 6):
        live.insert(number, name=f"n{number}", size=number)
    live.load()
    live.check()
    for step in range(5 if seed == 0 and form == "no header" else 8):
        kinds = {c["name"]: str(c["type"]) for c in sa.inspect(live.source).get_columns("items")}
        others = [name for name in kinds if name != "id"]
        whole = [name for name in others if kinds[name] == "INTEGER"]
        possible = [text for text in DDL if "whole" not in text or whole]
        statement = chance.choice([text for text in possible if form == "header" or "DROP" not in text])
        column = chance.choice(others) if others else None
        if "{column}" not in statement or column is not None:
            filled = statement.format(n=step, column=column, whole=chance.choice(whole) if whole else None)
            live.ddl(f"ALTER TABLE items {filled}")
        # As silver has it: the file that first shows a new width is not the load.
        changes = [live.update(chance.randint(1, 5), **_value(live, chance)) for _ in range(3)]
        live.changes(*changes, live.insert(10 + step, **_value(live, chance)))
        live.check()
    live.check_rebuilt()


def _value(live: Live, chance: random.Random) -> dict[str, Any]:
    """A value for one of the columns, up to the limits of its type."""
    kinds = {c["name"]: str(c["type"]) for c in sa.inspect(live.source).get_columns("items")}
    name = chance.choice([name for name in kinds if name != "id"])
    values = {
        "INTEGER": 2**31 - 1,
        "BIGINT": 2**60,
        "BOOLEAN": True,
        "NUMERIC(8, 2)": Decimal("999999.99"),
        "NUMERIC(10, 2)": Decimal("-0.01"),
    }
    return {name: values.get(kinds[name], 'a, "text"')}
