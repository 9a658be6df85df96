"""What an erasure would remove, and why it cannot be done yet. Changes nothing.

Here: the plan and its refusals. Not here: carrying it out (`erase.py`), printing (`erase_cli.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo, In, Reference
from pyiceberg.expressions.literals import literal

from lake_assets.bronze.files.content import UnreadableFile
from lake_assets.bronze.files.keys import DataFile
from lake_assets.bronze.scan.table_folders import TableFolders
from lake_assets.bronze.stream.orphans import is_own_object
from lake_assets.config import Mode
from lake_assets.errors import LakeError
from lake_assets.iceberg.erasure_log import ErasureLog
from lake_assets.iceberg.table_io import current_snapshot, load_table
from lake_assets.lake import Lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.erase.erased_keys import ErasedKeys
from lake_assets.silver.erase.found_rows import FoundRows, files_of, found_rows
from lake_assets.silver.table.position import read_position
from lake_assets.silver.table.targets import Target
from lake_assets.words import many

MOST_NAMED = 5
"""Files and keys that a refusal names."""
LANDED_AGO = timedelta(minutes=10)
"""A reader of a stream logs the files that it has written within seconds."""
AT_SOURCE: Mapping[Mode, Mapping[str, bool]] = {
    Mode.CURRENT: {},
    Mode.HISTORY: {"_is_current": True},
    Mode.SOFT_DELETE: {"_is_deleted": False},
}
"""By mode, which rows of a silver table the source has now. Logs do not show it."""


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """What is erased."""

    targets: tuple[Target, ...]
    """The silver tables of the source table."""
    keys: ErasedKeys
    files: tuple[FoundRows, ...]
    """All files of the table, most of them without rows of the keys."""
    orphans: tuple[str, ...]
    """Objects of a stream's location that no record of the log names, and that may have the rows."""

    @property
    def values(self) -> frozenset[str]:
        """The texts by which the rows in the files are recognised elsewhere."""
        return frozenset(text for found in self.files for text in found.values)

    @property
    def with_rows(self) -> tuple[FoundRows, ...]:
        """The files that have rows of the keys."""
        return tuple(found for found in self.files if found.rows)


def erasure_plan(
    lake: Lake, targets: Sequence[Target], given: Sequence[str], *, still_in_source: bool = False
) -> ErasurePlan:
    """The plan for keys of the source table of these silver tables. Raises LakeError where an erasure would leave
    something behind, or take something else along. `still_in_source`: also of rows that the source has."""
    first, runtime = targets[0], lake.runtime
    keys = ErasedKeys.of(first, given)
    contracts = runtime.contracts.of(first.identifier)
    if not contracts.versions:
        raise LakeError(f"{first.identifier} has not been applied yet: run `lake-assets sync` first.")
    log_arrivals(runtime, first.source)
    found = []
    for file, obj in files_of(runtime, first):
        try:
            found.append(found_rows(runtime, first, contracts, keys, file, obj))
        except (UnreadableFile, pa.ArrowException) as error:
            raise LakeError(
                f"{file.path} cannot be read ({error}), so that nobody can see whether it has rows of the keys. Remove "
                "it, or have DMS write it again."
            ) from error
    _refuse_others(first, keys, found)
    for target in targets:
        _refuse_waiting(lake, target)
        if not still_in_source and (rows := rows_in(lake, target, keys, AT_SOURCE.get(target.mode))):
            raise LakeError(
                f"{target.identifier} has {many(rows, 'row')} of the keys, so that the source has them: its next "
                "change or reload would bring them back. Delete them at the source, and erase them when the deletion "
                "has arrived; or use --still-in-source."
            )
    is_known = any(each.rows for each in found) or any(rows_in(lake, target, keys, {}) for target in targets)
    begun = ErasureLog(runtime.catalog).unfinished(first.source, first.table, keys.values(first))
    if not is_known and begun is None:
        raise LakeError(
            f"no file and no silver table of {first.table} has a row of these keys: see how they are spelled."
        )
    return ErasurePlan(tuple(targets), keys, tuple(found), _orphans(lake, first, found))


