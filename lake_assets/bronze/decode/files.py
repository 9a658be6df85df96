"""Files of one table, decoded to changes in this process.

Here: finding each file's layout, and reading files of one layout together. Not here: the fields of one file
(`fields.py`), their meaning (`changes.py`).
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.bronze.decode.changes import checked_as_values, typed_changes, without_partial_rows
from lake_assets.bronze.decode.dms_columns import FAULTS, Unusable
from lake_assets.bronze.decode.fields import Fields, Room, TooLarge, joined, parquet_pieces
from lake_assets.bronze.decode.recount import counted
from lake_assets.bronze.decode.texts import TextFile
from lake_assets.bronze.decode.value_facts import value_facts
from lake_assets.bronze.files.formats import Layout, before_image
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.files.parquet_columns import ParquetColumn, parquet_columns, spark_name
from lake_assets.bronze.layouts.file_layouts import named_layout, parquet_layout
from lake_assets.bronze.layouts.headerless import (
    LayoutsByRow,
    agreed_layout,
    decided_layout,
    headerless_layouts,
    layouts_by_row,
)
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.values.text_values import all_match, all_true
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.errors import TableStopped
from lake_assets.storage.object_store import ObjectStore
from lake_assets.storage.spark_paths import spark_address

MOST_BYTES = 64 << 20
"""Bytes of all files, as stored, up to which this process decodes them."""
MOST_DECODED = 256 << 20
"""Limit of the bytes of all rows, in memory."""
_PLAIN_TIME = r"^[12]\d{3}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?$"
AT_ONCE = 4
"""Files that are read at the same time: for small files in a bucket, requests take most of the time."""


@dataclass(frozen=True, slots=True)
class _Share:
    """A file, or the part of its rows that has one layout."""

    file: LoggedFile
    layout: Layout
    types: Mapping[str, str] | None = None
    """The Arrow types of a Parquet file's columns, `string` for JSON; None for the texts of a CSV file."""
    among: LayoutsByRow | None = None

    @property
    def of(self) -> Hashable:
        """Shares with the same value are read alike."""
        columns = self.file.columns if self.file.format == "parquet" else None
        return self.file.format, self.file.kind, self.layout.columns, self.layout.era, columns


def decoded_changes(
    store: ObjectStore,
    files: Sequence[LoggedFile],
    *,
    name: str,
    table: TableConfig,
    dms: DmsSettings,
    partial: bool,
    explain: bool = True,
) -> pa.Table | None:
    """The changes of the files, as `typed_changes`, with bad rows marked. An insert without all its values is bad, and
    so is an update unless the caller can use it (`partial`) or it lacks only columns of kept_when_null. `explain`:
    `_bad` names all faults of a row, with the values, rather than the first one. None if a file is damaged or gone, or
    if the rows take too much memory. Raises TableStopped when a file's columns do not fit the contract."""
    decoder = _Decoder(store, name, table, dms, explain, Room(MOST_DECODED))
    try:
        groups: dict[Hashable, list[_Share]] = defaultdict(list)
        for share in decoder.shares(files):
            groups[share.of].append(share)
        changes = pa.concat_tables([decoder.changes(shares) for shares in groups.values()])
    except TableStopped:
        raise
    except (*FAULTS, TooLarge):
        return None  # Decoding them in pieces shows which of them is damaged or gone.
    return changes if dms.csv_no_sup_value is None else without_partial_rows(changes, table, partial=partial)


def changes_in_pieces(
    store: ObjectStore,
    file: LoggedFile,
    *,
    name: str,
    table: TableConfig,
    dms: DmsSettings,
    partial: bool,
    explain: bool = True,
) -> Iterator[pa.Table]:
    """The changes of a file of any size, as `decoded_changes`, in at least one piece. Raises StoreError for a file that
    is gone, UnreadableFile or what Arrow raises for one that is damaged, and TableStopped when its columns do not fit
    the contract."""
    decoder = _Decoder(store, name, table, dms, explain, None)
    for share in decoder.shares([file]):
        for fields in decoder.pieces(share):
            changes = decoder.typed(fields, share)
            if dms.csv_no_sup_value is not None:
                changes = without_partial_rows(changes, table, partial=partial)
            yield changes


def looked_at(
    store: ObjectStore, file: LoggedFile, *, name: str, table: TableConfig, dms: DmsSettings
) -> Iterator[pa.Table]:
    """As `changes_in_pieces`, of a Parquet file, with images `of_key` only. Raises Unusable if DMS's own columns are
    spelled otherwise than DMS does: then `bronze/reader/as_is.py` may not give the same values."""
    decoder, keys = _Decoder(store, name, table, dms, True, None), of_key(table)
    (whole,) = decoder.shares([file])
    then = decoder.settings(whole.layout)
    own = {then.operation_column, then.timestamp_column_name}
    own |= {then.change_sequence_column} if file.kind is FileKind.CDC else set()
    wanted = {*own, *table.primary_key, *(before_image(then, column) for column in table.primary_key)}
    every = [*whole.layout.in_file.items()]
    # Of no column, Arrow would read no rows either.
    kept = [pair for pair in every if pair[0] in wanted] or every[:1]
    columns, written = zip(*kept, strict=True)
    share = replace(whole, layout=replace(whole.layout, columns=columns, written=written))
    few = {then.operation_column, then.timestamp_column_name}
    repeating = [name for column, name in kept if column in few]
    for fields in decoder.pieces(share, address="", repeating=repeating):  # nobody needs the address here
        if not all(_are_texts(values) for each, values in fields.values.items() if each in own):
            raise Unusable
        times = fields.values.get(then.timestamp_column_name or "")
        if times is not None and not all_match(_different(times), _PLAIN_TIME):
            raise Unusable
        sequences = fields.values.get(then.change_sequence_column or "")
        if sequences is not None and not _are_written(sequences):
            raise Unusable
        yield typed_changes(fields, file.kind, share.types, keys, then)


