"""The range of keys by which Iceberg leaves out files when a batch deletes its keys."""

from itertools import pairwise

import pytest

from lake_assets.silver.write.write_edit import wide_range

LONG = 2**63


@pytest.mark.parametrize(
    ("lowest", "highest"),
    [(5, 5), (0, 1), (-1, 1), (17, 9_999_983), (-LONG, LONG - 1), (LONG - 2, LONG - 1), (-LONG, -LONG + 1)],
)
def test_every_key_is_within(lowest: int, highest: int) -> None:
    low, high = wide_range(lowest, highest)
    assert -LONG <= low <= lowest <= highest <= high < LONG
    assert high - low <= 1.5 * (highest - lowest) + 2, "and few others"


def test_batches_of_random_keys_share_their_range() -> None:
    """Another number is other code for Spark to compile."""
    found = [wide_range(1_000 + 37 * number, 9_999_000 - 53 * number) for number in range(20)]
    assert all(one == other for one, other in pairwise(found))
