"""`lake-assets init --from-database URL --endpoint endpoints.json tasks.json` on a real PostgreSQL server.

Here: what the documents change in the file. Not here: the documents alone (`endpoint_import/`), the database alone
(`reflection/`).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lake_assets.cli import app
from lake_assets.config.config_file import load_lake
from lake_assets_tests.helpers.texts.dms_documents import (
    BEFORE,
    ENDPOINT,
    SEQUENCE,
    SOURCE_ENDPOINT,
    endpoint,
    locator,
    select,
    task,
    transform,
)

SHOP = """
CREATE TABLE orders (id bigint PRIMARY KEY, amount numeric, paid boolean NOT NULL, "_pos" int, "Op" text,
    commit_ts text, "Note" text, note text, secret text);
CREATE TABLE "Order Lines" (id int PRIMARY KEY, n numeric(8, 2));
CREATE TABLE tmp_1 (id int PRIMARY KEY); CREATE TABLE other (a int);
CREATE SCHEMA crm; CREATE TABLE crm.people (id int PRIMARY KEY, size numeric);
"""


def settings(**given: Any) -> dict[str, Any]:
    """The source endpoint with these settings."""
    return SOURCE_ENDPOINT | {"PostgreSQLSettings": given}


def init(folder: Path, address: str, *documents: Any, code: int = 0, more: tuple[str, ...] = ()) -> str:
    paths = []
    for number, document in enumerate(documents):
        paths.append(folder / f"{number}.json")
        paths[-1].write_text(json.dumps(document), encoding="utf-8")
    first, *others = map(str, paths)
    output = folder / "lake.yaml"
    output.unlink(missing_ok=True)
    arguments = [
        "init",
        "--from-database",
        address,
        "--output",
        str(output),
        *more,
        "--endpoint",
        first,
        *others,
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == code, done.output
    return done.output if code == 0 else str(done.exception)


def test_in_one_go(new_database: Callable[[str], str], tmp_path: Path) -> None:
    """No column, type, key, location or setting is left to write."""
    address = new_database(SHOP)
    rules = [
        select("public", "%"),
        select("public", "tmp%", "exclude"),
        select("public", "other", "exclude"),
        {
            **select("public", "orders"),
            "filters": [
                {
                    "filter-type": "source",
                    "column-name": "id",
                    "filter-conditions": [{"filter-operator": "gte", "value": "5"}],
                }
            ],
        },
        SEQUENCE,
        BEFORE,
        transform("rename", "public", "Order Lines", "table", value="lines"),
        {
            **transform("remove-column", "public", "orders"),
            "object-locator": locator("public", "orders", **{"column-name": "secret"}),
        },
        {
            **transform("rename", "public", "orders", value="total"),
            "object-locator": locator("public", "orders", **{"column-name": "amount"}),
        },
        {
            **transform("convert-uppercase", "public", "lines"),
            "object-locator": locator("public", "Order Lines", **{"column-name": "%"}),
        },
    ]
    described = settings(MapUnboundedNumericAsString=True, MapBooleanAsBoolean=True)
    limited = task(*rules)
    printed = init(tmp_path, address, {"Endpoints": [described, ENDPOINT]}, {"ReplicationTasks": [limited]})
    assert "lake.yaml: 2 tables, 10 columns of PostgreSQL" in " ".join(printed.split())
    assert (
        "left out: crm.people, public.other, public.tmp_1, which the table mapping does not select" in printed
    )
    assert "to decide" not in printed
    text = (tmp_path / "lake.yaml").read_text(encoding="utf-8")
    (tmp_path / "lake.yaml").write_text(
        text.replace("lob_max_size: 64", "lob_max_size: 64\n      longest_lob: 1")
    )
    (source,) = load_lake(tmp_path / "lake.yaml").sources.values()
    assert source.location == "s3://lake-bucket/raw/shop"
    assert (source.dms.timestamp_column_name, source.dms.change_sequence_column) == (
        "commit_ts",
        "change_seq",
    )
    assert list(source.tables) == ["public.lines", "public.orders"]
    orders = source.tables["public.orders"]
    assert [(column.name, column.type) for column in orders.columns] == [
        ("id", "long"),
        ("total", "string"),
        ("paid", "boolean"),
        ("pos", "int"),
        ("op_2", "string"),
        ("commit_ts_2", "string"),
        ("note_2", "string"),
        ("note", "string"),
    ]
    assert orders.renamed_from == {
        "pos": "_pos",
        "op_2": "Op",
        "commit_ts_2": "commit_ts",
        "note_2": "Note",
    }
    assert orders.source_filter == "\"id\" >= '5'"
    lines = source.tables["public.lines"]
    assert ([column.name for column in lines.columns], lines.primary_key) == (["ID", "N"], ("ID",))


@pytest.mark.parametrize(
    ("given", "declared"),
    [
        (
            settings(MapUnboundedNumericAsString=True),
            "size: string  # numeric without digits: DMS writes text",
        ),
        (settings(MapUnboundedNumericAsString=False), "size: undecided  # numeric without digits"),
        (
            SOURCE_ENDPOINT | {"ExtraConnectionAttributes": "x=1;mapUnboundedNumericAsString=true;"},
            "size: string",
        ),
        (SOURCE_ENDPOINT, "size: undecided"),
    ],
)
def test_the_source_endpoints_settings(
    new_database: Callable[[str], str], tmp_path: Path, given: dict[str, Any], declared: str
) -> None:
    address = new_database(SHOP)
    init(tmp_path, address, given, endpoint(), task(select("crm", "people")))
    assert declared in (tmp_path / "lake.yaml").read_text(encoding="utf-8")


def test_lobs_without_the_tasks_settings(new_database: Callable[[str], str], tmp_path: Path) -> None:
    printed = init(tmp_path, new_database(SHOP), endpoint(), {"rules": [select("public", "orders")]})
    assert "to decide: lob_mode" in printed
    assert "lob_mode: undecided  #" in (tmp_path / "lake.yaml").read_text(encoding="utf-8")


def test_full_row_only_with_before_images_of_all_columns(
    new_database: Callable[[str], str], tmp_path: Path
) -> None:
    address = new_database(SHOP + "ALTER TABLE other REPLICA IDENTITY FULL;")
    for images, offered in (([], False), ([BEFORE], False), ([all_columns()], True)):
        printed = init(tmp_path, address, endpoint(), task(select("public", "other"), *images))
        assert ("full_row (with before images" in " ".join(printed.split())) is offered


def all_columns() -> dict[str, Any]:
    """The before-image rule for all columns."""
    return BEFORE | {"before-image-def": {"column-prefix": "BI_", "column-filter": "all"}}


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        (
            [endpoint(), endpoint() | {"EndpointArn": "arn:other"}, task(select("public", "%"))],
            "are targets",
        ),
        ([endpoint()], "no task of the target lake is described"),
        ([endpoint(), task(select("shop", "%"))], "selects none of the database's tables crm.people"),
        ([task(select("public", "%"))], "describe no target"),
    ],
)
def test_what_cannot_be_used(
    new_database: Callable[[str], str], tmp_path: Path, documents: list[Any], said: str
) -> None:
    assert said in init(tmp_path, new_database(SHOP), *documents, code=1)
    assert not (tmp_path / "lake.yaml").exists()
