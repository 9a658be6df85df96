"""Transaction files through discovery: which records the log has of them, pass after pass."""

from collections.abc import Callable
from typing import Any

import pytest

from lake_assets.bronze.files.keys import place_of
from lake_assets.bronze.log.admission import admit
from lake_assets.bronze.log.file_log import FileLog, NewFile
from lake_assets.bronze.log.known import Known
from lake_assets.config import SourceConfig, TableName
from lake_assets.storage.object_store import StoreError
from lake_assets_tests.helpers.files.scanned_source import ScannedSource

TABLE = {"columns": {"id": "long not null"}, "primary_key": ["id"]}
FILE = "cdc/CDC_TXN-20260301120000000.csv"


class Bench(ScannedSource):
    """A source with transaction files."""

    name = "shop"

    def __init__(self, open_catalog: Any, location: dict[str, Any]) -> None:
        super().__init__(configured("public.trips", "public.notes"), open_catalog, **location)

    def configure(self, *tables: str, **dms: Any) -> None:
        self.source = configured(*tables, **dms)

    def write(self, *rows: str, key: str = FILE) -> None:
        self.put(key, "".join(f"{row}\n" for row in rows).encode())

    def found(self, **options: Any) -> dict[str, int | None]:
        """What a pass logs: rows by table."""
        return {file.qualified_table: file.rows for file in self.run(**options).logged}

    def shares(self, key: str = FILE) -> dict[str, int | None]:
        return {table: share.rows for table, share in self.log.reading("shop").shares[place_of(key)].items()}


def configured(*tables: str, **dms: Any) -> SourceConfig:
    return SourceConfig.model_validate(
        {
            "location": "unused",
            "dms": {"preserve_transactions": True, "cdc_path": "cdc"} | dms,
            "tables": {t: TABLE | {"name": t.replace(".", "_")} for t in tables},
        }
    )


@pytest.fixture
def bench(open_catalog: Any, location: dict[str, Any]) -> Bench:
    return Bench(open_catalog, location)


def test_one_record_for_each_table_in_one_commit(bench: Bench) -> None:
    bench.write("I,trips,public,1", "I,notes,public,1", "U,trips,public,1")
    bench.write("I,trips,public,2", key="cdc/CDC_TXN-20260301120001000.csv")
    bench.write("1", key="public/trips/LOAD00000001.csv")
    before = bench.log.head()
    logged = bench.run().logged
    assert before == 0
    assert [(f.offset, f.key, f.qualified_table, f.rows) for f in logged] == [
        (1, "public/trips/LOAD00000001.csv", "public.trips", 1),
        (2, FILE, "public.notes", 1),
        (3, FILE, "public.trips", 2),
        (4, "cdc/CDC_TXN-20260301120001000.csv", "public.trips", 1),
    ]
    assert {(f.version, f.size) for f in logged if f.key == FILE} == {(logged[1].version, 51)}
    assert all(
        f.format == "transactions" and f.columns is None and f.epoch == 1 for f in logged if f.key == FILE
    )
    assert [f.offset for f in bench.log.files("shop", "public.trips")] == [1, 3, 4]
    assert bench.found() == {}


