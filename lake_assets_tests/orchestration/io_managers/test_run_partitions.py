"""Assets with partitions of every kind: a run replaces the rows of its partitions, and loads them, and no others.

Real runs and tables, read back through PyIceberg. Not here: days (`test_io_manager.py`), which are the marts'.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import pyarrow as pa
import pytest

from lake_assets.errors import PartitionMismatch
from lake_assets.orchestration.io_managers.iceberg_io_manager import TableIOManager
from lake_assets.orchestration.io_managers.run_partitions import PARTITION_BY, PARTITION_COLUMN
from lake_assets.orchestration.lake_definitions import Lake

pytestmark = pytest.mark.spark
HOURS = dg.HourlyPartitionsDefinition("2024-03-01-00:00", timezone="UTC")
WEEKS = dg.WeeklyPartitionsDefinition("2024-03-03", timezone="UTC")
MONTHS = dg.MonthlyPartitionsDefinition("2024-01-01", timezone="UTC")
BERLIN = dg.DailyPartitionsDefinition("2024-03-01", timezone="Europe/Berlin")
CITIES = dg.StaticPartitionsDefinition(["bonn", "kiel", "ulm's"])
VARIABLES = dg.StaticPartitionsDefinition(["${env:HOME}", "${env:PATH}", "$"])
NUMBERS = dg.StaticPartitionsDefinition(["1", "2", "3"])
ADDED = dg.DynamicPartitionsDefinition(name="added")
BOTH = dg.MultiPartitionsDefinition({"when": MONTHS, "where": CITIES})
AT, ON, CITY, NUMBER = pa.timestamp("us", "UTC"), pa.date32(), pa.string(), pa.int64()


def at(day: int, hour: int = 0, month: int = 3) -> datetime:
    return datetime(2024, month, day, hour, tzinfo=UTC)


KINDS: dict[str, tuple[Any, Any, pa.DataType, Sequence[Any], str, Sequence[int], str]] = {
    # Partitions, column, its type, a value of each row; the run's partitions, the rows that lie in them, and the
    # table's partitions.
    "hours": (HOURS, "c", AT, [at(1, 0), at(1, 1), at(1, 2)], "2024-03-01-01:00", [1], "hour"),
    "weeks of dates": (WEEKS, "c", ON, [date(2024, 3, 9), date(2024, 3, 10)], "2024-03-10", [1], "identity"),
    "weeks of times": (WEEKS, "c", AT, [at(9, 23), at(10), at(17)], "2024-03-10", [1], "day"),
    "times without a zone": (
        HOURS,
        "c",
        pa.timestamp("us"),
        [at(1, hour).replace(tzinfo=None) for hour in (0, 1, 2)],
        "2024-03-01-01:00",
        [1],
        "hour",
    ),
    "months": (MONTHS, "c", ON, [date(2024, 2, 29), date(2024, 3, 31)], "2024-03-01", [1], "identity"),
    "days of Berlin": (
        BERLIN,
        "c",
        AT,
        [at(1, 22), at(1, 23), at(2, 22), at(2, 23)],
        "2024-03-02",
        [1, 2],
        "hour",
    ),
    "dates of Berlin": (BERLIN, "c", ON, [date(2024, 3, 1), date(2024, 3, 2)], "2024-03-02", [1], "identity"),
    "a list": (CITIES, "c", CITY, ["bonn", "kiel", "ulm's"], "ulm's", [2], "identity"),
    "names of variables": (
        VARIABLES,
        "c",
        CITY,
        ["${env:HOME}", "$", "${env:PATH}"],
        "${env:HOME}",
        [0],
        "identity",
    ),
    "a list of numbers": (NUMBERS, "c", NUMBER, [1, 2, 3], "2", [1], "identity"),
    "added": (ADDED, "c", CITY, ["a", "b"], "b", [1], "identity"),
}
SELDOM = ("weeks of dates", "times without a zone", "dates of Berlin", "names of variables", "added")


def materialize(lake: Lake, assets: Any, key: str | dg.MultiPartitionKey | None, **arguments: Any) -> None:
    instance = dg.DagsterInstance.ephemeral()
    instance.add_dynamic_partitions("added", ["a", "b"])
    assets = assets if isinstance(assets, list) else [assets]
    resources = {"io": TableIOManager(lake.runtime)}
    dg.materialize(assets, instance=instance, resources=resources, partition_key=key, **arguments)


def stored(lake: Lake, name: str) -> list[tuple[int, str]]:
    rows = lake.runtime.catalog.load_table(f"gold.{name}").scan().to_arrow().to_pylist()
    return sorted((row["id"], row["word"]) for row in rows)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.long) if kind in SELDOM else kind for kind in KINDS]
)
def test_a_run_replaces_and_loads_the_rows_of_its_partitions(lake: Lake, kind: str) -> None:
    definition, column, arrow, values, key, inside, transform = KINDS[kind]
    name = kind.replace(" ", "_")
    given: Any = None
    seen: list[list[int]] = []

    def rows(numbers: Sequence[int], word: str) -> pa.Table:
        columns = {"id": list(numbers), "word": [word] * len(numbers)}
        return pa.table({**columns, "c": pa.array([values[number] for number in numbers], arrow)})

    @dg.asset(
        key=["gold", name],
        io_manager_key="io",
        partitions_def=definition,
        metadata={PARTITION_COLUMN: column},
    )
    def own() -> pa.Table:
        return given

    @dg.asset(partitions_def=definition, ins={"loaded": dg.AssetIn(key=own.key, input_manager_key="io")})
    def reader(loaded: pa.Table) -> None:
        seen.append(sorted(loaded["id"].to_pylist()))

    everything = list(range(len(values)))
    for number in everything:  # one row after the other, each in its own partition
        if number not in inside:
            given = rows([number], "old")
            materialize(lake, own, _key_of(definition, values[number]))
    given = rows(inside, "new")
    materialize(lake, own, key)
    assert stored(lake, name) == [(number, "new" if number in inside else "old") for number in everything]
    table = lake.runtime.catalog.load_table(f"gold.{name}")
    assert [str(field.transform) for field in table.spec().fields] == [transform]

    materialize(lake, [own, reader], key, selection=[reader])
    assert seen == [list(inside)]
    given = rows(everything, "wrong")
    with pytest.raises(PartitionMismatch, match="outside the run's partitions"):
        materialize(lake, own, key)
    given = rows([], "none")
    materialize(lake, own, key)
    assert stored(lake, name) == [(number, "old") for number in everything if number not in inside]


def _key_of(definition: Any, value: Any) -> str:
    if not isinstance(definition, dg.TimeWindowPartitionsDefinition):
        return str(value)
    if not isinstance(value, datetime):
        value = datetime.combine(value, datetime.min.time(), ZoneInfo(definition.timezone))
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    for key in definition.get_partition_keys():
        window = definition.time_window_for_partition_key(key)
        if window.start <= value < window.end:
            return key
    raise AssertionError(value)


def test_hours_that_meet_on_the_clock_but_not_in_time_are_separate(lake: Lake) -> None:
    """In autumn, a clock shows 02:00 to 03:00 twice: the hour before and the second one have an hour between them."""
    autumn = dg.HourlyPartitionsDefinition(
        "2026-10-25-01:00", end_date="2026-10-25-04:00", timezone="Europe/Berlin"
    )
    first_hour = datetime(2026, 10, 24, 23, tzinfo=UTC)
    keys = autumn.get_partition_keys()
    seen: list[int] = []

    @dg.asset(
        key=["gold", "autumn"],
        io_manager_key="io",
        partitions_def=autumn,
        metadata={PARTITION_COLUMN: "at"},
    )
    def own(context: dg.AssetExecutionContext) -> pa.Table:
        number = keys.index(context.partition_key)
        at_hour = pa.array([first_hour + timedelta(hours=number)], AT)
        return pa.table({"id": [number], "at": at_hour, "word": ["x"]})

    chosen = dg.SpecificPartitionsPartitionMapping(["2026-10-25-01:00", "2026-10-25-02:00+0100"])

    @dg.asset(ins={"rows": dg.AssetIn(key=own.key, input_manager_key="io", partition_mapping=chosen)})
    def reader(rows: pa.Table) -> None:
        seen.extend(sorted(rows["id"].to_pylist()))

    for key in keys:
        materialize(lake, own, key)
    materialize(lake, [own, reader], None, selection=[reader])
    assert seen == [0, 2]


def test_partitions_of_two_dimensions(lake: Lake) -> None:
    given: list[tuple[int, date, str]] = []

    @dg.asset(
        key=["gold", "both"],
        io_manager_key="io",
        partitions_def=BOTH,
        metadata={PARTITION_COLUMN: {"when": "day", "where": "city"}, PARTITION_BY: ["city"]},
    )
    def both() -> pa.Table:
        columns = zip(*given, strict=True)
        ids, days, cities = (list(column) for column in columns)
        return pa.table({"id": ids, "day": pa.array(days, ON), "city": cities, "word": ["x"] * len(ids)})

    seen: list[list[int]] = []

    @dg.asset(partitions_def=BOTH, ins={"rows": dg.AssetIn(key=both.key, input_manager_key="io")})
    def reader(rows: pa.Table) -> None:
        seen.append(sorted(rows["id"].to_pylist()))

    @dg.asset(partitions_def=CITIES, ins={"rows": dg.AssetIn(key=both.key, input_manager_key="io")})
    def of_city(rows: pa.Table) -> None:
        seen.append(sorted(rows["id"].to_pylist()))

    def key(month: int, city: str) -> dg.MultiPartitionKey:
        return dg.MultiPartitionKey({"when": f"2024-{month:02d}-01", "where": city})

    for number, (month, city) in enumerate([(1, "bonn"), (1, "kiel"), (2, "bonn")]):
        given = [(number, date(2024, month, 5), city)]
        materialize(lake, both, key(month, city))
    assert [number for number, _ in stored(lake, "both")] == [0, 1, 2]
    given = [(9, date(2024, 1, 6), "bonn")]
    materialize(lake, both, key(1, "bonn"))
    assert [number for number, _ in stored(lake, "both")] == [1, 2, 9]
    materialize(lake, [both, reader], key(1, "kiel"), selection=[reader])
    materialize(lake, [both, of_city], "bonn", selection=[of_city])
    assert seen == [[1], [2, 9]]
    assert [field.name for field in lake.runtime.catalog.load_table("gold.both").spec().fields] == ["city"]


RANGES: dict[str, tuple[Any, Any, Sequence[tuple[datetime, str, str]], tuple[str, str], list[int]]] = {
    # Partitions, columns, the rows; a range of partitions, and the rows that lie in it. Of two dimensions it is the
    # range of each.
    "hours": (
        HOURS,
        "at",
        [(at(1, hour), "x", "y") for hour in range(5)],
        ("2024-03-01-01:00", "2024-03-01-03:00"),
        [1, 2, 3],
    ),
    "a list and added ones": (
        dg.MultiPartitionsDefinition({"list": CITIES, "new": ADDED}),
        {"list": "city", "new": "kind"},
        [(at(1), city, kind) for city in ("bonn", "kiel", "ulm's") for kind in "ab"],
        ("bonn|b", "kiel|b"),
        [1, 3],
    ),
}


@pytest.mark.parametrize("kind", RANGES)
def test_one_run_for_a_range(lake: Lake, kind: str) -> None:
    definition, column, values, (first, last), within = RANGES[kind]
    everything = list(range(len(values)))
    inside, word = everything, "old"
    seen: list[list[int]] = []

    @dg.asset(
        key=["gold", f"range_of_{kind.replace(' ', '_')}"],
        io_manager_key="io",
        partitions_def=definition,
        metadata={PARTITION_COLUMN: column},
    )
    def own() -> pa.Table:
        ats, cities, kinds = zip(*(values[number] for number in inside), strict=True)
        return pa.table(
            {
                "id": list(inside),
                "at": pa.array(ats, AT),
                "city": cities,
                "kind": kinds,
                "word": [word] * len(inside),
            }
        )

    @dg.asset(partitions_def=definition, ins={"loaded": dg.AssetIn(key=own.key, input_manager_key="io")})
    def reader(loaded: pa.Table) -> None:
        seen.append(sorted(loaded["id"].to_pylist()))

    def run(start: str, end: str, asset: dg.AssetsDefinition = own) -> None:
        tags = {"dagster/asset_partition_range_start": start, "dagster/asset_partition_range_end": end}
        materialize(lake, [own, reader], None, tags=tags, selection=[asset])

    whole = ("2024-03-01-00:00", "2024-03-01-04:00") if definition is HOURS else ("bonn|a", "ulm's|b")
    run(*whole)
    with pytest.raises(PartitionMismatch, match=r"lies? outside"):
        run(first, last)
    with pytest.raises(dg.DagsterInvariantViolationError, match="the run has no partitions"):
        run(last, first)
    inside, word = within, "new"
    run(first, last)
    expected = [(number, "new" if number in inside else "old") for number in everything]
    assert stored(lake, own.key.path[-1]) == expected
    run(first, last, reader)
    assert seen == [inside]


@pytest.mark.parametrize(
    ("definition", "metadata", "message"),
    [
        (CITIES, {}, "name the column of its partitions in metadata 'lake/partition_column'"),
        (BOTH, {PARTITION_COLUMN: "city"}, "as a dictionary with when and where"),
        (BOTH, {PARTITION_COLUMN: {"when": "day"}}, "as a dictionary with when and where"),
    ],
)
def test_an_asset_must_name_the_columns_of_its_partitions(
    lake: Lake, definition: Any, metadata: Any, message: str
) -> None:
    @dg.asset(key=["gold", "unnamed"], io_manager_key="io", partitions_def=definition, metadata=metadata)
    def unnamed() -> pa.Table:
        return pa.table({"id": [1]})

    first = definition.get_partition_keys()[0]
    with pytest.raises(dg.DagsterInvariantViolationError, match=message):
        materialize(lake, unnamed, first)


@pytest.mark.parametrize("definition", [HOURS, CITIES])
def test_a_result_without_the_column_of_its_partitions(lake: Lake, definition: Any) -> None:
    @dg.asset(
        key=["gold", "columnless"],
        io_manager_key="io",
        partitions_def=definition,
        metadata={PARTITION_COLUMN: "city"},
    )
    def columnless() -> pa.Table:
        return pa.table({"id": [1]})

    with pytest.raises(PartitionMismatch, match=r"There is no column city, .*; there are id"):
        materialize(lake, columnless, definition.get_partition_keys()[0])


def test_hours_need_a_column_of_times(lake: Lake) -> None:
    @dg.asset(
        key=["gold", "hours_of_dates"],
        io_manager_key="io",
        partitions_def=HOURS,
        metadata={PARTITION_COLUMN: "c"},
    )
    def dates() -> pa.Table:
        return pa.table({"c": pa.array([date(2024, 3, 1)], ON)})

    with pytest.raises(PartitionMismatch, match="Name a column of timestamps"):
        materialize(lake, dates, "2024-03-01-01:00")


@pytest.mark.parametrize(
    ("definition", "key", "wanted"),
    [(CITIES, "bonn", "text"), (BERLIN, "2024-03-01", "timestamps or dates")],
)
def test_a_column_of_numbers_for_keys_that_are_none(
    lake: Lake, definition: Any, key: str, wanted: str
) -> None:
    @dg.asset(
        key=["gold", "numbers"],
        io_manager_key="io",
        partitions_def=definition,
        metadata={PARTITION_COLUMN: "c"},
    )
    def numbers() -> pa.Table:
        return pa.table({"c": [20240301]})

    message = f"c is of type long, and the partition {key} is no such value. Name a column of {wanted}"
    with pytest.raises(PartitionMismatch, match=message):
        materialize(lake, numbers, key)
