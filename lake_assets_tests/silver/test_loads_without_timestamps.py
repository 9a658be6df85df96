"""Full-load files of a source without a timestamp column, written again: the same rows, other rows, a reload.

Here: real files and tables. Not here: which files are asked about (`plan/test_ambiguous_parts.py`), the digest of rows
(`bronze/files/test_row_digest.py`).
"""

import gzip
from collections.abc import Callable

import pytest

from lake_assets.commands.mend.full_load_decision import decide
from lake_assets.errors import LakeError
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import (
    ITEMS,
    SHOP,
    UNTIMED,
    UNTIMED_PARTS,
    reason,
    untimed_part,
    untimed_shop,
    values,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FIRST = UNTIMED_PARTS[0]


@pytest.fixture
def shop(new_bench: Callable[..., Bench]) -> Bench:
    """Two parts of a load, and changes since."""
    found = new_bench(dms=UNTIMED)
    untimed_shop(found, found.apply)
    assert values(found) == SHOP
    return found


def test_the_same_rows_are_the_same_load(shop: Bench) -> None:
    untimed_part(shop, reversed(FIRST.items()))
    assert shop.apply() == {"items": []}
    untimed_part(shop, FIRST.items(), quoted=True)
    assert shop.apply() == {"items": []}
    assert shop.location is not None
    path = shop.location / "public/items/LOAD00000001.csv"
    untimed_part(shop, reversed(FIRST.items()), quoted=True)
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert shop.apply() == {"items": []}
    assert values(shop) == SHOP
    with pytest.raises(LakeError, match="no full-load file is ambiguous"):
        decide(shop.lake, "public.items", None, reload=False)


def test_a_corrected_value_is_asked_about_and_keeps_the_changes(shop: Bench) -> None:
    untimed_part(shop, {3: "corrected"}.items(), 2)
    assert "no timestamp column" in reason(shop)
    assert values(shop) == SHOP, "nothing was applied"
    decide(shop.lake, "public.items", None, reload=False)
    shop.apply()
    assert values(shop) == SHOP | {3: "corrected"}
    # And later, a reload of both parts, of which one has its former rows.
    untimed_part(shop, {9: "z"}.items())
    assert "no timestamp column" in reason(shop)
    untimed_part(shop, {3: "corrected"}.items(), 2)
    decide(shop.lake, "public.items", None, reload=True)
    shop.apply()
    assert values(shop) == {9: "z", 3: "corrected"}


def test_without_changes_a_load_of_all_parts_replaces_the_table(new_bench: Callable[..., Bench]) -> None:
    found = new_bench({"public.items": ITEMS}, dms=UNTIMED)
    for rows in (FIRST, {1: "next", 5: "e"}):
        untimed_part(found, rows.items())
        found.apply()
        assert values(found) == rows
