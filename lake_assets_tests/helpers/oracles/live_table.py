"""A table of a real PostgreSQL whose changes land as DMS would write them, beside the silver table that follows it.

Here: the source, its files, and the comparison. Not here: the cases (`silver/test_columns_from_source.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from lake_assets.silver.apply.rebuild import rebuild
from lake_assets_tests.helpers.files.dms_files import (
    Clock,
    DmsFile,
    cdc_file,
    columns_of,
    csv_bytes,
    json_bytes,
    load_file,
)
from lake_assets_tests.helpers.files.dms_files import put as put_object
from lake_assets_tests.helpers.lakes.bench import Bench, comparable
from lake_assets_tests.helpers.servers.postgresql import psycopg_engine

ITEMS = "public.items"
CREATE = (
    "CREATE TABLE public.items (id bigint PRIMARY KEY, name varchar(20), size integer, price numeric(10, 2))"
)
COLUMNS = {"id": "long not null", "name": "string", "size": "int", "price": "decimal(10, 2)"}
NewDatabase = Callable[[str], str]


class Live:
    """A table of PostgreSQL whose changes land as DMS would write them."""

    def __init__(
        self,
        folder: Path,
        new_database: NewDatabase,
        form: str = "header",
        dms: Mapping[str, Any] | None = None,
        **table: Any,
    ) -> None:
        """`dms`: further settings of the endpoint; `table`: of the table."""
        self.form = form
        self.address = new_database(CREATE)
        self.source = psycopg_engine(self.address)
        self.bench = Bench(
            folder,
            {ITEMS: {"columns": COLUMNS, "primary_key": ["id"], **table}},
            {"add_column_name": form == "header", **(dms or {})},
            source={"database": self.address},
        )
        self.clock = Clock()

    def ddl(self, *statements: str) -> None:
        with self.source.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    @property
    def columns(self) -> list[str]:
        return [column["name"] for column in sa.inspect(self.source).get_columns("items")]

    def rows(self) -> list[dict[str, Any]]:
        with self.source.connect() as connection:
            return [dict(row) for row in connection.execute(sa.text("SELECT * FROM items")).mappings()]

    def insert(self, number: int, **values: Any) -> dict[str, Any]:
        """A row in the source, and its change."""
        row = dict.fromkeys(self.columns) | {"id": number} | values
        names = ", ".join(f'"{name}"' for name in row)
        held = ", ".join(f":{name}" for name in row)
        with self.source.begin() as connection:
            connection.execute(sa.text(f"INSERT INTO items ({names}) VALUES ({held})"), row)
        return self.clock.change("I", row)

    def update(self, number: int, **values: Any) -> dict[str, Any]:
        with self.source.begin() as connection:
            edits = ", ".join(f'"{name}" = :{name}' for name in values)
            connection.execute(sa.text(f"UPDATE items SET {edits} WHERE id = :id"), values | {"id": number})
            row = connection.execute(sa.text("SELECT * FROM items WHERE id = :id"), {"id": number})
            found = dict(row.mappings().one())
        return self.clock.change("U", found, {"id": number})

    def load(self) -> None:
        self.put(load_file(ITEMS, self.rows(), extension=self._extension))

    def changes(self, *rows: dict[str, Any], columns: Sequence[str] | None = None) -> str:
        """Lands changes with the columns that the source has now; returns the file's key."""
        self.clock.now += timedelta(minutes=1)
        file = cdc_file(ITEMS, self.clock.now, rows, self._extension)
        self.put(file, columns)
        return file.key

    @property
    def _extension(self) -> str:
        return "json" if self.form == "json" else "csv"

    def put(
        self, file: DmsFile, columns: Sequence[str] | None = None, dms: Mapping[str, Any] | None = None
    ) -> None:
        """Lands a file with these columns of the source, by default those that it has now."""
        own, dms = columns or self.columns, dms or self.bench.dms
        if self.form == "json":
            content = json_bytes(file, columns_of(file, own, ["id"], dms), dms, ascii_only=False)
        else:
            content = csv_bytes(file, own, ["id"], dms)
        assert self.bench.location is not None
        put_object(self.bench.location, file.key, content)

    def check(self) -> None:
        """Silver's columns that the source has are equal to the source's."""
        self.bench.apply()
        names = self.columns
        stored = [{name: row[name] for name in names} for row in self.bench.stored()]
        assert comparable(stored) == comparable([{name: row[name] for name in names} for row in self.rows()])

    def check_rebuilt(self) -> None:
        """Every shape is as its files give it."""
        for target in self.bench.lake.targets:
            assert rebuild(self.bench.lake.runtime, target, publish=False).equal, target.name

    def types(self) -> dict[str, str]:
        return {field.name: str(field.field_type) for field in self.bench.table().schema().fields}
