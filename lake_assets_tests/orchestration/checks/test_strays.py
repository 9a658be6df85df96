"""Files that are in no table: kept in the lake with their keys, and shown by `status` and by a check of the source."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from lake_assets.bronze.scan.strays import EMPTY, MAX_KEYS, StrayLog, merged
from lake_assets.commands.show.status import status, stray_lines
from lake_assets.orchestration.checks.check_history import check_executions
from lake_assets.orchestration.checks.stray_check import KNOWN_FILES
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets_tests.helpers.lakes.small_lakes import write_file
from lake_assets_tests.helpers.orchestration.dagster_shop import BATCH, Shop

CHECK = dg.AssetCheckKey(BATCH, KNOWN_FILES)
UNKNOWN, STRAY, NOTHING = (
    "public/others/LOAD00000001.csv",
    "public/sales/notes.txt",
    "public/sales/20260301-120000000.csv",
)


def litter(folder: Path) -> None:
    """A file of an unknown table, one that is none of DMS, and an empty one."""
    write_file(folder, UNKNOWN, ["Op,id"])
    write_file(folder, STRAY, ["to do"])
    write_file(folder, NOTHING, [])


def checked(shop: Shop) -> list[bool | None]:
    shop.tick("freshness")
    return [turn.passed for turn in check_executions(shop.instance, CHECK)]


def test_status_and_a_check_name_them(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop()
    log_arrivals(shop.lake.runtime, "shop")
    assert stray_lines(status(shop.lake)) == []
    assert checked(shop) == [True]

    litter(shop.folder)
    log_arrivals(shop.lake.runtime, "shop")
    lines = status(shop.lake)
    assert {line.strays for line in lines} == {3}
    for key, reason in (
        (UNKNOWN, "it is of public.others, which lake.yaml does not configure"),
        (STRAY, "is neither LOAD<8 hex digits>"),
        (NOTHING, EMPTY),
    ):
        assert reason in lines[0].stray_keys[key]
    first, *others = stray_lines(lines)
    assert first == "shop: 3 files in the location are in no table"
    assert [entry.split(":")[0] for entry in others] == [
        f"  {key}" for key in sorted((UNKNOWN, STRAY, NOTHING))
    ]
    assert checked(shop) == [False, True]
    assert checked(shop) == [False, True], "nothing new"
    record = shop.instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=1)[0]
    assert record.event is not None
    evaluation = record.event.dagster_event
    assert evaluation is not None
    assert UNKNOWN in str(evaluation.asset_check_evaluation_data.metadata["keys"].value)
    assert evaluation.asset_check_evaluation_data.severity is dg.AssetCheckSeverity.WARN

    for key in (UNKNOWN, STRAY, NOTHING):
        (shop.folder / "bronze" / key).unlink()
    log_arrivals(shop.lake.runtime, "shop")
    assert stray_lines(status(shop.lake)) == []
    assert checked(shop) == [True, False, True]


def test_other_strays_are_news(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop()
    write_file(shop.folder, UNKNOWN, ["Op,id"])
    log_arrivals(shop.lake.runtime, "shop")
    assert checked(shop) == [False]
    write_file(shop.folder, STRAY, ["to do"])
    log_arrivals(shop.lake.runtime, "shop")
    assert checked(shop) == [False, False]


def test_looks_that_see_the_same_commit_nothing(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop()
    litter(shop.folder)
    log_arrivals(shop.lake.runtime, "shop")
    table = shop.lake.runtime.catalog.load_table("lake_ops.findings")
    before = table.metadata_location
    log_arrivals(shop.lake.runtime, "shop")
    StrayLog(shop.lake.runtime.findings).note(
        "shop", dict(shop.lake.runtime.strays.of("shop").keys), set(), None
    )
    assert table.refresh().metadata_location == before


def test_of_very_many_the_number_is_kept(new_shop: Callable[..., Shop]) -> None:
    strays = new_shop().lake.runtime.strays
    strays.note("shop", {f"{number:05d}": "why" for number in range(MAX_KEYS + 5)}, set(), None)
    found = strays.of("shop")
    assert (found.number, len(found.keys)) == (MAX_KEYS + 5, MAX_KEYS)
    assert found.lines(2) == ["00000: why", "00001: why", f"and {MAX_KEYS + 3:,} more"]


@pytest.mark.parametrize(
    ("seen", "keys", "left"),
    [
        ((), None, ["a", "b", "new"]),
        (("a",), None, ["b", "new"]),
        ((), ("b", "new"), ["b", "new"]),
    ],
)
def test_a_look_that_sees_a_part_keeps_the_rest(
    seen: tuple[str, ...], keys: tuple[str, ...] | None, left: list[str]
) -> None:
    """`a`, seen and strange no more, or gone, is dropped."""
    assert list(merged({"a": "1", "b": "1"}, {"new": "2"}, seen, keys)) == left
