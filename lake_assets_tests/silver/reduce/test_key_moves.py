"""Keys that change hands: swaps, `id = id + 1`, chains over batches, moves that come late, updates that lack columns.

Here: one lake after the other, through files, in every split into batches. Not here: the rule alone
(`test_lineage.py`), histories by chance (`test_random_histories.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.mend.quarantine_commands import retry
from lake_assets.errors import TableStopped
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench, OnBench
from lake_assets_tests.helpers.reconcile.restored import restorer

pytestmark = pytest.mark.spark
TABLE = "public.items"
COLUMNS = {"id": "long not null", "v": "string not null", "note": "string"}
MISSING = "(not supplied)"


class Keys(OnBench):
    """A lake whose table has the rows 1, 2 and 3, and a clock for what happens to them."""

    def __init__(
        self, folder: Path, dms: Mapping[str, Any] | None = None, rows: int = 3, **table: Any
    ) -> None:
        self.bench = Bench(folder, {TABLE: {"columns": COLUMNS, "primary_key": ["id"], **table}}, dms or {})
        self.clock = Clock()
        self.files = 0
        self.load = load_file(TABLE, [{"id": n, "v": f"v{n}", "note": f"n{n}"} for n in range(1, rows + 1)])

    def change(
        self,
        op: str,
        key: int,
        v: str | None = None,
        before: int | None = None,
        *,
        more: bool = True,
        note: str | None = None,
    ) -> dict[str, Any]:
        """`more`: in the same transaction as the change before."""
        image = {"id": key, "v": v, "note": note}
        return self.clock.change(op, image, None if before is None else {"id": before}, more)

    def moved(self, old: int, new: int, v: str, *, more: bool = True) -> dict[str, Any]:
        return self.change("U", new, v, old, more=more)

    def file(self, *rows: Any) -> DmsFile:
        self.files += 1
        return cdc_file(TABLE, self.clock.now + timedelta(seconds=self.files), rows)

    def apply(self, *files: DmsFile) -> Any:
        self.bench.put(*files)
        return self.bench.apply()["items"]

    @property
    def rows(self) -> dict[int, str]:
        return self.bench.stored_by_id("v")


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Keys]:
    found = Keys(tmp_path_factory.mktemp("keys"))
    found.apply(found.load)
    return restorer(found)


@pytest.fixture
def keys(made: Callable[[], Keys]) -> Keys:
    """Its full load is applied."""
    return made()


def plus_one(keys: Keys) -> list[dict[str, Any]]:
    """`UPDATE items SET id = id + 1`, as it comes upon the rows."""
    keys.clock.now += timedelta(seconds=10)
    return [keys.moved(n, n + 1, f"v{n}") for n in (1, 2, 3)]


def swap(keys: Keys) -> list[dict[str, Any]]:
    keys.clock.now += timedelta(seconds=10)
    return [keys.moved(1, 2, "v1"), keys.moved(2, 1, "v2")]


def pairs(keys: Keys) -> list[dict[str, Any]]:
    """A swap as SQL Server has it: deletes and inserts."""
    keys.clock.now += timedelta(seconds=10)
    changes = [("D", 1, None), ("I", 2, "v1"), ("D", 2, None), ("I", 1, "v2")]
    return [keys.change(op, key, v) for op, key, v in changes]


SWAPPED = {1: "v2", 2: "v1", 3: "v3"}
CASES = [
    pytest.param(swap, SWAPPED, id="swap"),
    pytest.param(plus_one, {2: "v1", 3: "v2", 4: "v3"}, id="plus one", marks=pytest.mark.long),
    pytest.param(pairs, SWAPPED, id="pairs", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_in_one_batch(keys: Keys, changes: Any, expected: dict[int, str]) -> None:
    """After the load was applied; the rows of before are read from the table, and no file is read again."""
    (batch,) = keys.apply(keys.file(*changes(keys)))
    assert keys.rows == expected
    assert batch.replayed_bytes == 0


@pytest.mark.long
@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_with_the_full_load(
    spark: SparkSession, tmp_path: Path, changes: Any, expected: dict[int, str]
) -> None:
    """The changes were logged before it, and belong to it."""
    keys = Keys(tmp_path)
    keys.bench.put(keys.file(*changes(keys)))
    keys.bench.look()
    (batch,) = keys.apply(keys.load)
    assert (batch.kind, keys.rows) == ("full_load", expected)
    assert batch.rows == len(expected)


@pytest.mark.parametrize("late", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_a_transaction_over_several_batches(
    keys: Keys, changes: Any, expected: dict[int, str], late: bool
) -> None:
    """Each change in a file and a batch of its own; `late`: the first one comes last, after changes of others."""
    first, *rest = [keys.file(change) for change in changes(keys)]
    other = keys.file(keys.change("I", 50, "v50", more=False))
    order = [*rest, other, first] if late else [first, *rest, other]
    for file in order:
        keys.apply(file)
    assert keys.rows == {**expected, 50: "v50"}


@pytest.mark.parametrize("batches", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_shapes_that_keep_the_past(
    spark: SparkSession, tmp_path: Path, changes: Any, expected: dict[int, str], batches: int
) -> None:
    """The rows that were there end with the transaction, those that took their keys begin with it."""
    keys = Keys(tmp_path, mode="soft_delete", also=["history"])
    keys.apply(keys.load)
    rows = changes(keys)
    through = [keys.moved(3 if 3 in expected else 4, 90, "on", more=False), keys.moved(90, 91, "its way")]
    size = -(-len(rows) // batches)
    for start in range(0, len(rows), size):
        keys.apply(keys.file(*rows[start : start + size]))
    keys.apply(keys.file(*through))
    at, then = rows[0]["commit_ts"], through[0]["commit_ts"]
    moved = 3 if 3 in expected else 4
    now = {key: v for key, v in expected.items() if key != moved} | {91: "its way"}
    history = keys.bench.stored("items_history")
    assert {row["id"]: row["v"] for row in history if row["_is_current"]} == now
    ended = {(row["id"], row["v"], row["_valid_to"]) for row in history if not row["_is_current"]}
    before = {key: f"v{key}" for key in (1, 2, 3)}
    changed = {(key, v, at) for key, v in before.items() if expected.get(key) != v}
    assert ended == changed | {(moved, expected[moved], then)}
    stored = keys.bench.stored("items")
    assert {row["id"]: row["v"] for row in stored if not row["_is_deleted"]} == now


@pytest.mark.long
def test_a_late_batch_reads_what_came_since(spark: SparkSession, tmp_path: Path) -> None:
    """Not the full load, nor the files that were applied before anything of its time."""
    keys = Keys(tmp_path, rows=200)
    keys.apply(keys.load)
    keys.apply(keys.file(*(keys.change("U", n, "early", more=False) for n in range(1, 150))))
    late = keys.file(keys.change("U", 1, "late", more=False), keys.change("U", 2, "late", more=False))
    keys.apply(keys.file(keys.change("U", 2, "last", more=False)))
    (batch,) = keys.apply(late)
    assert (keys.rows[1], keys.rows[2], keys.rows[3]) == ("late", "last", "early")
    assert 0 < batch.replayed_bytes < 400
    assert keys.bench.rows() == keys.bench.truth()
    # A second one, from before the first: the table as it was after the first is no basis for it.
    keys.clock.now -= timedelta(seconds=3)
    (batch,) = keys.apply(keys.file(keys.moved(1, 500, "moved", more=False)))
    assert keys.bench.rows() == keys.bench.truth()


def test_what_cannot_be_decided_stops_the_table(keys: Keys) -> None:
    keys.clock.now += timedelta(seconds=10)
    changes = [keys.moved(1, 2, "v1"), keys.change("U", 2, "which?"), keys.moved(2, 1, "v2")]
    keys.bench.put(keys.file(*changes))
    error = keys.bench.turn()["items"].error
    assert isinstance(error, TableStopped)
    assert "an update does not determine which of several rows with its key it changes (id = 2, in " in str(
        error
    )
    assert keys.rows == {1: "v1", 2: "v2", 3: "v3"}


def partial(keys: Keys, key: int, before: int | None = None, **supplied: str) -> dict[str, Any]:
    """An update that names some columns only."""
    row = keys.change("U", key, MISSING, before, more=False, note=MISSING)
    return {**row, **supplied}


SPLITS = [(1, False), (2, False), (9, False), (9, True)]


@pytest.mark.parametrize(
    ("batches", "backwards"), [(2, True), *(pytest.param(*split, marks=pytest.mark.long) for split in SPLITS)]
)
def test_updates_that_lack_columns(
    spark: SparkSession, tmp_path: Path, batches: int, backwards: bool
) -> None:
    """What was not supplied stays as it was, also when the row moves; in any split and order of arrival."""
    keys = Keys(tmp_path, {"csv_no_sup_value": MISSING})
    keys.apply(keys.load)
    changes = [
        partial(keys, 1, v="changed"),
        partial(keys, 1, note="noted"),
        partial(keys, 21, before=2, note="moved"),
        partial(keys, 22, before=21, v="moved on"),
        keys.change("U", 3, "whole", more=False),
        partial(keys, 3, note="after"),
    ]
    files = [keys.file(change) for change in changes]
    if backwards:
        files.reverse()
    size = -(-len(files) // batches)
    chunks: Sequence[Sequence[DmsFile]] = [files[n : n + size] for n in range(0, len(files), size)]
    stopped = 0
    for chunk in chunks:
        keys.bench.put(*chunk)
        stopped += keys.bench.turn()["items"].error is not None
    # The move from 21 to 22 says nothing as long as 21 is not known, and waits for the move to 21.
    assert stopped == (backwards and batches > 1)
    found = {row["id"]: (row["v"], row["note"]) for row in keys.bench.stored()}
    assert found == {1: ("changed", "noted"), 22: ("moved on", "moved"), 3: ("whole", "after")}


def test_updates_of_rows_that_are_not_there_are_counted(keys: Keys) -> None:
    unknown = [keys.change("U", n, "unseen", more=False) for n in (7, 8)]
    inserted = [keys.change("I", 9, "new", more=False), keys.change("U", 9, "newer", more=False)]
    known = [keys.change("U", 1, "seen", more=False), keys.moved(2, 20, "moved", more=False)]
    (batch,) = keys.apply(keys.file(*unknown, *inserted, *known, keys.change("D", 99, more=False)))
    assert batch.unseen_updates == 2
    (batch,) = keys.apply(keys.file(keys.change("U", 7, "again", more=False)))
    assert batch.unseen_updates == 0
    assert keys.bench.rows() == keys.bench.truth()


def test_keys_that_only_a_row_on_its_way_had_are_not_missed(spark: SparkSession, tmp_path: Path) -> None:
    """Nor one that a row moves to by an update that lacks columns, nor one that the batch takes away again: of a row
    that was deleted while the full load ran."""
    keys = Keys(tmp_path, {"csv_no_sup_value": MISSING})
    keys.apply(keys.load)
    way = [keys.moved(1, 30, "moved", more=False), keys.moved(30, 31, "moved on")]
    (batch,) = keys.apply(keys.file(*way))
    assert batch.unseen_updates == 0
    (batch,) = keys.apply(keys.file(partial(keys, 21, before=2, note="moved")))
    assert batch.unseen_updates == 0
    cached = [keys.change("U", 40, "cached", more=False), keys.change("D", 40, more=False)]
    (batch,) = keys.apply(keys.file(*cached))
    assert batch.unseen_updates == 0
    assert keys.rows == {31: "moved on", 21: "v2", 3: "v3"}


def test_rows_of_one_commit_without_a_sequence(spark: SparkSession, tmp_path: Path) -> None:
    """The time in a file's name decides, not the folder: under DDMMYYYY the first of a month sorts before the last."""
    folders = {"date_partition_sequence": "DDMMYYYY", "date_partition_delimiter": "NONE"}
    keys = Keys(tmp_path, {"change_sequence_column": None, "date_partition_enabled": True, **folders})
    keys.apply(keys.load)
    at = NOON.replace(month=3, day=31, hour=23, minute=59, second=59)

    def row(v: str) -> dict[str, Any]:
        return {"Op": "U", "commit_ts": at, "id": 1, "v": v, "note": None}

    older = cdc_file(TABLE, at, [row("older")])
    newer = cdc_file(TABLE, at + timedelta(seconds=2), [row("newer")])
    for file, day in ((newer, "01042026"), (older, "31032026")):
        name = file.key.rsplit("/", 1)[-1]
        keys.bench.put(DmsFile(f"public/items/{day}/{name}", file.rows))
    keys.bench.apply()
    assert keys.rows[1] == "newer"


def test_a_late_file_waits_for_a_file_that_is_gone(keys: Keys) -> None:
    """It is held and shown, not applied by guess; the others go on. Once the file is back, it is tried again."""
    late = keys.file(keys.change("U", 1, "late", more=False), keys.change("U", 2, "late", more=False))
    applied = keys.file(keys.change("U", 2, "applied", more=False))
    keys.apply(applied)
    gone = keys.folder / "bronze" / applied.key
    content = gone.read_bytes()
    gone.unlink()
    newer = keys.file(keys.change("U", 3, "newer", more=False))
    (batch,) = keys.apply(late, newer)
    assert keys.rows == {1: "v1", 2: "applied", 3: "newer"}
    assert batch.files_quarantined == 1
    (held,) = keys.bench.lake.runtime.quarantine.open("silver_shop.items")
    assert held.key == late.key
    assert (
        f"it arrived late, and {applied.key}, without which its changes cannot be applied, is gone"
        in held.reason
    )
    gone.write_bytes(content)
    retry(keys.bench.lake.runtime, [held])
    keys.bench.apply()
    assert keys.rows == {1: "late", 2: "applied", 3: "newer"}
    assert keys.bench.lake.runtime.quarantine.open("silver_shop.items") == []
