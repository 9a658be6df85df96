"""The expected rows of a table, given all of its DMS files: replayed one change after the other, in plain Python.

Here: the slow, obvious computation: a dictionary of rows is changed as the source's table was. It deliberately shares
nothing with the engine's rule (the last event of each key).
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from lake_assets_tests.helpers.files.dms_files import DmsFile, Row

Rows = list[dict[str, Any]]
"""In no particular order."""


def current(
    files: Iterable[DmsFile], columns: Sequence[str], key: Sequence[str], kept: Sequence[str] = ()
) -> Rows:
    """The rows of a table that has a key. `files` are the bucket's content: of a reload, its own LOAD files only.
    `kept`: columns in which a NULL of an update says nothing."""
    table: dict[tuple[Any, ...], dict[str, Any]] = {}
    for change in changes(files):
        now = tuple(change[name] for name in key)
        if change.get("Op", "I") == "D":
            table.pop(now, None)
            continue
        row = {name: change.get(name) for name in columns}
        if change.get("Op", "I") == "U":
            before = tuple(change.get(f"BI_{name}") for name in key)
            was = tuple(b if b is not None else n for b, n in zip(before, now, strict=True))
            row = with_kept(row, table.pop(was, None) or table.get(now), kept)
        table[now] = row
    return list(table.values())


def with_kept(row: dict[str, Any], before: Row | None, kept: Sequence[str]) -> dict[str, Any]:
    """The row after an update, in which a NULL of the columns `kept` stands for the value of the row before."""
    return row | {name: (before or {}).get(name) for name in kept if row[name] is None}


def full_row(files: Iterable[DmsFile], columns: Sequence[str]) -> Rows:
    """The rows of a table without a key, in which a row may be there more than once."""
    table: Rows = []
    for change in changes(files):
        now = {name: change.get(name) for name in columns}
        if change.get("Op", "I") == "D":
            if now in table:
                table.remove(now)
            continue
        if change.get("Op", "I") == "U":
            before = {name: change.get(f"BI_{name}") for name in columns}
            if before in table:
                table.remove(before)
        table.append(now)
    return table


def append_log(files: Iterable[DmsFile], columns: Sequence[str]) -> Rows:
    """Every row ever inserted."""
    return [{name: change.get(name) for name in columns} for change in changes(files)]


def change_log(files: Iterable[DmsFile], columns: Sequence[str]) -> Rows:
    """Every change, and the rows of the full load as inserts without a sequence."""
    return [
        {
            "_op": change.get("Op", "I"),
            "_commit_ts": change["commit_ts"],
            "_sequence": change.get("change_seq") or "",
            **{name: change.get(name) for name in columns},
        }
        for change in changes(files, superseded=True)
    ]


def changes(files: Iterable[DmsFile], *, superseded: bool = False) -> Iterator[Row]:
    """The full load's rows, then each change once, in the order in which they happened. `superseded`: also the files
    that were written before the full load began, which holds what they say."""
    files = list(files)
    loads = sorted((file for file in files if file.is_load), key=lambda file: file.key)
    yield from (row for file in loads for row in file.rows)
    began = load_began(loads)
    found: list[tuple[tuple[Any, ...], Row]] = []
    delivered: set[str] = set()
    for file in sorted((file for file in files if not file.is_load), key=lambda file: file.name):
        if began is not None and file.flushed < began and not superseded:
            continue
        for number, row in enumerate(file.rows):
            sequence = row.get("change_seq")
            if sequence is None:
                found.append(((row["commit_ts"], file.name, number), row))
            elif sequence not in delivered:
                delivered.add(sequence)
                found.append(((sequence,), row))
    yield from (row for _, row in sorted(found, key=lambda entry: entry[0]))


def load_began(loads: Sequence[DmsFile]) -> datetime | None:
    """When the first row of a full load was transferred."""
    return min((row["commit_ts"] for file in loads for row in file.rows), default=None)
