"""The one text of a source table's name, and what lake.yaml accepts."""

import csv
from itertools import product
from pathlib import Path

import pytest

from lake_assets.config import SourceConfig, TableName, is_called
from lake_assets.config.config_file import ConfigError, load_lake
from lake_assets_tests.helpers.lakes.small_lakes import DMS, ITEMS

PARTS = ("trips", "a.b", ".", "a.", "..", 'a"b', '"a"', '"', '""', 'a".b', 'say "a.b"', "a b", "ä.ö", "日本")


def test_a_text_means_one_table() -> None:
    for schema, table in product(PARTS, PARTS):
        text = str(TableName(schema, table))
        assert TableName.parse(text) == (schema, table)
        if '"' not in schema + table:
            assert next(csv.reader([text], delimiter=".")) == [schema, table], "as SQL quotes it"


@pytest.mark.parametrize("name", ["public.trips", "public.o'hare", 'public.a"b', "public.Trips x", "."])
def test_a_name_without_dots_is_stored_as_before(name: str) -> None:
    schema, _, table = name.partition(".")
    assert str(TableName(schema, table)) == name
    assert TableName.parse(name) == (schema, table)


@pytest.mark.parametrize(
    ("name", "schema", "table", "silver"),
    [
        ('public."billing.invoices"', "public", "billing.invoices", "billing_invoices"),
        ('"my.app".orders', "my.app", "orders", "orders"),
        ('"my.app"."Say ""a.b"""', "my.app", 'Say "a.b"', None),
    ],
)
def test_quoted_as_in_sql(name: str, schema: str, table: str, silver: str | None) -> None:
    parsed = TableName.parse(name)
    assert (parsed, str(parsed)) == ((schema, table), name)
    assert parsed.prefix == f"{schema}/{table}/"
    assert silver in (None, parsed.silver)


def _mistakes(*names: str, **settings: object) -> str:
    tables = dict.fromkeys(names, ITEMS | settings)
    try:
        SourceConfig.model_validate({"location": "bronze", "dms": DMS, "tables": tables})
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("trips", "is not schema.table, as in public.trips"),
        (".trips", "is not schema.table"),
        ('public.""', "is not schema.table"),
        ("a.b.c", 'a name with a dot is quoted, as in public."billing.invoices"'),
        ('public."a.b', "is not schema.table"),
        ('public."a.b"c', "is not schema.table"),
        ('public."a"b.c"', "is not schema.table"),
        ('public."trips"', "is written public.trips: only a name with a dot is quoted"),
    ],
)
def test_what_is_no_name_is_refused(name: str, wrong: str) -> None:
    assert wrong in _mistakes(name)


def test_the_silver_names_of_dotted_tables_must_differ() -> None:
    assert _mistakes('public."billing.invoices"') == ""
    assert "become billing_invoices; give one of them a name:" in _mistakes(
        'public."billing.invoices"', "public.billing_invoices"
    )
    assert "must be lower case letters, digits and _; set name:" in _mistakes('public."say ""a.b"""')


def test_an_argument_from_which_the_shell_took_the_quotes() -> None:
    name = 'public."billing.invoices"'
    assert is_called(name, name)
    assert is_called(name, "public.billing.invoices")
    assert not is_called(name, "public.billing_invoices")
    assert not is_called("public.billing", "public.billing.invoices")


def test_a_mistake_names_its_place_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "lake.yaml"
    path.write_text(
        "catalog: {warehouse: w, uri: c.db}\nsources:\n  shop:\n    location: bronze\n    tables:\n"
        '      public."billing.invoices":\n        primary_key: [no]\n        columns: {id: long not null}\n'
    )
    with pytest.raises(ConfigError, match=r"""tables\['public."billing.invoices"'\]"""):
        load_lake(path)
