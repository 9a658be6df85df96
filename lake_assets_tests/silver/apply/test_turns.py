"""Turns of tables that end before the head of the log, because their process ends; and how many there are at a time.

Not here: a run that hands over (`orchestration/runs/test_continuous.py`), processes that die (`test_kill_points.py`).
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from lake_assets.silver.apply import turn
from lake_assets.silver.apply.engine import apply_table
from lake_assets.silver.apply.planned import apply_planned
from lake_assets.silver.batch.result import BatchResult
from lake_assets.silver.plan import plan
from lake_assets.silver.plan.cut import NO_CUT
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.files.dms_files import load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.keyed_shop import KEYED, KeyedShop

pytestmark = pytest.mark.spark
TABLES = [f"public.t{number}" for number in range(5)]
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


@pytest.mark.parametrize("large", [None, "LARGE_ROWS", pytest.param("LARGE_BYTES", marks=pytest.mark.long)])
def test_few_large_batches_are_applied_at_a_time(
    new_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, large: str | None
) -> None:
    bench = new_bench(dict.fromkeys(TABLES, KEYED), sections={"automation": {"apply_threads": 5}})
    bench.put(*(load_file(name, [{"id": 1, "v": "a"}]) for name in TABLES))
    lock, under_way, most = threading.Lock(), 0, 0
    all_at_once = threading.Barrier(2 if large else 5)

    def applied(*given: Any) -> BatchResult:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        with suppress(threading.BrokenBarrierError):
            all_at_once.wait(2)
        found = apply_planned(*given)
        with lock:
            under_way -= 1
        return found

    monkeypatch.setattr(turn, "apply_planned", applied)
    if large:
        monkeypatch.setattr(plan, large, 1)
    bench.apply()
    assert most == (2 if large else 5)
    assert all(bench.rows(name.removeprefix("public.")) == bench.truth(name) for name in TABLES)
