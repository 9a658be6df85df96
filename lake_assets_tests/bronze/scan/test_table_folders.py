"""Which configured table a folder is: exact names, case, settings of the table's own."""

from datetime import date

import pytest

from lake_assets.bronze.files.keys import DataFile, UnknownKey
from lake_assets.bronze.scan.table_folders import TableFolders, UnconfiguredKey, mixed_folders
from lake_assets.config import SourceConfig

TABLE = {"columns": {"id": "long"}, "primary_key": ["id"]}
NAME = "LOAD00000001.csv"


def folders(*tables: str, ignore_case: bool = False, **own) -> TableFolders:
    # `own` are endpoint settings of the first table.
    filled = {name: {**TABLE, "name": f"t{number}"} for number, name in enumerate(tables)}
    filled[tables[0]]["dms"] = own
    return TableFolders(
        SourceConfig.model_validate({"location": "b", "ignore_case": ignore_case, "tables": filled})
    )


@pytest.mark.parametrize(
    ("folder", "ignore_case", "table"),
    [
        ("public/trips", False, "public.trips"),
        ("sales/trips", False, "sales.trips"),
        ("hr/trips", False, None),
        ("PUBLIC/TRIPS", False, None),
        ("PUBLIC/TRIPS", True, "public.trips"),
        ("Sales/trips", True, "sales.trips"),
        ("hr/trips", True, None),
        ("hr/Staff", True, "HR.STAFF"),
        ("HR/STAFF", False, "HR.STAFF"),
    ],
)
def test_tables(folder, ignore_case, table):
    known = folders("public.trips", "sales.trips", "HR.STAFF", ignore_case=ignore_case)
    found = known.parse(f"{folder}/{NAME}")
    if table is None:
        assert found == UnconfiguredKey(f"{folder}/{NAME}", folder.replace("/", "."))
    else:
        assert isinstance(found, DataFile)
        assert (found.qualified_table, found.key) == (table, f"{folder}/{NAME}")


def test_a_hint_names_the_configured_table():
    known = folders("public.Trips")
    assert (
        known.hint("PUBLIC.trips") == "it configures public.Trips: correct its case, or set ignore_case: true"
    )
    assert known.hint("public.tripz") is None
    dms = {"preserve_transactions": True, "cdc_path": "cdc"}
    source = {"location": "b", "dms": dms, "tables": {"public.Trips": TABLE | {"name": "trips"}}}
    known = TableFolders(SourceConfig.model_validate(source))
    assert known.hint("PUBLIC.trips") == "it configures public.Trips: correct its case"


def test_transaction_files_name_a_table_exactly():
    dms = {"preserve_transactions": True, "cdc_path": "cdc"}
    source = {"location": "b", "ignore_case": True, "dms": dms, "tables": {"public.trips": TABLE}}
    with pytest.raises(ValueError, match="cannot be combined with preserve_transactions"):
        SourceConfig.model_validate(source)


def test_a_table_has_settings_of_its_own():
    known = folders("a.parts", "a.plain", date_partition_enabled=True, date_partition_delimiter="dash")
    found = known.parse("a/parts/2022-10-23/20221024-000012345.csv")
    assert isinstance(found, DataFile)
    assert found.capture_date == date(2022, 10, 23)
    assert isinstance(known.parse("a/plain/2022-10-23/20221024-000012345.csv"), UnknownKey)


def test_two_tables_that_ignore_case_cannot_tell_apart():
    assert isinstance(folders("a.t", "A.T").parse(f"A/T/{NAME}"), DataFile)
    with pytest.raises(ValueError, match=r"differs from a\.t only by case"):
        folders("a.t", "A.T", ignore_case=True)


EXACT, UPPER, MIXED = ("public", "trips"), ("PUBLIC", "TRIPS"), ("Public", "Trips")


@pytest.mark.parametrize(
    ("case", "listed", "logged", "refused"),
    [
        ("one folder, as configured", [EXACT], set(), []),
        ("one folder, in another case", [UPPER], set(), []),
        ("the exact one first", [EXACT, UPPER], set(), [UPPER]),
        ("none is exact", [UPPER, MIXED], set(), [UPPER, MIXED]),
        ("the one that the log knows", [EXACT, UPPER], {UPPER}, [EXACT]),
        ("whose files are gone", [EXACT], {UPPER}, [EXACT]),
        ("both were logged before", [EXACT, UPPER], {EXACT, UPPER}, []),
    ],
)
def test_two_folders_are_not_mixed(case, listed, logged, refused):
    known = folders("public.trips", ignore_case=True)
    files = [known.parse(f"{'/'.join(folder)}/{NAME}") for folder in listed]
    found = mixed_folders(
        [file for file in files if isinstance(file, DataFile)], {"public.trips": logged} if logged else {}
    )
    assert sorted(found) == sorted(f"{'/'.join(folder)}/{NAME}" for folder in refused)
    assert all("differ only by case" in reason for reason in found.values())


def joined(ignore_case: bool = False, **globs: list[str]) -> TableFolders:
    """Tables of the schema public, each with its globs."""
    tables = {f"public.{name}": TABLE | {"folders": own, "mode": "append_log"} for name, own in globs.items()}
    return TableFolders(
        SourceConfig.model_validate({"location": "b", "ignore_case": ignore_case, "tables": tables})
    )


@pytest.mark.parametrize(
    ("folder", "ignore_case", "table", "partitions"),
    [
        ("public/sales", False, "public.sales", ()),
        ("public/sales_2026_01", False, "public.sales", ("sales_2026_01",)),
        ("public/sales.b", False, "public.sales", ("sales.b",)),
        ("public/Sales_1", False, None, ()),
        ("Public/Sales_1", True, "public.sales", ("Sales_1",)),
        ("other/sales_1", False, None, ()),
        ("public/trips", False, "public.trips", ()),
    ],
)
def test_folders_that_are_joined(folder, ignore_case, table, partitions):
    known = joined(ignore_case, sales=["sales_*", "sales.?"], trips=[])
    found = known.parse(f"{folder}/20260301-120000000.csv")
    if table is None:
        assert isinstance(found, UnconfiguredKey)
        return
    assert isinstance(found, DataFile)
    assert (found.qualified_table, found.partitions) == (table, partitions)


def test_a_folder_of_two_tables_belongs_to_none():
    found = joined(a=["x_*"], b=["*_y"]).parse(f"public/x_y/{NAME}")
    assert isinstance(found, UnknownKey)
    assert "public.a and public.b all match its folder" in found.reason
    assert isinstance(joined(a=["x_*"], b=["*_y"]).parse(f"public/x_1/{NAME}"), DataFile)


def test_two_spellings_of_a_joined_folder_are_not_mixed():
    known = joined(ignore_case=True, sales=["sales_*"])
    files = [known.parse(f"public/{folder}/{NAME}") for folder in ("sales_1", "SALES_1", "sales_2")]
    found = mixed_folders([file for file in files if isinstance(file, DataFile)], {})
    assert sorted(found) == ["public/SALES_1/LOAD00000001.csv", "public/sales_1/LOAD00000001.csv"]


def test_a_hint_for_what_looks_like_a_partition():
    hint = joined(sales=[], trips=[]).hint("public.sales_2026_01")
    assert hint is not None
    assert 'if it is a partition of public.sales, add `folders: ["sales_*"]` to public.sales' in hint
    assert joined(sales=[]).hint("other.sales_2026_01") is None
