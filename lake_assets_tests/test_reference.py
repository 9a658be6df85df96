"""The reference of lake.yaml and of the commands is what the models and the command tree say today.

Here: that, and the JSON schema held against files that the models take or refuse. Not here: the models
(`config/test_models.py`).
"""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from lake_assets.config import LakeConfig
from lake_assets.demo.marts import DEMO_MARTS
from lake_assets.gold.registry import load_mart
from lake_assets.onboarding.json_schema import SCHEMA, json_schema
from lake_assets.reference import duration, files

PROJECT = Path(__file__).parent.parent
REFERENCE = PROJECT / "docs/reference"
TABLE = {"primary_key": ["id"], "columns": {"id": "long not null"}}
SHORT_FORMS: dict[str, Any] = {
    "catalog": {"name": "lake", "uri": "catalog.db", "warehouse": "warehouse"},
    "sources": {
        "shop": {
            "location": "s3://bucket/prefix",
            "dms": {"add_column_name": True, "timestamp_column_name": "ts", "change_sequence_column": "seq"},
            "dms_task": "arn:aws:dms:eu-central-1:123456789012:task:ABCDEF",
            "consistent_cut": {"interval": "60s"},
            "schema_changes": "ignore",
            "tables": {"public.items": TABLE | {"full_load_complete": {"quiet_period": "5m"}}},
        }
    },
    "automation": {"continuous": True, "poll_interval": "500ms"},
}


@pytest.mark.parametrize("name", files())
def test_the_reference_is_not_stale(name: str) -> None:
    assert (REFERENCE / name).read_text() == files()[name], "run make docs"


def test_every_mart_of_the_demonstration_is_in_the_reference() -> None:
    assert set(DEMO_MARTS) == set(yaml.safe_load((PROJECT / "lake.yaml").read_text())["gold"]["marts"])
    for mart in map(load_mart, DEMO_MARTS):
        assert set(mart.comments) <= {column.name for column in mart.columns}


@pytest.mark.parametrize("given", [yaml.safe_load((PROJECT / "lake.yaml").read_text()), SHORT_FORMS])
def test_the_schema_takes_what_the_models_take(given: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(json_schema())
    assert [error.message for error in Draft202012Validator(json_schema()).iter_errors(given)] == []


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("sources", "shop", "tables", "public.items", "primary_keys"), ["id"]),
        (("automation", "poll_interval"), "soon"),
    ],
)
def test_the_schema_refuses_what_is_misspelt(place: tuple[str, ...], wrong: object) -> None:
    given = json.loads(json.dumps(SHORT_FORMS))
    *folder, key = place
    inner = given
    for name in folder:
        inner = inner[name]
    inner[key] = wrong
    assert list(Draft202012Validator(json.loads((REFERENCE / SCHEMA).read_text())).iter_errors(given))


def test_the_short_forms_are_ones() -> None:
    LakeConfig.model_validate(SHORT_FORMS)


def test_durations_are_written_as_in_lake_yaml() -> None:
    written = ["0s", "500ms", "90s", "5m", "2h", "7d"]
    given = [timedelta(seconds=s) for s in (0, 0.5, 90, 300, 7200, 604800)]
    assert [duration(value) for value in given] == written
