"""The folders of a silver table's rows, against those that lake.yaml joins to it.

A table's position says that all of its files up to an offset are applied. Which files are the table's depends on
`folders` and `ignore_case`, and these may change after the files were logged: the log has records of every name in a
transaction file, and of every folder that once was a table's. So each commit has the rule beside its position. Here:
what the table lacks or has too much when the rule has changed. Pure. Not here: the rule (`folder_rule.py`).
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import FolderRule, Mode, TableName
from lake_assets.errors import Remedy, TableStopped
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.targets import Target
from lake_assets.words import many

KEEPING_THE_PAST = frozenset({Mode.CHANGE_LOG, Mode.SOFT_DELETE, Mode.HISTORY})
"""Shapes that may have rows which their present files do not give."""
MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class FolderChange:
    """What a change of the rule means for a table's rows; the records are the log's, of each name in a transaction
    file."""

    passed: tuple[LoggedFile, ...]
    """Those that the table has passed as its own."""
    lacking: tuple[LoggedFile, ...]
    """Those that became the table's after it had passed their files."""
    left: tuple[LoggedFile, ...]
    """Those that it has passed as its own, and that are not its own any more."""
    upto: int
    """The offset up to which its present files are those that it has passed; 0 if none of them is its own."""


def folder_change(target: Target, position: Position, records: Iterable[LoggedFile]) -> FolderChange:
    """What a change of the rule since the position's commit means. `records`: those of the table's source."""
    before = _before(target, position)
    own, passed = [], []
    for record in records:
        if record.qualified_table == target.table:
            own.append(record)
        if record.offset <= position.log_offset and before.joins(TableName(*record.stream)):
            passed.append(record)
    known = {record.offset for record in passed}
    # A file that it has passed may have records above its position now.
    entries = {record.entry for record in passed}
    entries |= {record.entry for record in own if record.offset <= position.log_offset}
    reached = [record for record in own if record.entry in entries]
    kept = {record.offset for record in reached}
    return FolderChange(
        tuple(passed),
        tuple(r for r in reached if r.offset not in known and r.kind is not FileKind.VANISHED),
        tuple(r for r in passed if r.offset not in kept and r.kind is not FileKind.VANISHED),
        max(kept, default=0),
    )


def lacking_rows(target: Target, lacking: Sequence[LoggedFile]) -> str:
    """The sentence about rows that the table lacks."""
    return (
        f"{target.identifier} lacks the rows of {_named(lacking)}: lake.yaml joins them to {target.table} "
        f"({_said(target.folder_rule)}) only since their files were logged, {_keys(lacking)}."
    )


def other_folders(target: Target, position: Position, change: FolderChange | None) -> TableStopped | None:
    """The error for a table that was computed from other folders than lake.yaml gives it; None for any other."""
    if change is None:
        return None
    if change.left:
        before, now = _said(_before(target, position)), _said(target.folder_rule)
        return TableStopped(
            target.table,
            f"{target.identifier} has the rows of {_named(change.left)}, from {_keys(change.left)}, and lake.yaml "
            f"no longer joins them to {target.table}: it had {before}, and now has {now}.",
            f"Put it back, or run `lake-assets rebuild {target.argument}` to compute the table again without "
            "these rows.",
        )
    if change.lacking:
        return TableStopped(
            target.table,
            lacking_rows(target, change.lacking),
            f"Run `lake-assets rebuild {target.argument}` to compute the table again with them.",
        ).mended_by(Remedy.REBUILD)
    return None


def _before(target: Target, position: Position) -> FolderRule:
    return FolderRule.parse(target.folder_rule.table, position.folders)


def _named(records: Sequence[LoggedFile]) -> str:
    names = sorted({str(TableName(*record.stream)) for record in records})
    more = f" and {many(len(names) - MOST_NAMES, 'more table')}" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _keys(records: Sequence[LoggedFile]) -> str:
    keys = list(dict.fromkeys(record.key for record in records))
    return keys[0] if len(keys) == 1 else f"{many(len(keys), 'file')}, the first of them {keys[0]}"


def _said(rule: FolderRule) -> str:
    """The rule as in lake.yaml."""
    globs = f"folders: {json.dumps(list(rule.globs), ensure_ascii=False)}" if rule.globs else "no folders"
    return f"{globs} and ignore_case: true" if rule.ignore_case else globs
