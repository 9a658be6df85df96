"""A lake that is changed from outside.

Here: files of its table, its rows, why it has stopped. Not here: the changes (`test_outside_changes.py`,
`test_lost_logs.py`).
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyiceberg.io import InputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from lake_assets.commands.mend.recover import recover
from lake_assets.commands.show.status import status
from lake_assets.errors import LakeError
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench

ITEMS = {"columns": {"id": "long not null", "v": "string"}, "primary_key": ["id"]}
HOUR = timedelta(hours=1)


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
