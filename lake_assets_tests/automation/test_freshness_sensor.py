"""The sensor by which freshness is evaluated while nothing runs."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace

import dagster as dg
import pytest

from lake_assets.bronze.arrivals import log_arrivals
from lake_assets.checks.history import check_turns
from lake_assets_tests.shop import NOTES, SALES, Shop


def turns(shop: Shop, asset: dg.AssetKey) -> list[bool | None]:
    return [turn.passed for turn in check_turns(shop.instance, dg.AssetCheckKey(asset, "freshness"))]


def test_what_changed_is_evaluated_and_nothing_else(
    new_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = new_shop(source={"freshness": {"max_pending_age": "10m"}})
    assert shop.refusal("freshness") == "2 of 2 tables evaluated"
    assert shop.refusal("freshness") == "0 of 2 tables evaluated"
    shop.change("sales", [1])
    log_arrivals(shop.lake.runtime, "shop")
    assert shop.refusal("freshness") == "0 of 2 tables evaluated"  # pending, and within the limit
    later = SimpleNamespace(now=lambda zone: datetime.now(zone) + timedelta(minutes=11))
    monkeypatch.setattr("lake_assets.automation.freshness_sensor.datetime", later)
    assert shop.refusal("freshness") == "1 of 2 tables evaluated"
    assert turns(shop, SALES) == [False, True]
    assert turns(shop, NOTES) == [True]
    assert shop.refusal("freshness") == "0 of 2 tables evaluated"


def test_an_evaluation_is_repeated_after_an_hour(
    new_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = new_shop()
    shop.tick("freshness")
    later = SimpleNamespace(time=lambda: time.time() + 3601)
    monkeypatch.setattr("lake_assets.automation.freshness_sensor.time", later)
    assert shop.refusal("freshness") == "2 of 2 tables evaluated"


def test_without_dagsters_history_everything_is_evaluated_again(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop()
    shop.tick("freshness")
    shop.forget_dagster()
    assert shop.refusal("freshness") == "2 of 2 tables evaluated"
