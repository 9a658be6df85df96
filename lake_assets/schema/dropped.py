"""Columns that the source has dropped while lake.yaml still has them: they are NULL from then on.

Here: since when, by the time of the files and not by their arrival, because a late file may be older than the drop, or
older than the column. Not here: the effect of a drop on NOT NULL and on the key (`evolve.py`). Pure.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from lake_assets.bronze.files.parquet_columns import parquet_columns
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import Policy, SchemaChanges
from lake_assets.schema.contract import Contract

_NEVER = datetime.max.replace(tzinfo=UTC)


def first_seen(logged: Iterable[LoggedFile]) -> dict[str, datetime]:
    """For each column, when the oldest file that has it was written; UTC."""
    oldest: dict[tuple[str, tuple[str, ...]], datetime] = {}
    for file in logged:
        if file.columns is not None:
            layout = file.format, file.columns
            oldest[layout] = min(file.written_at, oldest.get(layout, _NEVER))
    found: dict[str, datetime] = {}
    for (form, columns), at in oldest.items():
        for name in _names(form, columns):
            found[name] = min(at, found.get(name, _NEVER))
    return found


def newly_dropped(
    contract: Contract, file: LoggedFile, seen: Mapping[str, datetime], policies: SchemaChanges
) -> dict[str, datetime]:
    """The columns that, by this file, were dropped earlier than the contract records, and since when. With the policy
    `ignore`, and for JSON lines, whose objects omit NULL, only columns with a default: the default would otherwise
    apply."""
    if file.columns is None:
        return {}
    has, at = _names(file.format, file.columns), file.written_at
    unreported = policies.dropped is Policy.IGNORE or file.format == "json"
    found = {}
    for column in contract.columns:
        names = {column.name, contract.renamed_from.get(column.name, column.name)}
        first = min(seen.get(name, _NEVER) for name in names)
        news = first < at < contract.dropped_at.get(column.name, _NEVER)
        if news and not names & has and (column.name in contract.defaults or not unreported):
            found[column.name] = at
    return found


@lru_cache(4096)
def _names(form: str, columns: tuple[str, ...]) -> frozenset[str]:
    return frozenset(c.name for c in parquet_columns(columns)) if form == "parquet" else frozenset(columns)