def _refuse_others(target: Target, keys: ErasedKeys, found: Sequence[FoundRows]) -> None:
    others = sorted({key for each in found for key in each.others} - {*keys.keys})
    if others:
        named = ", ".join(",".join(key) for key in others[:MOST_NAMED])
        raise LakeError(
            f"{target.table}: rows of these keys have had, or got, {many(len(others), 'other key')}: {named}"
            f"{', …' if len(others) > MOST_NAMED else ''}. Name these, too: otherwise a replay would bring the rows "
            "back."
        )
    if undecided := [each for each in found if each.undecided]:
        first = undecided[0]
        raise LakeError(
            f"{first.file.path}, row {first.undecided[0] + 1}, cannot be read, and its text has one of the keys "
            f"({many(sum(len(each.undecided) for each in undecided), 'such row')} in all). Correct or remove it in the "
            "file (see `lake-assets quarantine show`), and run it again."
        )


def _refuse_waiting(lake: Lake, target: Target) -> None:
    position = read_position(load_table(lake.runtime.catalog, target.identifier))
    if position.waiting:
        raise LakeError(
            f"{target.identifier}: {many(position.waiting, 'row')} wait for the consistent cut, and some of them may "
            "be of the keys. Run it again when none waits."
        )


def rows_in(lake: Lake, target: Target, keys: ErasedKeys, also: Mapping[str, bool] | None) -> int:
    """How many rows of the keys, with these values in other columns, a silver table has. `also`: None for a table that
    does not show what is asked."""
    table = load_table(lake.runtime.catalog, target.identifier)
    if also is None or table is None or current_snapshot(table) is None:
        return 0
    # Of a former column in the key, a table that was not changed yet has none.
    if not {*target.key} <= {*table.schema().column_names}:
        return 0
    columns = [column.to_pylist() for column in keys.in_silver(target).columns]
    within: BooleanExpression = AlwaysTrue()
    for name, values in zip(target.key, columns, strict=True):
        within &= In(term=Reference(name), literals={*map(literal, values)})
    for name, value in also.items():
        within &= EqualTo(term=Reference(name), value=literal(value))
    rows = table.scan(row_filter=within, selected_fields=target.key).to_arrow()
    wanted = {*zip(*columns, strict=True)}
    return sum(row in wanted for row in zip(*(rows[name].to_pylist() for name in target.key), strict=True))


def _orphans(lake: Lake, target: Target, found: Sequence[FoundRows]) -> tuple[str, ...]:
    """Objects that may have rows of the table and are in no record of the log. Raises LakeError for those that are not
    the lake's own."""
    is_stream = lake.config.sources[target.source].stream is not None
    folders = TableFolders(lake.config.sources[target.source])
    places = {each.file.path.rpartition("/")[0] for each in found}
    known = {each.file.path for each in found} | {*lake.runtime.file_log.newest(target.source)}
    now, own, others = datetime.now(UTC), [], []
    for obj in lake.runtime.store(target.source).list():
        parsed = folders.parse(obj.key)
        if obj.key in known:
            continue
        if is_stream and is_own_object(obj.key) and obj.key.rpartition("/")[0] in places:
            if now - obj.last_modified < LANDED_AGO:
                raise LakeError(f"{obj.key} is landing now: run it again in ten minutes.")
            own.append(obj.key)
        elif isinstance(parsed, DataFile) and parsed.qualified_table == target.table:
            others.append(obj.key)
    if others:
        raise LakeError(
            f"{many(len(others), 'object', 'are')} in the folder of {target.table} and in no record of the log, such "
            f"as {others[0]}: a copy of another file, or one that could not be logged. Remove what is not needed, and "
            "run it again."
        )
    return tuple(own)
