"""Changes to a lake from outside: to objects, the file log, the contracts, silver, `lake.yaml`.

Here: one function for each action, which returns a description, or None if the action is not possible. Not here: when
they happen, and the expected state after them (`run.py`).
"""

import gzip
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.exceptions import NoSuchTableError

from lake_assets.iceberg.table_io import load_table
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets_tests.helpers.lakes.bench import main_snapshots

LOG, CONTRACTS = "lake_ops.bronze_files", "lake_ops.contracts"


@dataclass
class Place:
    """A lake that is acted on."""

    used: Lake
    folder: Path
    random: Random
    removed: dict[Path, bytes] = field(default_factory=dict)
    """Files that were expired, to be put back."""

    @property
    def objects(self) -> list[Path]:
        found = (self.folder / "bronze").rglob("*")
        return sorted(p for p in found if p.is_file() and not p.name.startswith("."))

    def table(self, name: str = "items") -> str:
        return f"silver_shop.{name}"

    def sql(self, statement: str) -> None:
        with self.used.runtime.sessions.isolated() as spark:
            spark.sql(statement)

    @property
    def catalog(self) -> str:
        return self.used.runtime.lake.catalog.name


Action = Callable[[Place], str | None]


def compress(place: Place) -> str | None:
    """Some CSV objects become `.csv.gz`."""
    found = [p for p in place.objects if p.name.endswith(".csv") and "CDC_TXN" not in p.name]
    chosen = _some(place, found)
    for path in chosen:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    return f"compressed {len(chosen)} objects" if chosen else None


def compress_again(place: Place) -> str | None:
    """Some compressed objects get other bytes and the same content."""
    chosen = _some(place, [p for p in place.objects if p.name.endswith(".csv.gz")])
    for path in chosen:
        content = gzip.decompress(path.read_bytes())
        path.write_bytes(gzip.compress(content, compresslevel=place.random.choice([1, 3, 9]), mtime=1))
    return f"compressed {len(chosen)} objects again" if chosen else None


def encode_again(place: Place) -> str | None:
    """Some Parquet objects get another encoding, with the same rows."""
    chosen = _some(place, [p for p in place.objects if p.name.endswith(".parquet")])
    for path in chosen:
        codec = place.random.choice(["gzip", "zstd", "snappy"])
        pq.write_table(pq.read_table(path), path, compression=codec)
    return f"encoded {len(chosen)} objects again" if chosen else None


def touch(place: Place) -> str | None:
    """Some objects, or all, are copied in place."""
    chosen = place.objects if place.random.random() < 0.3 else _some(place, place.objects)
    for path in chosen:
        os.utime(path, (time.time(), time.time()))
    return f"touched {len(chosen)} objects" if chosen else None


def copy(place: Place) -> str | None:
    """Some CSV objects exist twice: also compressed."""
    chosen = _some(place, [p for p in place.objects if p.name.endswith(".csv") and "CDC_TXN" not in p.name])
    for path in chosen:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    return f"copied {len(chosen)} objects" if chosen else None


def rename(place: Place) -> str | None:
    """Some full-load parts are moved to a separate folder, as in a parallel load."""
    chosen = _some(
        place, [p for p in place.objects if p.name.startswith("LOAD") and p.parent.name == "items"]
    )
    for path in chosen:
        moved = path.parent / "moved" / path.name
        moved.parent.mkdir(exist_ok=True)
        path.replace(moved)
    return f"renamed {len(chosen)} objects" if chosen else None


def expire_files(place: Place) -> str | None:
    """The oldest objects, but never all, are deleted, as by a lifecycle rule."""
    log = [f for f in place.used.runtime.file_log.files("shop", "public.items") if f.flush_time]
    positions = _positions(place)
    applied = [f for f in log if positions and f.offset <= min(positions)]
    chosen = sorted(applied, key=lambda f: f.key)[: max(0, len(applied) - 1)]
    chosen = chosen[: place.random.randint(0, len(chosen))]
    done = 0
    for file in chosen:
        path = place.folder / "bronze" / file.key
        if path.exists() and "CDC_TXN" not in path.name:
            place.removed[path] = path.read_bytes()
            path.unlink()
            done += 1
    return f"expired {done} objects" if done else None


def _positions(place: Place) -> list[int]:
    from lake_assets.silver.table.position import PositionLost, read_position

    found = []
    for target in place.used.targets:
        table = load_table(place.used.runtime.catalog, target.identifier)
        if table is None:
            return [0]
        try:
            found.append(read_position(table).log_offset)
        except PositionLost:
            return [0]
    return found


def drop_log(place: Place) -> str | None:
    """The file log is dropped; its files remain. Not before every table has a position: until then only the log has the
    parts from before a reload, and parts of two loads a few minutes apart look like one load."""
    return _dropped(place, LOG) if all(_positions(place)) else None


