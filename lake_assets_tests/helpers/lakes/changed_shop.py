"""A lake that is changed from outside.

Here: files of its table, its rows, why it has stopped. Not here: the changes (`outside/actions.py`,
`test_outside_changes.py`, `test_lost_logs.py`, `drills`).
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyiceberg.io import InputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from lake_assets.bronze.files.inspect import inspect_file
from lake_assets.bronze.scan import discovery
from lake_assets.commands.mend.recover import recover
from lake_assets.commands.show.status import status
from lake_assets.errors import LakeError
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.small_lakes import sequence

ITEMS = {"columns": {"id": "long not null", "v": "string"}, "primary_key": ["id"]}
HOUR = timedelta(hours=1)
SHOP = {1: "changed", 3: "c", 4: "new"}
"""The rows of `applied_shop`."""
UNTIMED = {"timestamp_column_name": None}
"""The setting of a source without a timestamp column, for `untimed_shop`."""
UNTIMED_PARTS = {1: "a", 2: "b"}, {3: "c"}
_HEADER = "Op,id,v,change_seq,BI_id"


def applied_shop(bench: Bench, apply: Callable[[], object]) -> dict[int, str]:
    """Writes a load of three rows, and changes that update one of them and delete another; applies them, and returns
    the table's expected rows."""
    bench.put(loaded({1: "a", 2: "b", 3: "c"}))
    bench.put(changed(Clock(), ("U", 1, "changed"), ("D", 2, "b"), ("I", 4, "new")))
    apply()
    return dict(SHOP)


def untimed_part(
    bench: Bench, rows: Iterable[tuple[int, str]], number: int = 1, *, quoted: bool = False
) -> None:
    """Writes a full-load file without timestamps."""
    mark = '"' if quoted else ""
    lines = [f"I,{mark}{n}{mark},{mark}{v}{mark},," for n, v in rows]
    bench.put_text(f"public/items/LOAD{number:08X}.csv", _HEADER, *lines)


def untimed_shop(bench: Bench, apply: Callable[[], object]) -> dict[int, str]:
    """As `applied_shop`, with a load of two parts, in a source without a timestamp column."""
    for number, rows in enumerate(UNTIMED_PARTS, 1):
        untimed_part(bench, rows.items(), number)
    changes = (f"U,1,changed,{sequence(5)},", f"D,2,b,{sequence(6)},", f"I,4,new,{sequence(7)},")
    bench.put_text("public/items/20260301-121000000.csv", _HEADER, *changes)
    apply()
    return dict(SHOP)


@contextmanager
def without_digests() -> Iterator[None]:
    """Files are logged as those of an earlier version, or as those that are too large to be compared."""
    with patch.object(discovery, "inspect_file", lambda *given: replace(inspect_file(*given), content=None)):
        yield


def back_up_of_gone_metadata(bench: Bench, table: str) -> None:
    """The catalog is restored from a backup, and names a metadata file of the table that is gone."""
    catalog = bench.lake.runtime.catalog
    newest = path_of(catalog.load_table(table).metadata_location)
    former = newest.with_name(f"00000-former{newest.name}")
    shutil.copy(newest, former)
    catalog.drop_table(table)
    catalog.register_table(table, f"file://{former}")
    former.unlink()


def loaded(values: dict[int, str], *, part: int = 1, at: datetime = NOON) -> DmsFile:
    """A full-load file with these values of v by id."""
    rows = [{"id": n, "v": v} for n, v in values.items()]
    return load_file("public.items", rows, part=part, at=at)


def changed(clock: Clock, *changes: tuple[str, int, str]) -> DmsFile:
    """A file of changes (operation, id, v), flushed a minute after the last one."""
    rows = [clock.change(op, {"id": n, "v": v}) for op, n, v in changes]
    return cdc_file("public.items", clock.now + timedelta(minutes=1), rows)


def values(bench: Bench, name: str = "items") -> dict[int, str]:
    """The column v by id."""
    return bench.stored_by_id("v", name)


def reason(bench: Bench, name: str = "items") -> str:
    """Why the table has stopped: as its turn and `status` say."""
    error = bench.turn()[name].error
    assert isinstance(error, LakeError), error
    line = next(line for line in status(bench.reopened()) if line.table == f"silver_shop.{name}")
    assert line.state in ("stopped", "failing")
    assert line.reason is not None
    return str(error)


def sql(bench: Bench, statement: str) -> None:
    """Runs a statement of Spark SQL, in which `{table}` is items."""
    with bench.lake.runtime.sessions.isolated() as spark:
        spark.sql(statement.format(table=f"{bench.lake.config.catalog.name}.silver_shop.items"))


def path_of(address: str) -> Path:
    """Of a file's address, as PyIceberg or Spark writes it."""
    return Path("/" + address.removeprefix("file:").lstrip("/"))


def metadata_in(file: InputFile, encoding: str = "utf-8") -> TableMetadata:
    """The table's metadata from its file, past any cache."""
    with file.open() as stream:
        return TableMetadataUtil.parse_raw(stream.read().decode(encoding))


def status_text(lake: Lake) -> str:
    """The output of `status` for a lake whose catalog was changed."""
    try:
        (line,) = status(lake)
    except LakeError as error:
        return str(error)
    assert line.state == "stopped"
    return str(line.reason)


def reopen(bench: Bench) -> None:
    """The lake as another process would open it."""
    bench.lake = bench.reopened()


def recovered(bench: Bench) -> list[Any]:
    """What `lake-assets recover` has done; the lake is opened again."""
    done = list(recover(bench.lake))
    reopen(bench)
    return done


def more(shop: Bench, at: datetime = NOON + HOUR) -> dict[int, str]:
    """Writes another file of changes, without applying it; returns the table's expected rows with it."""
    clock = Clock(at)
    shop.put(changed(clock, ("U", 3, "later"), ("I", 5, "newest")))
    return {1: "changed", 3: "later", 4: "new", 5: "newest"}
