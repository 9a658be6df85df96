"""The statements that set up Snowflake, beside the files in `golden/`.

LAKE_GOLDEN=1 writes the files again: read them against Snowflake's reference then, because nothing here knows its
syntax.
"""

import os
import re
from pathlib import Path
from typing import Any

import pytest
import sqlglot

from lake_assets.config import LakeConfig
from lake_assets.outputs.snowflake import statements
from lake_assets_tests.helpers.warehouses.snowflake_lake import ROLE

GOLDEN = Path(__file__).parent / "golden"
GLUE = {"type": "glue", "warehouse": "s3://lake/warehouse", "client.region": "eu-central-1"}
REST = {"type": "rest", "uri": "https://xy.snowflakecomputing.com/polaris/api/catalog", "warehouse": "prod"}
OPEN = {
    "uri": "https://xy.snowflakecomputing.com/polaris/api/catalog",
    "name": "prod",
    "client_id": "abc",
    "client_secret": "not-in-any-file",
}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "glue_rest": (GLUE, {"role_arn": ROLE, "grant_to": ["analyst", 'o"brien']}),
    "glue": (GLUE, {"role_arn": ROLE, "catalog": "glue", "database": "BIKES", "refresh_interval": "5m"}),
    "each_commit": (
        GLUE,
        {"role_arn": ROLE, "refresh": "each_commit", "connect": {"account": "xy12345", "role": "lake"}},
    ),
    "linked": (GLUE, {"role_arn": ROLE, "linked_database": True, "grant_to": ["ANALYST"]}),
    "open_catalog": (REST, {"catalog": "open_catalog", "open_catalog": OPEN}),
    "open_catalog_linked": (REST, {"catalog": "open_catalog", "open_catalog": OPEN, "linked_database": True}),
}
TABLES = ("silver_shop.orders", "silver_shop.日本", "gold.daily")


def config_of(catalog: dict[str, Any], snowflake: dict[str, Any]) -> LakeConfig:
    tables = {"public.orders": {"primary_key": ["id"], "columns": {"id": "long not null"}}}
    return LakeConfig.model_validate(
        {
            "catalog": catalog,
            "sources": {"shop": {"location": "s3://dms/shop", "tables": tables}},
            "warehouses": {"snowflake": snowflake},
        }
    )


def every_statement(lake: LakeConfig) -> list[str]:
    assert lake.warehouses.snowflake is not None
    found = statements.setup(lake, ["gold", "silver_shop"])
    for name in TABLES:
        found += statements.table(lake, name)
    found.append(statements.existing(lake.warehouses.snowflake))
    if not lake.warehouses.snowflake.linked_database:
        found += [statements.refreshed_as_configured(lake.warehouses.snowflake, name) for name in TABLES]
    found += [statements.information(lake.warehouses.snowflake, name) for name in TABLES]
    return found + [statements.refresh(lake.warehouses.snowflake, name) for name in TABLES]


@pytest.mark.parametrize("case", CASES)
def test_the_statements_are_those_of_the_file(case: str) -> None:
    file = GOLDEN / f"snowflake_{case}.sql"
    text = "".join(f"{statement};\n" for statement in every_statement(config_of(*CASES[case])))
    if os.environ.get("LAKE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
    assert OPEN["client_secret"] not in text


@pytest.mark.parametrize("case", CASES)
def test_every_name_is_quoted(case: str) -> None:
    lake = config_of(*CASES[case])
    assert lake.warehouses.snowflake is not None
    names = {lake.warehouses.snowflake.database, "SILVER_SHOP", "GOLD", "ORDERS", "日本", "DAILY", "ANALYST"}
    for statement in every_statement(lake):
        bare = re.sub(r"'(?:[^'\\]|\\.)*'", "", re.sub(r'"(?:[^"]|"")*"', "", statement))
        assert not [name for name in names if re.search(rf"\b{name}\b", bare)], statement
        sqlglot.parse_one(statement, dialect="snowflake")


def test_the_secret_of_the_client_is_sent_to_snowflake_alone() -> None:
    lake = config_of(*CASES["open_catalog"])
    assert OPEN["client_secret"] not in "".join(statements.setup(lake, []))
    assert OPEN["client_secret"] in "".join(statements.setup(lake, [], OPEN["client_secret"]))


@pytest.mark.parametrize(
    ("catalog", "snowflake", "key", "reason"),
    [
        (GLUE, {}, "role_arn", "is missing"),
        (GLUE, {"role_arn": "arn:aws:s3:::lake"}, "role_arn", "is no role"),
        (GLUE, {"role_arn": ROLE, "database": "lake"}, "database", "is no name of a database"),
        (GLUE, {"role_arn": ROLE, "catalog": "open_catalog"}, "open_catalog", "is missing"),
        (GLUE, {"role_arn": ROLE, "open_catalog": OPEN}, "open_catalog", "has no meaning"),
        (GLUE, {"role_arn": ROLE, "catalog": "glue", "linked_database": True}, "linked_database", "REST"),
        (GLUE, {"role_arn": ROLE, "refresh": "each_commit"}, "connect", "is missing"),
        (
            GLUE,
            {
                "role_arn": ROLE,
                "refresh": "each_commit",
                "connect": {"account": "x"},
                "linked_database": True,
            },
            "refresh",
            "must be auto",
        ),
        (GLUE, {"role_arn": ROLE, "refresh_interval": "5s"}, "refresh_interval", "must be from 30s"),
        (REST, {"role_arn": ROLE}, "catalog", "needs a catalog of type glue, and that of this lake is rest"),
        ({"type": "glue", "warehouse": "s3://lake/w"}, {"role_arn": ROLE}, "region", "is missing"),
    ],
)
def test_what_cannot_work_is_refused(
    catalog: dict[str, Any], snowflake: dict[str, Any], key: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=key) as refused:
        config_of(catalog, snowflake)
    assert reason in str(refused.value)