def purge_log(place: Place) -> str | None:
    """The file log is dropped with its files."""
    table = load_table(place.used.runtime.catalog, LOG)
    if table is None or not all(_positions(place)):
        return None
    folder = Path(table.location().removeprefix("file://"))
    place.used.runtime.catalog.drop_table(LOG)
    shutil.rmtree(folder)
    return "purged the file log"


def roll_back_log(place: Place) -> str | None:
    """The file log goes back some commits."""
    return _rolled_back(place, LOG) if all(_positions(place)) else None


def drop_contracts(place: Place) -> str | None:
    """The contracts are dropped; their files stay, or go."""
    table = load_table(place.used.runtime.catalog, CONTRACTS)
    if table is None:
        return None
    folder = Path(table.location().removeprefix("file://"))
    place.used.runtime.catalog.drop_table(CONTRACTS)
    if place.random.random() < 0.5:
        shutil.rmtree(folder)
    return "dropped the contracts"


def roll_back_silver(place: Place) -> str | None:
    """A silver table goes back some commits."""
    return _rolled_back(place, place.table())


def insert(place: Place) -> str | None:
    """Another writer doubles a row of silver."""
    if not _has_rows(place):
        return None
    name = f"{place.catalog}.{place.table()}"
    place.sql(f"INSERT INTO {name} SELECT * FROM {name} LIMIT 1")
    return "inserted a row into silver"


def delete(place: Place) -> str | None:
    """Another writer deletes rows of silver."""
    if not _has_rows(place):
        return None
    place.sql(f"DELETE FROM {place.catalog}.{place.table()}")
    return "deleted the rows of silver"


def compact(place: Place) -> str | None:
    """Another tool compacts silver."""
    if not _has_rows(place):
        return None
    place.sql(
        f"CALL {place.catalog}.system.rewrite_data_files(table => '{place.table()}', "
        "options => map('rewrite-all', 'true'))"
    )
    return "compacted silver"


def compact_and_expire(place: Place) -> str | None:
    """Another tool compacts silver and expires all other snapshots: the position is gone."""
    if compact(place) is None:
        return None
    expire(place)
    return "compacted silver and expired its snapshots"


def expire(place: Place) -> str:
    """Another tool expires all snapshots of silver but the newest one. By itself no action of the histories: the newest
    one has the position."""
    place.sql(
        f"CALL {place.catalog}.system.expire_snapshots(table => '{place.table()}', "
        "older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 1)"
    )
    return "expired silver's snapshots"


def edit_settings(place: Place) -> str | None:
    """An operator edits lake.yaml: the files of a batch and a table's partitions."""
    from lake_assets.orchestration.lake_definitions import open_lake

    config = place.used.config
    automation = config.automation.model_copy(
        update={"max_files_per_batch": place.random.choice([1, 2, 100])}
    )
    source = config.sources["shop"]
    table = source.tables["public.items"].model_copy(update={"description": f"{place.random.random()}"})
    sources = {"shop": source.model_copy(update={"tables": source.tables | {"public.items": table}})}
    changed = config.model_copy(update={"automation": automation, "sources": sources})
    place.used = open_lake(changed, marts=place.used.marts)
    return "edited lake.yaml"


ACTIONS: dict[str, Action] = {
    action.__name__: action
    for action in (
        *(compress, compress_again, encode_again, touch, copy, rename, expire_files),
        *(drop_log, purge_log, roll_back_log, drop_contracts),
        *(roll_back_silver, insert, delete, compact, compact_and_expire, edit_settings),
    )
}


def _some(place: Place, found: list[Path]) -> list[Path]:
    return sorted(place.random.sample(found, place.random.randint(1, len(found)))) if found else []


def _dropped(place: Place, identifier: str) -> str | None:
    try:
        place.used.runtime.catalog.drop_table(identifier)
    except NoSuchTableError:
        return None
    return f"dropped {identifier}"


def _rolled_back(place: Place, identifier: str) -> str | None:
    table: Any = load_table(place.used.runtime.catalog, identifier)
    chain = (
        [snapshot.snapshot_id for snapshot in reversed(main_snapshots(table))] if table is not None else []
    )
    if len(chain) < 2:
        return None
    back = place.random.randint(1, len(chain) - 1)
    if identifier == LOG:
        table.manage_snapshots().rollback_to_snapshot(chain[back]).commit()
    else:
        place.sql(f"CALL {place.catalog}.system.rollback_to_snapshot('{identifier}', {chain[back]})")
    return f"rolled {identifier} back by {back} commits"


def _has_rows(place: Place) -> bool:
    table = load_table(place.used.runtime.catalog, place.table())
    return table is not None and table.current_snapshot() is not None and len(table.scan().to_arrow()) > 0
