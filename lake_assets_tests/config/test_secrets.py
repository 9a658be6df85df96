"""The secrets of lake.yaml in what drivers and Spark say of their failures."""

import traceback
from typing import Any

import pytest

from lake_assets.config import CatalogConfig, LakeConfig
from lake_assets.config.secrets import hidden_in, secrets_hidden
from lake_assets.errors import ApplyConflict, LakeError, TableStopped


def lake_of(catalog: CatalogConfig, **sections: Any) -> LakeConfig:
    table = {"primary_key": ["id"], "columns": {"id": "long not null"}}
    source = {"location": "s3://bucket/dms", "tables": {"public.trips": table}} | sections.pop("source", {})
    lake = LakeConfig.model_validate(
        {"catalog": {"uri": "catalog.db", "warehouse": "w"}, "sources": {"shop": source}, **sections}
    )
    return lake.model_copy(update={"catalog": catalog})


@pytest.mark.parametrize(
    "uri",
    [
        "jdbc:postgresql://u:hu%40sh@db:5432/lake",
        "jdbc:postgresql://db/lake?user=u&password=hu%40sh",
        "jdbc:mysql://db/lake?user=u&password=hu%40sh&useSSL=true",
    ],
)
@pytest.mark.parametrize("said", ["hu@sh", "hu%40sh"])
def test_a_part_of_the_address_is_hidden_as_well(uri, said):
    catalog = CatalogConfig.model_validate({"type": "jdbc", "uri": uri, "warehouse": "w"})
    assert hidden_in(lake_of(catalog), f"FATAL: {said} is no password") == "FATAL: *** is no password"


def test_keys_are_hidden_in_what_others_say():
    keys = {"access_key_id": "AKIA1", "secret_access_key": "hush-hush"}
    catalog = {"type": "rest", "uri": "http://c", "warehouse": "w", "token": "hush-token"}
    lake = lake_of(
        CatalogConfig.model_validate(catalog),
        source={"s3": keys},
        spark={"remote": "sc://x:1/;token=hush-remote", "conf": {"spark.ssl.keyPassword": "hush-conf"}},
    )
    text = "hush-hush hush-token hush-remote hush-conf spark http"
    assert hidden_in(lake, text) == "*** *** *** *** spark http"


def test_an_error_loses_the_secrets_of_its_causes():
    uri = "jdbc:postgresql://u:hush@db/lake"
    lake = lake_of(CatalogConfig.model_validate({"type": "jdbc", "uri": uri, "warehouse": "w"}))

    def told(error: Exception, cause: Exception | None = None) -> Exception:
        kind = type(error) if isinstance(error, LakeError) else Exception
        with pytest.raises(kind) as caught, secrets_hidden(lake):
            raise error from cause
        assert "hush" not in "".join(traceback.format_exception(caught.value))
        return caught.value

    assert str(told(ValueError(f"cannot reach {uri}"))) == "cannot reach <catalog.uri>"
    assert str(told(ApplyConflict("lost"), ValueError(uri))) == "lost"
    assert str(told(TableStopped("t", f"{uri} is down.", "Wait."))) == "t: <catalog.uri> is down. Wait."
    harmless = KeyError("x")
    assert told(harmless) is harmless, "what has no secret is as it was"


def test_the_address_of_the_catalog_is_hidden_in_what_others_say():
    uri = "jdbc:postgresql://db/lake?user=u&password=hush"
    catalog = CatalogConfig.model_validate({"type": "jdbc", "uri": uri, "warehouse": "w"})
    assert hidden_in(lake_of(catalog), f"Failed to connect: {uri}") == "Failed to connect: <catalog.uri>"
    local = CatalogConfig.model_validate({"uri": "catalog.db", "warehouse": "w"})
    assert hidden_in(lake_of(local), "no such table in catalog.db") == "no such table in catalog.db"
