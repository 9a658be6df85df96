"""What is wrong after the mixture: reads that differ from the source or failed, tables, marts, traces of the erased.

Here: that. Not here: the order of things (`__main__.py`).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lake_assets.lake import Lake
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets_tests.commands.erase.people import left_of
from lake_assets_tests.helpers.files.dms_files import DmsFile
from lake_assets_tests.helpers.lakes.bench import comparable
from lake_assets_tests.helpers.oracles import oracle
from lake_assets_tests.mixture.people import (
    CITIES,
    COLUMNS,
    DAYS,
    KEEP_SECONDS,
    SILVER,
    by_city,
    by_day,
    rows_at,
    secret,
)
from lake_assets_tests.mixture.programs import digest

Erasures = Sequence[tuple[float, float, Sequence[int]]]
"""When each began and ended, by the clock of the machine, and its keys."""
GONE = ("FileNotFoundError", "NotFoundException", "No such file", "Cannot find snapshot", "does not exist")
"""How engines say that the files of a snapshot are gone."""


@dataclass
class Judged:
    """The reads of all readers."""

    compared: int = 0
    expired: int = 0
    """Reads of snapshots that had gone after `keep_snapshots`."""
    purged: int = 0
    """Reads of snapshots that an erasure has removed meanwhile."""
    wrong: list[str] = field(default_factory=list)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The records of a process."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def judged(
    reads: Sequence[Mapping[str, Any]], files: list[DmsFile], offsets: Mapping[str, int], erasures: Erasures
) -> Judged:
    """Judges each read. `offsets`: by key of a file, its offset."""
    found, known = Judged(), dict[int, tuple[int | None, int | None, dict[str, int]]]()
    for read in reads:
        known |= {each[0]: (each[1], each[2], each[3]) for each in read.get("chain", ())}

    def position(snapshot: int | None) -> int | None:
        while snapshot is not None and snapshot in known:
            parent, offset, _ = known[snapshot]
            if offset is not None:
                return offset
            snapshot = parent
        return None

    expected = dict[tuple[str, int], str]()
    for read in reads:
        table, who = read["table"], f"{read['table']}, read from {read['began']:.1f} to {read['ended']:.1f}"
        if "error" in read:
            is_gone = any(text in read["error"] for text in GONE)
            if is_gone and any(b <= read["ended"] and read["began"] <= e for b, e, _ in erasures):
                found.purged += 1
            elif is_gone and read["ended"] - read["began"] > KEEP_SECONDS:
                found.expired += 1
            else:
                found.wrong.append(f"{who}: {read['error']}")
            continue
        if table not in (SILVER, CITIES):
            continue
        consumed = known[read["snapshot"]][2].get(SILVER) if table == CITIES else read["snapshot"]
        if (at := position(consumed)) is None:
            continue
        if (table, at) not in expected:
            rows = rows_at(files, offsets, at)
            expected[table, at] = digest(rows if table == SILVER else by_city(rows))
        found.compared += 1
        if read["digest"] != expected[table, at]:
            found.wrong.append(f"{who}: its {read['rows']} rows are not those of the source at offset {at}")
    return found


def differences(lake: Lake, files: list[DmsFile], erased: Sequence[int], folder: Path) -> Iterator[str]:
    """What the tables, the marts and the bytes are, and should not be."""
    left = [DmsFile(file.key, tuple(row for row in file.rows if row["id"] not in erased)) for file in files]
    rows = oracle.current(left, list(COLUMNS), ["id"])
    logged = oracle.change_log(left, list(COLUMNS))
    tables = {SILVER: rows, f"{SILVER}_changes": logged, CITIES: by_city(rows), DAYS: by_day(rows)}
    for name, expected in tables.items():
        found = lake.runtime.catalog.load_table(name).scan().to_arrow().to_pylist()
        if comparable(found) != comparable(expected):
            yield f"{name} has {len(found)} rows, which are not the {len(expected)} of the source"
    for target in lake.targets:
        if not rebuild(lake.runtime, target, publish=False).equal:
            yield f"{target.identifier} is not what its files give"
    values = re.compile("|".join(map(secret, erased)).encode() or b"(?!)")
    for path in left_of(values, folder / "bronze", folder / "warehouse"):
        yield f"{path} has something of somebody who was erased"