def test_each_is_read_once_however_large(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    original = type(bench.store).open

    def noted(self: Any, key: str, **options: Any) -> Any:
        opened.append(key)
        return original(self, key, **options)

    monkeypatch.setattr(type(bench.store), "open", noted)
    bench.write("I,trips,public,1")
    bench.write(key="cdc/CDC_TXN-20260301120001000.csv")
    assert bench.found(inspect_budget_bytes=0) == {"public.trips": 1, ".": 0}
    assert bench.found() == bench.found() == {}
    assert len(opened) == 2
    assert "." not in bench.run().unconfigured


def test_a_table_that_is_configured_later_finds_its_rows(bench: Bench) -> None:
    bench.write("I,trips,public,1", "I,other,public,1", "I,other,public,2", "I,awsdms_status,public,1")
    bench.write("I,other,public,3", key="cdc/CDC_TXN-20260301120001000.csv")
    seen = bench.run()
    # Told at every look, as the files of a table's own folder are; DMS's own tables are nobody's business.
    assert seen.unconfigured == bench.run().unconfigured == {"public.other": 2}
    bench.configure("public.trips", "public.other")
    assert bench.run().unconfigured == {}
    assert [f.rows for f in bench.log.files("shop", "public.other")] == [2, 1]


def test_a_rewritten_file(bench: Bench) -> None:
    """A table that has no row in it any more gets a record that says so; its old one names content that is gone."""
    bench.write("I,trips,public,1", "I,other,public,1")
    bench.run()
    bench.write("I,notes,public,1")
    assert bench.found() == {"public.notes": 1, "public.other": 0, "public.trips": 0}
    assert bench.shares() == {"public.notes": 1, "public.other": 0, "public.trips": 0}
    bench.write()
    assert bench.found() == {"public.notes": 0, "public.other": 0, "public.trips": 0}
    bench.write("I,other,public,1", "I,other,public,1")
    assert bench.found() == {"public.notes": 0, "public.other": 2, "public.trips": 0}


def test_an_empty_file_that_gets_rows(bench: Bench) -> None:
    bench.write()
    assert bench.found() == {".": 0}
    bench.write("I,trips,public,1")
    assert bench.found() == {"public.trips": 1}
    assert bench.shares() == {"public.trips": 1}


def test_an_unreadable_file_is_everybodys(bench: Bench) -> None:
    bench.write("I,trips,public,1", "rubbish")
    assert bench.found() == {"public.notes": None, "public.trips": None}
    assert bench.found() == {}
    # Nobody can say that a table that is configured now has no row in it.
    bench.configure("public.trips", "public.notes", "public.late")
    assert bench.found() == {"public.late": None}
    assert bench.found() == {}
    bench.write("I,trips,public,1", "I,other,public,1")
    assert bench.found() == {"public.late": 0, "public.notes": 0, "public.other": 1, "public.trips": 1}
    bench.configure("public.trips", "public.notes", "public.late", "public.later")
    assert bench.found() == {}


def test_a_file_that_another_setting_makes_readable(bench: Bench) -> None:
    bench.write("I;trips;public;1", "I;other;public;1")
    assert bench.found() == {"public.notes": None, "public.trips": None}
    bench.configure("public.trips", "public.notes", "public.late", csv_delimiter=";")
    assert bench.found() == {"public.late": 0, "public.other": 1}
    assert bench.found() == {}


def test_rows_that_name_a_partition(bench: Bench) -> None:
    bench.source = joined()
    bench.write(
        "I,sales_a,public,1", "I,sales_b,public,1", "I,sales,public,1", "I,sales_b,public,2", "I,x,public,1"
    )
    found = {(file.qualified_table, file.partitions): file.rows for file in bench.run().logged}
    assert found == {
        ("public.sales", ("sales_a",)): 1,
        ("public.sales", ("sales_b",)): 2,
        ("public.sales", ()): 1,
        ("public.x", ()): 1,
    }
    assert bench.found() == {}
    assert bench.shares() == {"public.sales": 1, "public.sales_a": 1, "public.sales_b": 2, "public.x": 1}


def test_partitions_in_a_file_that_another_setting_makes_readable(bench: Bench) -> None:
    bench.source = joined()
    bench.write("I;sales_a;public;1", "I;sales_b;public;1")
    assert bench.found() == {"public.sales": None}
    assert bench.found() == {}
    bench.source = joined(csv_delimiter=";")
    assert [(file.partitions, file.rows) for file in bench.run().logged] == [
        (("sales_a",), 1),
        (("sales_b",), 1),
    ]
    assert bench.found() == {}


def joined(**dms: Any) -> SourceConfig:
    source = configured("public.sales", **dms)
    table = source.tables["public.sales"].model_copy(update={"folders": ("sales_*",)})
    return source.model_copy(update={"tables": {"public.sales": table}})


def test_an_object_that_cannot_be_fetched_is_told_and_looked_at_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("I,trips,public,1")
    with monkeypatch.context() as patch:

        def refused(self: Any, key: str, **options: Any) -> Any:
            raise StoreError(f"{key}: denied.")

        patch.setattr(type(bench.store), "open", refused)
        seen = bench.run()
        assert [(entry.key, entry.reason[-7:]) for entry in seen.unknown] == [(FILE, "denied.")]
        assert seen.logged == []
    assert bench.found() == {"public.trips": 1}


def test_same_table_names_in_two_schemas(bench: Bench) -> None:
    bench.configure("public.trips", "audit.trips")
    bench.write("I,trips,public,1", "I,trips,audit,1", "I,trips,audit,2")
    assert bench.found() == {"public.trips": 1, "audit.trips": 2}


def test_without_the_setting_a_transaction_file_is_told_with_the_reason(bench: Bench) -> None:
    bench.write("I,trips,public,1")
    bench.configure("public.trips", preserve_transactions=False)
    seen = bench.run()
    assert seen.logged == []
    assert "dms.cdc_path to 'cdc'" in seen.unknown[0].reason


@pytest.fixture
def share(cdc: Callable[..., NewFile]) -> Callable[..., NewFile]:
    def build(version: str, table: str, **changes: Any) -> NewFile:
        return cdc(1, version, **{"table": table, "key": FILE, "format": "transactions"} | changes)

    return build


def test_shares_of_a_version_that_was_superseded_meanwhile(
    share: Callable[..., NewFile], open_catalog: Any
) -> None:
    """A slower process has listed the older version, and logs nothing of it, for whichever table."""
    log = FileLog(open_catalog())
    log.append("s", [share("v1", "trips"), share("v1", "notes")])
    log.append("s", [share("v2", "trips"), share("v2", "notes", rows=0)])
    assert log.append("s", [share("v1", "trips"), share("v1", "notes"), share("v1", "late")]) == []
    assert log.append("s", [share("v3", "late")], based_on=1) == []
    assert FileLog(open_catalog()).reading("s").shares.keys() == {place_of(FILE)}
    assert {s.version for s in FileLog(open_catalog()).reading("s").shares[place_of(FILE)].values()} == {"v2"}


def test_one_commit_has_all_shares_or_none(share: Callable[..., NewFile]) -> None:
    admitted = admit([share("v1", "trips"), share("v1", "notes"), share("v1", "trips")], Known(), based_on=0)
    assert [(file.table, epoch) for file, epoch in admitted] == [("notes", 1), ("trips", 1)]


def test_a_table_with_folders_has_one_record_of_a_file(bench: Bench) -> None:
    bench.source = joined()
    bench.log = FileLog(bench.log._catalog, owner=owner_of_sales)
    bench.write("I,sales_a,public,1", "I,sales_b,public,1", "I,x,public,1", "I,sales,public,1")
    bench.run()
    for log in (bench.log, FileLog(bench.log._catalog, owner=owner_of_sales)):
        (record,) = log.files("shop", "public.sales")
        assert (set(record.names), record.rows, record.offset) == ({"sales", "sales_a", "sales_b"}, 3, 3)
        assert [file.rows for file in log.files("shop", "public.x")] == [1]
    # Rows are asked for again, of all of them.
    bench.log.log_again([record])
    first, again = FileLog(bench.log._catalog, owner=owner_of_sales).files("shop", "public.sales")
    assert (set(again.names), again.rows, again.retry, again.offset) == (set(first.names), 3, True, 7)
    assert {file.table for file in FileLog(bench.log._catalog).files("shop")} == {
        "sales",
        "sales_a",
        "sales_b",
        "x",
    }


def owner_of_sales(source: str, table: TableName) -> TableName | None:
    return TableName("public", "sales") if table.table.startswith("sales_") else None
