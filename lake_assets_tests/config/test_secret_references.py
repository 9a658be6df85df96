"""`${secret:NAME:key}` in lake.yaml: where it may be, and what replaces it.

Not here: AWS (`storage/test_secret_values.py`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from lake_assets.config import CatalogConfig, LakeConfig
from lake_assets.config.aws.secret_references import PLACES, WRITE, refers, with_value, with_values
from lake_assets.config.config_file import ConfigError, load_lake

ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:shop-AbCdEf"
SECTIONS: dict[str, Any] = {
    "catalog": {"type": "rest", "uri": "https://catalog", "warehouse": "w"},
    "spark": {},
    "sources": {
        "shop": {
            "location": "s3://bucket/dms",
            "tables": {"public.a": {"primary_key": ["id"], "columns": {"id": "long not null"}}},
        }
    },
}


def load(folder: Path, place: str, value: Any, **environ: str) -> LakeConfig:
    """The lake with this value at the place, `a.b.c`."""
    content = yaml.safe_load(yaml.safe_dump(SECTIONS))
    *above, last = place.split(".")
    section = content
    for key in above:
        section = section.setdefault(key, {})
    section[last] = value
    file = folder / "lake.yaml"
    file.write_text(yaml.safe_dump(content))
    return load_lake(file, environ=environ)


def said(name: str, key: str | None) -> str:
    return f"<{name}|{key}>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${secret:shop}", "<shop|None>"),
        ("${secret:shop/db:password}", "<shop/db|password>"),
        (f"${{secret:{ARN}}}", f"<{ARN}|None>"),
        (f"${{secret:{ARN}:password}}", f"<{ARN}|password>"),
        ("${secret:a:b} and ${secret:c}", "<a|b> and <c|None>"),
        ("no ${secret: here", "no ${secret: here"),
        ("postgresql://u:${secret:a:b}@db/x", "postgresql://u:%3Ca%7Cb%3E@db/x"),
    ],
)
def test_what_replaces_a_reference(text: str, expected: str) -> None:
    assert with_value(text, said) == expected


VALUES: dict[str, Callable[[LakeConfig], Any]] = {
    "catalog.uri": lambda lake: lake.catalog.uri,
    "catalog.token": lambda lake: lake.catalog.properties["token"],
    "spark.conf.x": lambda lake: lake.spark.conf["x"],
    "alarms.webhook": lambda lake: lake.alarms.webhook,
    "sources.shop.database": lambda lake: lake.sources["shop"].database,
}


@pytest.mark.parametrize("place", VALUES)
def test_where_a_reference_may_be(tmp_path: Path, place: str) -> None:
    lake = load(tmp_path, place, "${secret:shop:password}")
    assert refers(lake)
    found = VALUES[place](with_values(lake, said))
    assert (found.get_secret_value() if isinstance(found, SecretStr) else found) == "<shop|password>"
    assert "shop|password" not in repr(with_values(lake, said))
    assert VALUES[place](lake) in ("${secret:shop:password}", SecretStr("${secret:shop:password}"))


@pytest.mark.parametrize("section", ["s3", "dms_task", "notifications"])
def test_keys_may_be_secrets(tmp_path: Path, section: str) -> None:
    keys = {"access_key_id": "an-id", "secret_access_key": "${secret:keys:b}"}
    more = {
        "dms_task": {"arn": "arn:aws:dms:eu-central-1:123456789012:task:ABC"},
        "notifications": {"queue_url": "https://sqs.eu-central-1.amazonaws.com/1/files"},
    }
    lake = load(tmp_path, f"sources.shop.{section}", {**keys, **more.get(section, {})})
    access = getattr(with_values(lake, said).sources["shop"], section)
    assert access.secret_access_key.get_secret_value() == "<keys|b>"
    assert access.access_key_id.get_secret_value() == "an-id"


@pytest.mark.parametrize(
    "place", ["catalog.warehouse", "catalog.name", "sources.shop.location", "spark.master"]
)
def test_where_no_reference_may_be(tmp_path: Path, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, place, "${secret:shop}")
    (mistake,) = caught.value.mistakes
    assert mistake == f"{place}: cannot be a secret; a secret may be in {PLACES}"


@pytest.mark.parametrize("written", ["${secret:}", "${secret:a:b:c}", "${secret:a:}"])
def test_a_reference_that_is_miswritten(tmp_path: Path, written: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "sources.shop.database", written)
    assert caught.value.mistakes == (f"sources.shop.database: {WRITE}",)


def test_a_local_catalog_has_no_secret(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a file, which no secret can name"):
        CatalogConfig.model_validate({"uri": "${secret:shop}", "warehouse": "w"})


def test_a_variable_called_secret_is_a_variable(tmp_path: Path) -> None:
    assert load(tmp_path, "catalog.name", "${secret}", secret="own").catalog.name == "own"
    assert load(tmp_path, "catalog.name", "${secret:-other}").catalog.name == "other"


def test_without_references_nothing_is_copied(tmp_path: Path) -> None:
    lake = load(tmp_path, "catalog.uri", "https://catalog")
    assert with_values(lake, said) is lake
