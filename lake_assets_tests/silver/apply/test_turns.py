"""Turns of tables that end before the head of the log, because their process ends.

Not here: a run that hands over (`orchestration/runs/test_continuous.py`), processes that die (`test_kill_points.py`).
"""

import threading
from collections.abc import Callable

import pytest

from lake_assets.silver.apply.engine import apply_table
from lake_assets.silver.plan.cut import NO_CUT
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.keyed_shop import KEYED, KeyedShop

pytestmark = pytest.mark.spark
ONE_A_BATCH = {"automation": {"max_files_per_batch": 1}}


def test_a_turn_ends_after_the_batch_in_which_the_process_is_to_end(new_bench: Callable[..., Bench]) -> None:
    shop = KeyedShop(new_bench({"public.items": KEYED}, sections=ONE_A_BATCH))
    shop.load()
    shop.bench.apply()
    for _ in range(3):
        shop.change()
    closing = threading.Event()

    def close(target: Target, stage: str) -> None:
        if stage == "write":
            closing.set()

    result = apply_table(shop.bench.lake.runtime, shop.bench.lake.targets[0], close, NO_CUT, closing)
    assert (len(result.batches), result.error, result.waiting) == (1, None, None)
    assert len(shop.bench.turn()["items"].batches) == 2
    shop.check()
