"""The layout of a CSV file without a header, found by the file's width, time and values.

Here: which of the table's layouts through time applies, and which of the columns that DMS adds the file has. Not here:
files that name their columns (`bronze/files/formats.py`), reading values (`bronze/decode/value_facts.py`). Pure.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import product

from lake_assets.bronze.files.formats import Layout, contract_layout
from lake_assets.bronze.files.keys import TRANSACTIONS, FileKind
from lake_assets.bronze.log.known import FIRST_EPOCH
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.errors import TableStopped
from lake_assets.words import many

_CLOCKS_DIFFER = timedelta(hours=1)
"""Tolerance: a file's name has DMS's clock, a change's sequence the source's."""
_JUST_BEFORE = timedelta(microseconds=1)
_NEVER = datetime.max.replace(tzinfo=UTC)


def dated(files: Iterable[LoggedFile], logged: Iterable[LoggedFile]) -> list[LoggedFile]:
    """The files. Parts of the first full load without a transfer time get a date from before the first change, because
    an object's own date is that of its latest copy. `logged`: all files of the table."""
    flushes = [file.flush_time for file in logged if file.flush_time is not None]
    if not flushes:
        return list(files)
    latest = min(flushes) - _JUST_BEFORE
    return [
        replace(file, last_modified=min(file.last_modified, latest)) if _has_no_date(file) else file
        for file in files
    ]


def _has_no_date(file: LoggedFile) -> bool:
    return file.kind is FileKind.LOAD and file.first_commit_ts is None and file.epoch == FIRST_EPOCH


class UnknownWidth(TableStopped):
    """A CSV file without a header has another number of fields than every layout of its time."""

    def __init__(self, table: str, file: LoggedFile, reason: str, next_step: str) -> None:
        super().__init__(table, reason, next_step)
        self.file = file


def headerless_layouts(
    name: str, file: LoggedFile, table: TableConfig, dms: DmsSettings
) -> tuple[Layout, ...]:
    """The layouts that the file may have, of one width; `name` is the table, for messages. They differ only in the
    columns that DMS adds after the source's. Raises UnknownWidth for a width that no layout of the file's time has."""
    era = table.era(file.written_at)
    known, then = table.in_era(era), table.settings_in(era, dms)
    expected = contract_layout(known, then, file.kind)
    if file.width is None or file.width == len(expected.columns):
        return (_by_todays_names(expected, table, era),)
    fitting = [layout for layout in _variants(known, then, file.kind) if len(layout.columns) == file.width]
    if fitting:
        return tuple(_by_todays_names(layout, table, era) for layout in fitting)
    raise refuse_width(name, file, expected)


def refuse_width(name: str, file: LoggedFile, expected: Layout) -> UnknownWidth:
    """The error for a file that has another number of columns than lake.yaml names."""
    return UnknownWidth(
        name,
        file,
        f"{file.key} has {many(file.width or 0, 'field')} and no header, and lake.yaml expects "
        f"{len(expected.columns)}: {', '.join(expected.columns)}.",
        "Correct the table's columns, or under dms the columns that DMS adds, and list under earlier what files had "
        "until then.",
    )


def refuse_lost_columns(
    name: str,
    files: Iterable[LoggedFile],
    logged: Sequence[LoggedFile],
    at: Callable[[LoggedFile], tuple[TableConfig, DmsSettings]],
) -> None:
    """Raises UnknownWidth if one of the files is narrower than its present layout, though an older file of its kind is
    not: the source has dropped a column, or DMS no longer adds one, and the values of a full load cannot show which.
    `logged`: all files of the table; `at`: the table and the settings by which a file is read."""
    unnamed = [file for file in files if has_no_header(file)]
    first_whole: dict[tuple[Layout, FileKind], datetime] = {}
    # Most tables have no such file, and need not look at all that was logged.
    for file in dated(unnamed, logged) if unnamed else ():
        table, dms = at(file)
        expected = contract_layout(table, dms, file.kind)
        if table.era(file.written_at) or (file.width or 0) >= len(expected.columns):
            continue
        if (which := (expected, file.kind)) not in first_whole:
            whole = (
                each.written_at
                for each in dated(filter(has_no_header, logged), logged)
                if each.kind is file.kind
                and each.width == len(expected.columns)
                and not table.era(each.written_at)
            )
            first_whole[which] = min(whole, default=_NEVER)
        if first_whole[which] < file.written_at:
            raise refuse_width(name, file, expected)