def _are_texts(values: pa.ChunkedArray) -> bool:
    kind = values.type
    return bool((kind.value_type if pa.types.is_dictionary(kind) else kind) == pa.string())


def _different(texts: pa.ChunkedArray) -> pa.Array:
    found = pc.unique(texts)
    return found.dictionary if isinstance(found, pa.DictionaryArray) and not found.null_count else found


def _are_written(texts: pa.ChunkedArray) -> bool:
    return not texts.null_count and all_true(pc.greater(pc.binary_length(texts), 0))


def address_of(store: ObjectStore, path: str) -> str:
    """A file's address in the column `_file` of its changes."""
    return spark_address(store.spark_uri(path))


def of_key(table: TableConfig) -> TableConfig:
    """The table with the columns of its key only."""
    columns = tuple(column for column in table.columns if column.name in table.primary_key)
    return table.model_copy(update={"columns": columns})


def refuse_unreadable(name: str, key: str, columns: Iterable[ParquetColumn]) -> None:
    """Raises TableStopped for a Parquet file with a column that no column of lake.yaml can have."""
    for column in columns:
        if spark_name(column.arrow) is None:
            raise TableStopped(
                name,
                f"{key} has the column {column.name} of Parquet type {column.arrow}, which no type of lake.yaml holds.",
                "Have the column written as a text, a number or a time, or remove it from the DMS task's mapping.",
            )


@dataclass(frozen=True, slots=True)
class _Decoder:
    store: ObjectStore
    name: str
    table: TableConfig
    dms: DmsSettings
    explain: bool
    room: Room | None

    def shares(self, files: Iterable[LoggedFile]) -> Iterator[_Share]:
        """Each file with its layout, or with each of its layouts."""
        for file in files:
            if (by_row := layouts_by_row(file, self.table, self.dms)) is not None:
                # Layouts that differ only in former names are equal by present names.
                for layout in dict.fromkeys(by_row.layouts):
                    yield _Share(file, layout, among=by_row)
            elif file.format == "parquet":
                known = counted(self.store, file, self.dms, ())
                refuse_unreadable(self.name, file.key, parquet_columns(known.columns or ()))
                layout, types, _ = parquet_layout(self.name, known, self.table, self.dms)
                yield _Share(known, layout, types)
            elif file.columns is not None:
                layout = named_layout(file, file.columns, self.name, self.table, self.dms)
                # JSON is unambiguous: it has neither null tokens nor empty fields to interpret.
                yield _Share(
                    file, layout, dict.fromkeys(layout.columns, "string") if file.format == "json" else None
                )
            else:
                yield _Share(file, self._headerless(file))

    def _headerless(self, file: LoggedFile) -> Layout:
        layouts = headerless_layouts(self.name, file, self.table, self.dms)
        then = self.settings(layouts[0])
        if (layout := agreed_layout(layouts, file.kind, None, then)) is not None:
            return layout
        seen = value_facts(self._text_file(_Share(file, layouts[0])).pieces(), layouts, self.table, then)
        return decided_layout(self.name, file, layouts, seen, self.table, then)

    def changes(self, shares: Sequence[_Share]) -> pa.Table:
        """The changes of shares that are read alike."""
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="decode") as threads:
            fields = joined(list(threads.map(lambda share: joined([*self.pieces(share)]), shares)))
        return self.typed(fields, shares[0])

    def pieces(
        self, share: _Share, address: str | None = None, repeating: Sequence[str] = ()
    ) -> Iterator[Fields]:
        """The rows of a share, in at least one piece. `address`: by default the file's; `repeating`: as of
        `parquet_pieces`."""
        if share.file.format == "parquet":
            unchecked = checked_as_values(self.settings(share.layout))
            address = self._address(share.file) if address is None else address
            return parquet_pieces(
                self.store,
                share.file,
                share.layout,
                share.types or {},
                unchecked,
                address,
                self.room,
                repeating,
            )
        return self._text_file(share).pieces(self.room)

    def typed(self, fields: Fields, share: _Share) -> pa.Table:
        then = self.settings(share.layout)
        return typed_changes(fields, share.file.kind, share.types, self.table, then, explain=self.explain)

    def _text_file(self, share: _Share) -> TextFile:
        file, layout = share.file, share.layout
        then, address = self.settings(layout), self._address(file)
        return TextFile(
            self.store, file, layout, self.table, then, share.among, address, explain=self.explain
        )

    def _address(self, file: LoggedFile) -> str:
        return address_of(self.store, file.path)

    def settings(self, layout: Layout) -> DmsSettings:
        """The settings of the layout's time."""
        return self.table.settings_in(layout.era, self.dms)
