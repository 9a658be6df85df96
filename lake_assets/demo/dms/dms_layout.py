"""The columns and values of a table's DMS file, under given settings.

Here: column order, Op, commit timestamp, change sequence, before images, the columns of a delete. Not here: encoding a
value in CSV or Parquet, the file's name (`dms_files.py`).
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.source.bike_schema import Column, SourceTable
from lake_assets.demo.source.source_changes import Change, next_sequence
from lake_assets.demo.source.source_values import Stored, timestamp_text


class FileContent(NamedTuple):
    """A file before it is encoded: its columns in order, and rows of stored values of the same width."""

    columns: tuple[Column, ...]
    rows: list[tuple[Stored, ...]]


class DmsLayout:
    """The layout of one table's full-load and CDC files."""

    def __init__(self, table: SourceTable, settings: DmsWriterSettings) -> None:
        self._table = table
        self._settings = settings
        self._sequenced = settings.change_sequence_column is not None
        self._with_before_images = settings.before_image_prefix is not None and bool(table.primary_key)
        self._no_before_image: tuple[Stored, ...] = (None,) * (
            len(table.primary_key) if self._with_before_images else 0
        )

    def columns(self, *, full_load: bool) -> tuple[Column, ...]:
        """Op, commit timestamp, source columns, change sequence and before images, as configured."""
        settings = self._settings
        columns = [Column(settings.timestamp_column_name, "string", True)]
        if not full_load or settings.include_op_for_full_load:
            columns.insert(0, Column("Op", "string", False))
        # Every source column is optional in the file: a delete leaves the NOT NULL ones empty.
        columns += [Column(column.name, column.type, False) for column in self._table.columns]
        if settings.change_sequence_column is not None:
            columns.append(Column(settings.change_sequence_column, "string", False))
        if self._with_before_images:
            keys = [self._table.columns[position] for position in self._table.key_positions]
            columns += [Column(f"{settings.before_image_prefix}{key.name}", key.type, False) for key in keys]
        return tuple(columns)

    def full_load(
        self, rows: Sequence[tuple[Stored, ...]], first_transfer: datetime, interval: timedelta
    ) -> FileContent:
        """Rows of a LOAD file. Each is stamped with the time of its own transfer, `interval` after the previous one."""
        op: tuple[Stored, ...] = ("I",) if self._settings.include_op_for_full_load else ()
        # In real CSV files it is empty, although the endpoint has a null value: DMS computes it, the source does not
        # send it.
        sequence: tuple[Stored, ...] = ()
        if self._sequenced:
            sequence = ("",) if self._settings.data_format == "csv" else (None,)
        return FileContent(
            self.columns(full_load=True),
            [
                (
                    *op,
                    timestamp_text(first_transfer + index * interval),
                    *row,
                    *sequence,
                    *self._no_before_image,
                )
                for index, row in enumerate(rows)
            ],
        )

    def cdc(self, changes: Iterable[Change]) -> FileContent:
        """Rows of a CDC file, in the order of the changes."""
        rows: list[tuple[Stored, ...]] = []
        for change in changes:
            for op, image, sequence, before in self._rows_of(change):
                tail = (sequence,) if self._sequenced else ()
                rows.append((op, change.committed_at, *image, *tail, *before))
        return FileContent(self.columns(full_load=False), rows)

    def _rows_of(self, change: Change) -> Iterator[tuple[str, tuple[Stored, ...], str, tuple[Stored, ...]]]:
        before = self._no_before_image
        if change.op == "D":
            image = change.image if self._settings.delete_image == "full" else self._only_key(change.image)
            yield "D", image, change.sequence, before
            return
        if change.op == "U" and change.before_key is not None:
            key_changed = change.before_key != tuple(change.image[at] for at in self._table.key_positions)
            if self._with_before_images:
                if key_changed or self._settings.before_image == "always":
                    before = change.before_key
            elif key_changed:
                yield (
                    "D",
                    self._only_key(self._with_key(change.image, change.before_key)),
                    change.sequence,
                    before,
                )
                yield "I", change.image, next_sequence(change.sequence), before
                return
        yield change.op, change.image, change.sequence, before

    def _only_key(self, image: tuple[Stored, ...]) -> tuple[Stored, ...]:
        return tuple(value if at in self._table.key_positions else None for at, value in enumerate(image))

    def _with_key(self, image: tuple[Stored, ...], key: tuple[Stored, ...]) -> tuple[Stored, ...]:
        values = list(image)
        for position, value in zip(self._table.key_positions, key, strict=True):
            values[position] = value
        return tuple(values)
