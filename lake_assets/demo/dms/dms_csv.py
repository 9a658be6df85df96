"""Encodes file content as DMS's CSV.

Here: quoting, NULL, numbers, header. Not here: the columns (`dms_layout.py`).
"""

from collections.abc import Callable, Sequence
from typing import Any

from lake_assets.demo.dms.dms_layout import FileContent
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.source.bike_schema import Column


def _double(value: float) -> str:
    # 18 significant digits identify any double; DMS writes reals in this form.
    return f"{value:+.17e}"


def _boolean(value: int) -> str:
    return "true" if value else "false"


def _field_writer(column: Column, settings: DmsWriterSettings) -> Callable[[Any], str]:
    if column.type == "double":
        return _double
    if column.type == "boolean":
        return _boolean
    if column.type != "string":
        return str

    def text(value: str) -> str:
        if value == settings.csv_null_value and value:
            raise ValueError(
                f"column {column.name} holds the text {value!r}, which is also csv_null_value: a reader could not tell"
                " it from NULL. Choose another csv_null_value."
            )
        if settings.rfc_4180 and ('"' in value or "," in value or "\n" in value or "\r" in value):
            return '"' + value.replace('"', '""') + '"'
        return value

    return text


def encode_csv(content: FileContent, settings: DmsWriterSettings) -> bytes:
    """The file's bytes: UTF-8, comma, `\\n`; as in RFC 4180, only fields that need quotes have them.

    Raises ValueError for a text that equals `csv_null_value`.
    """
    lines = [",".join(column.name for column in content.columns)] if settings.add_column_name else []
    lines += map(row_writer(content.columns, settings), content.rows)
    return encode_lines(lines)


def row_writer(columns: Sequence[Column], settings: DmsWriterSettings) -> Callable[[Sequence[Any]], str]:
    """A function that encodes a row of these columns, without the newline."""
    null = settings.csv_null_value
    writers = [_field_writer(column, settings) for column in columns]

    def line(row: Sequence[Any]) -> str:
        return ",".join(
            [null if value is None else write(value) for write, value in zip(writers, row, strict=True)]
        )

    return line


def encode_lines(lines: Sequence[str]) -> bytes:
    """The bytes of a file with these lines."""
    return ("\n".join(lines) + "\n").encode() if lines else b""
