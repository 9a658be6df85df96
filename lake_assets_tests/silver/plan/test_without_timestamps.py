"""From files to plans, in a source without a timestamp column: what a part that is written again leads to, with its
answers.

Here: the log and the plan, without Spark. Not here: the table (`silver/test_loads_without_timestamps.py`).
"""

import os
import time
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.copies import originals
from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.scan.discovery import discover
from lake_assets.commands.mend.full_load_decision import _decided_reload
from lake_assets.config import Mode, SourceConfig
from lake_assets.silver.plan.plan import Plan
from lake_assets.silver.table.position import Position
from lake_assets.storage.object_store import LocalStore
from lake_assets_tests.helpers.files.dms_files import put
from lake_assets_tests.helpers.files.planning import IMMEDIATELY, outcome, plan

ITEMS = "public/items"
ONE, TWO, CDC = (f"{ITEMS}/{name}.csv" for name in ("LOAD00000001", "LOAD00000002", "20260301-120000000"))


class Place:
    """A folder, its log, and the position of a table that is computed from it."""

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        self.folder, self.log, self.position = folder, FileLog(catalog), Position()
        table = {"columns": {"id": "long not null"}, "primary_key": ["id"]}
        self.source = SourceConfig.model_validate(
            {"location": str(folder), "dms": {"add_column_name": True}, "tables": {"public.items": table}}
        )
        self.written = time.time()

    def put(self, key: str, *rows: str) -> None:
        """Writes an object, a minute after the last one."""
        put(self.folder, key, "".join(f"{row}\n" for row in ("Op,id", *rows)).encode())
        self.written += 60
        os.utime(self.folder / key, (self.written, self.written))

    def plan(self, mode: Mode = Mode.CURRENT) -> Plan:
        """A scan, and the table's plan."""
        discover("shop", self.source, LocalStore(self.folder), self.log)
        return plan(originals(self.log.files("shop")), self.position, mode=mode, policy=IMMEDIATELY)

    def apply(self) -> None:
        """Applies all that is pending."""
        while (batch := self.plan().batch) is not None:
            self.position = Position(log_offset=batch.upto, epoch=batch.epoch, snapshot_id=1)

    def answer(self, *, reload: bool) -> None:
        files = originals(self.log.files("shop"))
        loads = [file for file in files if file.kind is FileKind.LOAD]
        assert _decided_reload(
            "public.items", self.log, loads, self.position.log_offset, reload=reload, began=None
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/w")
    found = Place(tmp_path / "bronze", catalog)
    found.put(ONE, "I,1", "I,2")
    found.put(TWO, "I,3")
    found.put(CDC, "U,1")
    found.apply()
    assert found.position.log_offset == 3
    return found


def is_asked(found: Plan) -> bool:
    return found.stop is not None and "no timestamp column" in found.stop.reason


def test_a_correction(place: Place) -> None:
    place.put(TWO, "I,4")
    assert is_asked(place.plan())
    assert is_asked(place.plan(Mode.CHANGE_LOG)), "its log has to know, too"
    place.answer(reload=False)
    batch = place.plan().batch
    assert batch is not None
    assert (batch.kind, batch.epoch, len(batch.files)) == ("full_load", 1, 3), "with all changes"
    assert {file.key for file in batch.files} == {ONE, TWO, CDC}
    place.apply()
    assert place.plan() == Plan()
    # A part that is touched afterwards belongs to no reload.
    place.put(ONE, "I,1", "I,2")
    place.put(TWO, "I,4")
    assert place.plan() == Plan()


def test_a_reload_of_all_parts_of_which_one_has_its_former_rows(place: Place) -> None:
    place.put(ONE, "I,7")
    assert is_asked(place.plan())
    place.put(TWO, "I,3")
    assert is_asked(place.plan())
    place.answer(reload=True)
    batch = place.plan().batch
    assert batch is not None
    assert (batch.kind, batch.epoch, {file.key for file in batch.files}) == ("full_load", 2, {ONE, TWO})


def test_a_part_of_the_reload_that_comes_after_the_answer(place: Place) -> None:
    place.put(ONE, "I,7")
    assert is_asked(place.plan())
    place.answer(reload=True)
    place.put(TWO, "I,8")
    batch = place.plan().batch
    assert batch is not None
    assert (batch.epoch, {file.key for file in batch.files}) == (2, {ONE, TWO}), "it is not asked about again"


def test_a_reload_after_a_correction(place: Place) -> None:
    place.put(TWO, "I,4")
    place.plan()
    place.answer(reload=False)
    place.apply()
    place.put(ONE, "I,7")
    assert is_asked(place.plan())
    place.put(TWO, "I,8")
    place.plan()
    place.answer(reload=True)
    batch = place.plan().batch
    assert batch is not None
    assert {file.key for file in batch.files} == {ONE, TWO}
    assert batch.epoch > 1


def test_the_same_rows(place: Place) -> None:
    place.put(ONE, "I,2", '"I","1"')
    assert outcome(place.plan()) is None
    (place.folder / ONE).unlink()
    place.put(f"{ONE}.gz", "I,1", "I,2")
    place.put(f"{ITEMS}/p0/LOAD00000002.csv", '"I",3')
    (place.folder / TWO).unlink()
    assert outcome(place.plan()) is None
