"""What `folders` of a table may be."""

from typing import Any

import pytest

from lake_assets.config import SourceConfig
from lake_assets_tests.helpers.lakes.small_lakes import DMS, ITEMS


def mistakes(dms: dict[str, Any] | None = None, **tables: dict[str, Any]) -> str:
    filled = {f"public.{name}": ITEMS | own for name, own in tables.items()}
    try:
        SourceConfig.model_validate({"location": "b", "dms": DMS | (dms or {}), "tables": filled})
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("own", [{"mode": "current"}, {"mode": "append_log"}, {"also": ["change_log"]}])
def test_folders_are_joined(own: dict[str, Any]) -> None:
    assert mistakes(sales={"folders": ["sales_*", "old.sales"], **own}) == ""


@pytest.mark.parametrize(
    ("tables", "wrong"),
    [
        ({"sales": {"folders": ["a/b"]}}, "folders has 'a/b': a glob names folders of the schema public"),
        ({"sales": {"folders": [""]}}, "folders has ''"),
        ({"sales": {"folders": ["*"]}}, "folders has '*'"),
        ({"sales": {"folders": ["sales_*"]}, "sales_1": {}}, "matches the table public.sales_1: remove one"),
        ({"a": {"folders": ["x_*"]}, "b": {"folders": ["x_*"]}}, "and so has public.b"),
        ({"sales": {"folders": ["sales_*"], "mode": "history"}}, "cannot be joined into history"),
        ({"sales": {"folders": ["sales_*"], "also": ["history"]}}, "cannot be joined into history"),
        ({"sales": {"folders": ["sales_*"], "mode": "soft_delete"}}, "cannot be joined into soft_delete"),
    ],
)
def test_what_is_refused(tables: dict[str, dict[str, Any]], wrong: str) -> None:
    assert wrong in mistakes(**tables)


def test_only_the_sequence_orders_changes_of_two_folders() -> None:
    without: dict[str, Any] = {"change_sequence_column": None}
    assert "folders needs dms.change_sequence_column" in mistakes(without, sales={"folders": ["sales_*"]})
    log: dict[str, Any] = {"folders": ["sales_*"], "mode": "append_log"}
    assert mistakes(without, sales=log) == ""