def has_no_header(file: LoggedFile) -> bool:
    """Whether it is a CSV file that does not name its columns."""
    return file.format == "csv" and file.columns is None and file.width is not None


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Figures of the values of one CDC file, by their places in a record, from 0."""

    rows: int
    """Rows of the expected width."""
    filled: Mapping[int, int]
    """The number of values that are neither empty nor the null token."""
    sequences: Mapping[int, int]
    """The number of values that are 35 digits and begin with a time; of every place if a layout lacks the sequence."""
    unfit: Mapping[tuple[int, str], int]
    """The number of filled values that cannot be the before image, by its name."""


def agreed_layout(
    layouts: Sequence[Layout], kind: FileKind, facts: FileFacts | None, dms: DmsSettings
) -> Layout | None:
    """The layout that the values allow, or any allowed one if all of them yield the same changes; else None. `facts`:
    not needed for a full load, which has neither sequences nor before images."""
    if kind is FileKind.LOAD or (len(layouts) == 1 and not may_be_shifted(layouts, dms)):
        return layouts[0]
    if facts is None:
        return None
    left = [layout for layout in layouts if not _refuted(layout, layouts, facts, dms)] or list(layouts)
    return left[0] if len({_meaning(layout, facts, dms) for layout in left}) == 1 else None


def decided_layout(
    name: str,
    file: LoggedFile,
    layouts: tuple[Layout, ...],
    seen: FileFacts | None,
    table: TableConfig,
    dms: DmsSettings,
) -> Layout:
    """The layout that the file's values decide for; `seen`: their figures, None without a usable row. Raises
    TableStopped when they leave it open, or show that a source column is missing; `name` is the table."""
    if seen is None:
        return layouts[0]  # it has no effect
    if is_shifted(layouts, seen, dms, table.primary_key):
        raise refuse_width(name, file, contract_layout(table, dms, file.kind))
    if (layout := agreed_layout(layouts, file.kind, seen, dms)) is None:
        raise refuse_open_layout(name, file, layouts, dms)
    return layout


def may_be_shifted(layouts: Sequence[Layout], dms: DmsSettings) -> bool:
    """Whether the file may have fewer source columns than the layouts, and its sequence in the place of one."""
    sequence = dms.change_sequence_column
    return sequence is not None and any(sequence not in layout.columns for layout in layouts)


def is_shifted(layouts: Sequence[Layout], facts: FileFacts, dms: DmsSettings, key: Collection[str]) -> bool:
    """Whether all values in the place of another column are sequences. The places of the key do not count: every file
    has its key, and a key may look like a sequence."""
    named = {dms.change_sequence_column, *key}
    return may_be_shifted(layouts, dms) and any(
        0 < facts.rows == number and all(layout.columns[place] not in named for layout in layouts)
        for place, number in facts.sequences.items()
    )


def differing_places(layouts: Sequence[Layout]) -> list[int]:
    """The places where the layouts differ."""
    columns = zip(*(layout.columns for layout in layouts), strict=True)
    return [place for place, names in enumerate(columns) if len(set(names)) > 1]


def _refuted(layout: Layout, among: Sequence[Layout], facts: FileFacts, dms: DmsSettings) -> bool:
    """Whether the file's values contradict the layout."""
    sequence = dms.change_sequence_column
    for place in differing_places(among):
        name, sequences = layout.columns[place], facts.sequences[place]
        if name == sequence:
            wrong = facts.filled[place] > sequences
        else:
            may_be_one = any(other.columns[place] == sequence for other in among)
            proven = may_be_one and 0 < facts.rows == sequences
            wrong = proven or facts.unfit.get((place, name), 0) > 0
        if wrong:
            return True
    return False


def _meaning(layout: Layout, facts: FileFacts, dms: DmsSettings) -> frozenset[tuple[int, str]]:
    """The columns of the layout that affect changes: an empty sequence or before image has no effect."""
    named = enumerate(layout.columns)
    only_read = {name for name in dms.added_columns if name != dms.change_sequence_column}
    return frozenset(
        (place, name) for place, name in named if facts.filled.get(place, 1) and name not in only_read
    )


