"""Mistakes in the checks that lake.yaml declares: each message names the place and what to write there.

Not here: what the checks find (`test_data_checks.py`).
"""

from pathlib import Path
from typing import Any

import pytest

from lake_assets.errors import LakeError
from lake_assets_tests.helpers.lakes.small_lakes import small_lake
from lake_assets_tests.helpers.orchestration.dagster_shop import open_shop


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        (
            {"no_rule": {"severity": "warn"}},
            "no_rule: needs one of rows, unique, references and total; found none",
        ),
        ({"unique_kay": {"blocking": True}}, "found none; did you mean unique_key?"),
        ({"two": {"rows": "true", "unique": ["id"]}}, "found rows and unique"),
        ({"unique_key": "id > 0"}, "is a check that the table has anyway: remove rows"),
        ({"applied": "id > 0"}, "is the name of another check of the table"),
        ({"a b": "id > 0"}, "use lower case letters, digits and _"),
        ({"bare": {"total": "count(*)"}}, "needs something to compare with"),
        ({"half": {"total": "count(*)", "equals": "count(*)"}}, "set both, or neither"),
        ({"of_mart": {"total": "a", "equals": "b", "of": "c"}}, "move it to gold.checks"),
        ({"far": {"unique": ["idd"]}}, "names idd, which columns does not have; did you mean id?"),
        (
            {"gone": {"references": {"table": "public.item", "columns": {"id": "id"}}}},
            "refers to public.item, which the source does not have; did you mean public.items?",
        ),
        (
            {"gone": {"references": {"table": "public.items", "columns": {"id": "ip"}}}},
            "refers to ip, which public.items does not have",
        ),
        ({"late": {"rows": "true", "schedule": "daily"}}, "is not a cron schedule of five fields"),
    ],
)
def test_mistakes_of_a_check(tmp_path: Path, checks: dict[str, Any], message: str) -> None:
    table = {"columns": {"id": "long not null"}, "primary_key": ["id"], "checks": checks}
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        small_lake(tmp_path, {"public.items": table})


@pytest.mark.parametrize(
    ("mart", "check", "message"),
    [
        ("sales_totl", "true", "the lake has no such mart; did you mean sales_total?"),
        ("sales_total", {"total": "a", "equals": "b", "of": "sale"}, "sale is not an input of the mart"),
        (
            "sales_total",
            {"references": {"table": "t", "columns": {"a": "b"}}},
            "references is for silver tables",
        ),
    ],
)
def test_mistakes_of_a_marts_check(tmp_path: Path, mart: str, check: Any, message: str) -> None:
    gold = {"checks": {mart: {"name": check}}}
    with pytest.raises(LakeError, match=message.replace("?", r"\?")):
        open_shop(tmp_path, gold=gold)
