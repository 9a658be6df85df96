"""The expected rows of the shapes that keep the past, given all of a table's DMS files, replayed one after the other.

Here: the slow, obvious computation of `history` and `soft_delete`: the source's whole table is stored at every commit
time, and consecutive states are compared. It shares nothing with the engine's rule.

A reloaded table has several stages: the files that existed when the next full load was applied; the last stage has the
files of the bucket. The changes of a stage after the start of the next load do not count.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from lake_assets_tests.helpers.files.dms_files import DmsFile, Row
from lake_assets_tests.helpers.oracles.oracle import Rows, changes, load_began, with_kept

Key = tuple[Any, ...]
Stages = Sequence[Sequence[DmsFile]]
Kept = Mapping[str, bool]


def history(stages: Stages, columns: Sequence[str], key: Sequence[str], kept: Kept | None = None) -> Rows:
    """Every version of every row. `kept`: columns in which a NULL of an update says nothing, and whether each of them
    may be NULL."""
    instants: list[datetime] = []
    tables: list[dict[Key, dict[str, Any]]] = []
    for at, table in _steps(stages, columns, key, kept or {}):
        if instants and instants[-1] == at:
            tables[-1] = table
        else:
            assert not instants or instants[-1] < at, "the clock of these tests does not go back"
            instants.append(at)
            tables.append(table)
    found: list[dict[str, Any]] = []
    open_versions: dict[Key, dict[str, Any]] = {}
    for at, (before, now) in zip(instants, pairwise([{}, *tables]), strict=True):
        for place in before.keys() | now.keys():
            if repr(before.get(place)) == repr(now.get(place)):
                continue
            if place in before:
                open_versions.pop(place).update(_valid_to=at, _is_current=False)
            if place in now:
                version = {**now[place], "_valid_from": at, "_valid_to": None, "_is_current": True}
                open_versions[place] = version
                found.append(version)
    return found


def soft_delete(stages: Stages, columns: Sequence[str], key: Sequence[str], kept: Kept | None = None) -> Rows:
    """A row for every key that ever lived. `kept`: as for `history`."""
    rows: dict[Key, dict[str, Any]] = {}
    alive: dict[Key, dict[str, Any]] = {}
    for at, table in _steps(stages, columns, key, kept or {}):
        for place in alive.keys() - table.keys():
            rows[place].update(_is_deleted=True, _deleted_at=at)
        for place, row in table.items():
            rows[place] = {**row, "_is_deleted": False, "_deleted_at": None}
        alive = table
    return list(rows.values())


def _steps(
    stages: Stages, columns: Sequence[str], key: Sequence[str], kept: Kept
) -> Iterator[tuple[datetime, dict[Key, dict[str, Any]]]]:
    """The whole table after the full load and after each change, with the instant that this is taken to happen at."""
    begins = [load_began([file for file in files if file.is_load]) for files in stages]
    table: dict[Key, dict[str, Any]] = {}
    for files, began, ends in zip(stages, begins, [*begins[1:], None], strict=True):
        # A row that the load does not have may have been there when it began, and have been deleted meanwhile.
        former, table = table, {}
        loaded = sum(len(file.rows) for file in files if file.is_load)
        for number, change in enumerate(changes(files)):
            now = tuple(change[name] for name in key)
            if number < loaded:
                table[now] = {name: change.get(name) for name in columns}
                former.pop(now, None)
                if number == loaded - 1:
                    assert began is not None
                    yield began, dict(table)
                continue
            at = change["commit_ts"] if began is None else max(began, change["commit_ts"])
            if ends is not None and at >= ends:
                continue
            if change["Op"] == "D":
                table.pop(now, None)
                former.pop(now, None)
                yield at, _known(table, kept)
                continue
            row = {name: change.get(name) for name in columns}
            # Where a row is already that another moves to, the load has read it after that.
            there, moved_from = table.get(now), _moved_from(change, key) or now
            before = there or table.get(moved_from) or former.get(moved_from)
            table.pop(moved_from, None)
            former.pop(moved_from, None)
            if change["Op"] == "U":
                row = with_kept(row, before, [*kept])
            table[now] = row
            yield at, _known(table, kept)


def _known(table: Mapping[Key, dict[str, Any]], kept: Kept) -> dict[Key, dict[str, Any]]:
    """Without the rows that lack a value which they must have: they were gone when the load read the table."""
    needed = [name for name, may_be_null in kept.items() if not may_be_null]
    return {key: row for key, row in table.items() if all(row[name] is not None for name in needed)}


def _moved_from(change: Row, key: Sequence[str]) -> Key | None:
    before = tuple(change.get(f"BI_{name}") for name in key)
    if change["Op"] != "U" or all(value is None for value in before):
        return None
    return tuple(change[name] if b is None else b for b, name in zip(before, key, strict=True))