def refuse_open_layout(
    name: str, file: LoggedFile, layouts: Sequence[Layout], dms: DmsSettings
) -> TableStopped:
    """The error for a file whose values allow more than one layout."""
    either = " or ".join(f"({', '.join(layout.columns)})" for layout in layouts)
    until = file.key.rsplit("/", 1)[-1].split(".")[0]
    settings = [
        f"{{{setting}: {nothing}}}"
        for setting, now, nothing in (
            ("change_sequence_column", dms.change_sequence_column, "null"),
            ("before_image_prefix", dms.before_image_prefix, "null"),
            ("added_columns", dms.added_columns, "[]"),
        )
        if now
    ]
    return TableStopped(
        name,
        f"{file.key} has {many(file.width or 0, 'field')} and no header; they could be {either}, and its "
        "values fit each.",
        f"Say what files had until then: under earlier of the table, until_file: the name of the first file that has "
        f"all columns (this one is {until}), and dms: {' or '.join(settings)}. Or set AddColumnName on the endpoint.",
    )


@dataclass(frozen=True, slots=True)
class LayoutsByRow:
    """The layouts of a file that contains a change of the source's columns, oldest first."""

    layouts: tuple[Layout, ...]
    ends: tuple[str, ...]
    """For each layout but the last, the change sequence of the first row of the next layout."""
    sequence_places: tuple[int, ...]
    """For each layout but the last, the place of the change sequence."""

    def of(self, fields: Sequence[str] | None) -> Layout:
        """The layout of a record; the last layout for a record that fits none."""
        for layout, end, place in zip(self.layouts, self.ends, self.sequence_places, strict=False):
            if fields is not None and len(fields) == len(layout.columns):
                sequence = fields[place]
                if sequence and sequence < end:
                    return layout
        return self.layouts[-1]


def layouts_by_row(file: LoggedFile, table: TableConfig, dms: DmsSettings) -> LayoutsByRow | None:
    """The layouts of a CDC file without a header that may contain the end of an earlier layout, by change sequence;
    None if the whole file has one layout."""
    first, last = file.first_commit_ts, file.flush_time
    if file.columns is not None or first is None or last is None:
        return None
    count = len(table.earlier)
    inside = [
        (count - place, entry.until_sequence)
        for place, entry in enumerate(table.earlier)
        if entry.until_sequence and first < entry.until <= last + _CLOCKS_DIFFER
    ]
    if not inside or file.format not in ("csv", TRANSACTIONS):
        return None
    eras = [*(era for era, _ in inside), inside[-1][0] - 1]
    settings = [table.settings_in(era, dms) for era in eras]
    layouts = [
        _by_todays_names(contract_layout(table.in_era(era), then, file.kind), table, era)
        for era, then in zip(eras, settings, strict=True)
    ]
    names = [then.change_sequence_column for then in settings[:-1]]
    if None in names:
        return None
    if file.format == "csv" and file.width not in {len(layout.columns) for layout in layouts}:
        return None
    return LayoutsByRow(
        tuple(layouts),
        tuple(end for _, end in inside),
        tuple(layout.columns.index(name or "") for layout, name in zip(layouts, names, strict=False)),
    )


def _variants(table: TableConfig, dms: DmsSettings, kind: FileKind) -> list[Layout]:
    """The layouts with and without each kind of column that the task's mapping may add."""
    found = []
    for sequence, images, added in product((True, False), repeat=3):
        changes: dict[str, object] = {}
        if not sequence:
            changes["change_sequence_column"] = None
            changes["added_columns"] = tuple(c for c in dms.added_columns if c != dms.change_sequence_column)
        if not images:
            changes["before_image_prefix"] = None
        if not added:
            own = (c for c in dms.added_columns if c == dms.change_sequence_column and sequence)
            changes["added_columns"] = tuple(own)
        found.append(contract_layout(table, dms.model_copy(update=changes), kind))
    return list(dict.fromkeys(found))


def _by_todays_names(layout: Layout, table: TableConfig, era: int) -> Layout:
    renamed = {old: new for new, old in table.renamed_from.items() if new not in layout.columns}
    return Layout(tuple(renamed.get(column, column) for column in layout.columns), era=era)
