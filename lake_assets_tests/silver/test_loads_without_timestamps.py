"""Full-load files of a source without a timestamp column, written again: the same rows, other rows, a reload.

Here: real files and tables. Not here: which files are asked about (`plan/test_ambiguous_parts.py`), the digest of rows
(`bronze/files/test_row_digest.py`).
"""

import gzip
from collections.abc import Callable, Iterable

import pytest

from lake_assets.commands.mend.full_load_decision import decide
from lake_assets.errors import LakeError
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, reason, values
from lake_assets_tests.helpers.lakes.small_lakes import sequence

pytestmark = [pytest.mark.spark, pytest.mark.slow]
HEADER = "Op,id,v,change_seq,BI_id"
FIRST, SECOND = {1: "a", 2: "b"}, {3: "c"}
NOW = {1: "changed", 3: "c", 4: "new"}


def part(bench: Bench, rows: Iterable[tuple[int, str]], number: int = 1, *, quoted: bool = False) -> None:
    mark = '"' if quoted else ""
    lines = [f"I,{mark}{n}{mark},{mark}{v}{mark},," for n, v in rows]
    bench.put_text(f"public/items/LOAD{number:08X}.csv", HEADER, *lines)


@pytest.fixture
def shop(new_bench: Callable[..., Bench]) -> Bench:
    """Two parts of a load, and changes since."""
    found = new_bench(dms={"timestamp_column_name": None})
    part(found, FIRST.items())
    part(found, SECOND.items(), 2)
    changes = (f"U,1,changed,{sequence(5)},", f"D,2,b,{sequence(6)},", f"I,4,new,{sequence(7)},")
    found.put_text("public/items/20260301-121000000.csv", HEADER, *changes)
    found.apply()
    assert values(found) == NOW
    return found


def test_the_same_rows_are_the_same_load(shop: Bench) -> None:
    part(shop, reversed(FIRST.items()))
    assert shop.apply() == {"items": []}
    part(shop, FIRST.items(), quoted=True)
    assert shop.apply() == {"items": []}
    assert shop.location is not None
    path = shop.location / "public/items/LOAD00000001.csv"
    part(shop, reversed(FIRST.items()), quoted=True)
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert shop.apply() == {"items": []}
    assert values(shop) == NOW
    with pytest.raises(LakeError, match="no full-load file is ambiguous"):
        decide(shop.lake, "public.items", None, reload=False)


def test_a_corrected_value_is_asked_about_and_keeps_the_changes(shop: Bench) -> None:
    part(shop, {3: "corrected"}.items(), 2)
    assert "no timestamp column" in reason(shop)
    assert values(shop) == NOW, "nothing was applied"
    decide(shop.lake, "public.items", None, reload=False)
    shop.apply()
    assert values(shop) == NOW | {3: "corrected"}
    # And later, a reload of both parts, of which one has its former rows.
    part(shop, {9: "z"}.items())
    assert "no timestamp column" in reason(shop)
    part(shop, {3: "corrected"}.items(), 2)
    decide(shop.lake, "public.items", None, reload=True)
    shop.apply()
    assert values(shop) == {9: "z", 3: "corrected"}


def test_without_changes_a_load_of_all_parts_replaces_the_table(new_bench: Callable[..., Bench]) -> None:
    found = new_bench({"public.items": ITEMS}, dms={"timestamp_column_name": None})
    for rows in (FIRST, {1: "next", 5: "e"}):
        part(found, rows.items())
        found.apply()
        assert values(found) == rows
