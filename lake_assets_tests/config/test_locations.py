"""Where files are: spellings of a location, and places that lie inside each other."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets.config import LakeConfig
from lake_assets.config.config_file import ConfigError, load_lake

TABLES = {"public.items": {"columns": {"id": "long not null"}, "primary_key": ["id"]}}


def lake(folder: Path, warehouse: str, *locations: str, catalog: str = "catalog.db") -> LakeConfig:
    """The lake of a lake.yaml in the folder."""
    sources: dict[str, Any] = {
        f"s{number}": {"location": location, "tables": TABLES} for number, location in enumerate(locations)
    }
    config = {"catalog": {"uri": catalog, "warehouse": warehouse}, "sources": sources}
    (folder / "lake.yaml").write_text(yaml.safe_dump(config))
    return load_lake(folder / "lake.yaml", environ={})


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "S3", "S3A", "s3N"])
def test_every_scheme_of_s3_is_one(tmp_path: Path, scheme: str) -> None:
    found = lake(tmp_path, f"{scheme}://bucket/warehouse", f"{scheme}://bucket/In")
    assert found.catalog.warehouse == "s3://bucket/warehouse"
    assert found.sources["s0"].location == "s3://bucket/In"


def test_other_locations_stay_as_they_are(tmp_path: Path) -> None:
    found = lake(tmp_path, "warehouse", "FILE:///data/in")
    assert (found.catalog.warehouse, found.sources["s0"].location) == (
        str(tmp_path / "warehouse"),
        "file:///data/in",
    )


@pytest.mark.parametrize(
    ("warehouse", "location", "others", "left_out"),
    [
        ("s3://b/lake", "s3://b", (), ("lake/",)),
        ("s3a://b/lake/", "s3n://b/", (), ("lake/",)),
        ("s3://b/in/lake", "s3://b/in", ("s3://b/in/other", "s3://b/in2"), ("lake/", "other/")),
        ("s3://b/bronze2", "s3://b/bronze", ("s3://c/bronze/x",), ()),
        ("s3://b", "s3://b/dms", (), ()),
        ("warehouse", ".", (), ("catalog.db", "warehouse/")),
        ("in/warehouse", "in", ("in/../in/b/", "inner"), ("b/", "warehouse/")),
        ("warehouse", "in", (), ()),
    ],
)
def test_what_is_not_the_sources(
    tmp_path: Path, warehouse: str, location: str, others: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    assert lake(tmp_path, warehouse, location, *others).not_of("s0") == left_out


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "in")
    assert lake(tmp_path, "in/warehouse", "link").not_of("s0") == ("warehouse/",)


@pytest.mark.parametrize(
    ("warehouse", "locations", "said"),
    [
        ("s3://b/x", ["s3a://b/x/"], "sources.s0.location: is the catalog's warehouse"),
        ("in/.", ["in"], "sources.s0.location: is the catalog's warehouse"),
        ("s3://b", ["s3://b/silver_shop/in"], "is in silver_shop of the warehouse"),
        ("w", ["w/lake_ops.db/x"], "is in lake_ops of the warehouse"),
        ("s3://b/public", ["s3://b"], "has its files in public/items/ below the location, and public/"),
        ("s3://b/public/items/w", ["s3://b"], "and public/items/w/ is the lake's own"),
        ("w", ["in", "in/public"], 'sources.s0.tables["public.items"]: has its files in public/items/'),
    ],
)
def test_places_that_cannot_be_told_apart(
    tmp_path: Path, warehouse: str, locations: list[str], said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        lake(tmp_path, warehouse, *locations)
    assert said in str(refused.value)


def test_an_identifier_of_a_warehouse_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = LakeConfig.model_validate(
        {
            "catalog": {"type": "rest", "uri": "http://localhost", "warehouse": "in"},
            "sources": {"s0": {"location": str(tmp_path), "tables": TABLES}},
        }
    )
    assert config.not_of("s0") == ()
