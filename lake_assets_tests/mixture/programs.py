"""The processes of the mixture: `sync` again and again, and readers of every table.

`python -m lake_assets_tests.mixture.programs KIND FOLDER SEED` until the file `over` is in the folder. A reader writes
a line of JSON for each read into `reads-KIND.jsonl`, `sync` one for each call into `calls-sync.jsonl`. Here: these. Not
here: judging what was read (`verdict.py`).
"""

import contextlib
import hashlib
import json
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.upkeep.table_maintenance import Maintained
from lake_assets.lake import open_lake
from lake_assets.rounds.due_maintenance import TableUpkeep
from lake_assets.spark.sql import sql, table_address
from lake_assets_tests.helpers.lakes.bench import comparable
from lake_assets_tests.helpers.lakes.command_lake import call
from lake_assets_tests.mixture.people import CITIES, DAYS, KEEP_SECONDS, SILVER

READ = (SILVER, SILVER, SILVER, f"{SILVER}_changes", f"{SILVER}_history", CITIES, DAYS)
HOLDS = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 3.0)
"""Times of KEEP_SECONDS for which a reader keeps a snapshot before it reads it."""
Reader = Callable[[Table, str, int], pa.Table]
"""Reads a table, whose name in the catalog is given, at a snapshot."""


def by_pyiceberg(table: Table, name: str, snapshot: int) -> pa.Table:
    """PyIceberg alone."""
    return table.scan(snapshot_id=snapshot).to_arrow()


def by_duckdb(table: Table, name: str, snapshot: int) -> pa.Table:
    """DuckDB, through PyIceberg."""
    return table.scan(snapshot_id=snapshot).to_duckdb("rows").sql("FROM rows").to_arrow_table()


def by_spark(folder: Path) -> Reader:
    """A Spark of the same server."""
    lake = open_lake(load_lake(folder / "lake.yaml", environ={}), marts=())

    def read(table: Table, name: str, snapshot: int) -> pa.Table:
        with lake.runtime.sessions.isolated() as spark:
            # Instants are compared as instants, whatever the zone of this machine.
            spark.conf.set("spark.sql.session.timeZone", "UTC")
            at = sql(
                "SELECT * FROM {table} VERSION AS OF {id}", table=table_address("lake", name), id=snapshot
            )
            return spark.sql(at).toArrow()

    return read


def digest(rows: list[dict[str, Any]]) -> str:
    """Of rows in any order, the same for equal values only."""
    return hashlib.sha256("\n".join(comparable(rows)).encode()).hexdigest()


def reads(folder: Path, kind: str, seed: int, record: Callable[[dict[str, Any]], None]) -> None:
    """Reads random tables until it is over."""
    random = Random(f"{seed} {kind}")
    uri = f"sqlite:///{folder / 'catalog.db'}"
    catalog = load_catalog("lake", type="sql", uri=uri, warehouse=str(folder / "warehouse"))
    ways: list[Reader] = [by_spark(folder)] if kind == "spark" else [by_pyiceberg, by_duckdb]
    while not (folder / "over").exists():
        name = random.choice(READ)
        began = time.time()
        found: dict[str, Any] = {"table": name, "began": began, "held": 0.0}
        try:
            table = catalog.load_table(name)
            snapshot = table.current_snapshot()
            if snapshot is None:
                continue
            found |= {"snapshot": snapshot.snapshot_id, "chain": _chain(table)}
            found["held"] = random.choice(HOLDS) * KEEP_SECONDS
            time.sleep(found["held"])
            rows = random.choice(ways)(table, name, snapshot.snapshot_id).to_pylist()
            found |= {"rows": len(rows), "digest": digest(rows)}
        except Exception as error:  # noqa: BLE001  (the verdict judges it)
            found["error"] = f"{type(error).__name__}: {error}"[:2000]
        record(found | {"ended": time.time()})
        time.sleep(random.uniform(0, 0.5))


def _chain(table: Table) -> list[tuple[int, int | None, int | None, dict[str, int]]]:
    """Of each snapshot its id, its parent, the position that it has, and the snapshots that a mart has consumed."""
    found = []
    for one in table.metadata.snapshots:
        told = one.summary.additional_properties if one.summary is not None else {}
        consumed = {k[19:]: int(v) for k, v in told.items() if k.startswith("lake.mart.consumed.")}
        offset = told.get("lake.log-offset")
        found.append(
            (one.snapshot_id, one.parent_snapshot_id, None if offset is None else int(offset), consumed)
        )
    return found


def syncs(folder: Path, seed: int, record: Callable[[dict[str, Any]], None]) -> None:
    """Calls `sync` until it is over, and `maintain` now and then."""
    random, maintained = Random(f"{seed} sync"), list[str]()
    run = TableUpkeep.run

    def noted(one: TableUpkeep) -> Maintained:
        maintained.append(f"{one.table}: {one.reason}")
        return run(one)

    with patch.object(TableUpkeep, "run", noted):
        while not (folder / "over").exists():
            words = ["maintain"] if random.random() < 0.05 else ["sync"]
            out, began = StringIO(), time.time()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                code = call(folder, *words)
            told = {"words": words, "code": code, "said": out.getvalue()[-3000:], "maintained": [*maintained]}
            record(told | {"began": began, "ended": time.time()})
            maintained.clear()
            time.sleep(random.choice((0.0, 0.0, 1.0, 4.0)))


def main(kind: str, folder: Path, seed: int) -> None:
    """One of the processes."""
    name = "calls-sync" if kind == "sync" else f"reads-{kind}"
    with (folder / f"{name}.jsonl").open("a", encoding="utf-8") as lines:

        def record(found: dict[str, Any]) -> None:
            lines.write(f"{json.dumps(found)}\n")
            lines.flush()

        if kind == "sync":
            syncs(folder, seed, record)
        else:
            reads(folder, kind, seed, record)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
