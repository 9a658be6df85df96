"""The source of the stored lakes: its tables, and its files in the order in which they arrive.

Here: what the release that writes a lake and today's code both see. A change here needs the stored lakes to be written
again, by `write.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from lake_assets_tests.helpers.files.dms_files import (
    NOON,
    Clock,
    DmsFile,
    cdc_file,
    csv_bytes,
    load_file,
    put,
)

DMS = {
    "add_column_name": True,
    "include_op_for_full_load": True,
    "timestamp_column_name": "commit_ts",
    "change_sequence_column": "change_seq",
    "before_image_prefix": "BI_",
}
_KEYED = {"columns": {"id": "long not null", "v": "string"}, "primary_key": ["id"]}
TABLES: Mapping[str, Mapping[str, Any]] = {
    "public.items": {**_KEYED, "also": ["history", "change_log"]},
    "public.notes": {**_KEYED, "mode": "soft_delete"},
    "public.readings": {"columns": {"n": "long", "v": "string"}, "mode": "full_row"},
    "public.visits": {
        "columns": {"at": "timestamptz not null", "page": "string not null"},
        "mode": "append_log",
        "partition_by": ["day(at)"],
    },
    "public.grown": _KEYED,
}
ADDED = ("colour", "size")
"""Columns of `public.grown` that its files have from the second step on, and from the step SCANNED on."""
BAD_ROW = ("public/items/20260301-121100000.csv", "Op,commit_ts,id,v,change_seq,BI_id\nI,no time,9,bad,,\n")
"""A file with a row for the quarantine, which the oracle does not know of."""
MAINTAINED = 1
"""After this step, the release maintains the lake."""
SCANNED = 3
"""The files of this step are logged and not applied. That of `public.grown` has a column that lake.yaml lacks."""


def with_columns(added: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """The tables, with these columns added to `public.grown`."""
    grown = TABLES["public.grown"]
    columns = {**grown["columns"], **dict.fromkeys(added, "string")}
    return {**TABLES, "public.grown": {**grown, "columns": columns}}


def columns_of(file: DmsFile) -> tuple[list[str], list[str]]:
    """The columns and the key of a file."""
    table = TABLES[".".join(file.key.split("/")[:2])]
    columns = [*table["columns"], *(name for name in ADDED if name in file.rows[0])]
    key = list(table["columns"]) if table.get("mode") == "full_row" else list(table.get("primary_key", ()))
    return columns, key


def write(folder: Path, files: Sequence[DmsFile]) -> None:
    """The files land in the bucket."""
    for file in files:
        put(folder, file.key, csv_bytes(file, *columns_of(file), DMS))


def steps() -> Iterator[list[DmsFile]]:
    """The files that arrive together, step by step. The last step is for today's code."""
    clock = Clock(NOON + timedelta(minutes=5))
    rows = [{"id": number, "v": f"loaded {number}"} for number in range(1, 8)]
    visits = [{"at": NOON + timedelta(hours=7 * number), "page": f"/{number}"} for number in range(8)]
    yield [
        *(load_file(f"public.{name}", rows) for name in ("items", "notes", "grown")),
        load_file("public.readings", [{"n": row["id"], "v": row["v"]} for row in rows]),
        load_file("public.visits", visits),
    ]
    for step in range(1, 5):
        clock.now += timedelta(minutes=5)
        keyed = [
            clock.change("U", {"id": 1, "v": f"step {step}"}),
            clock.change("I", {"id": 100 + step, "v": "new"}),
            clock.change("U", {"id": 200 + step, "v": "moved"}, {"id": 100 + step}),
            clock.change("D", {"id": 1 + step, "v": None}),
        ]
        wide: dict[str, Any] = {"colour": f"red {step}"}
        wide |= {"size": f"{step}"} if step >= SCANNED else {}
        yield [
            *(cdc_file(f"public.{name}", clock.now, keyed) for name in ("items", "notes")),
            cdc_file("public.grown", clock.now, [row | wide for row in keyed]),
            cdc_file(
                "public.readings",
                clock.now,
                [
                    clock.change("I", {"n": 1, "v": "loaded 1"}),
                    clock.change("D", {"n": 1 + step, "v": f"loaded {1 + step}"}),
                ],
            ),
            cdc_file(
                "public.visits",
                clock.now,
                [clock.change("I", {"at": NOON + timedelta(days=step), "page": f"/step/{step}"})],
            ),
        ]
