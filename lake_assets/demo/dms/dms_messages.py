"""Encodes file content as the messages that DMS would send instead: a JSON object a line.

Here: values as a PostgreSQL source gives them. Not here: the metadata, which the key of the file has
(`topic.py`).
"""

import json
from collections.abc import Callable
from typing import Any

from lake_assets.demo.dms.dms_layout import FileContent
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.source.bike_schema import Column


def encode_messages(content: FileContent, settings: DmsWriterSettings) -> bytes:
    """A line for each row: its operation, when it was committed, its columns and its before image."""
    added = {"Op", settings.timestamp_column_name}
    prefix = settings.before_image_prefix
    lines = []
    tokens = [_token(column) for column in content.columns]
    for row in content.rows:
        op, at, data, before = "I", "", [], []
        for column, token, value in zip(content.columns, tokens, row, strict=True):
            name, text = column.name, "null" if value is None else token(value)
            if name == "Op":
                op = str(value)
            elif name in added:
                at = str(value)
            elif prefix is not None and name.startswith(prefix):
                if value is not None:
                    before.append(f"{json.dumps(name.removeprefix(prefix))}: {text}")
            else:
                data.append(f"{json.dumps(name)}: {text}")
        said = f'"op": "{op}", "at": "{at.replace(" ", "T")}Z"'
        lines.append(f'{{{said}, "data": {{{", ".join(data)}}}, "before-image": {{{", ".join(before)}}}}}\n')
    return "".join(lines).encode()


def _token(column: Column) -> Callable[[Any], str]:
    """The function from a stored value to its JSON token."""
    if column.type == "boolean":
        return lambda value: '"t"' if value else '"f"'
    if column.type == "timestamptz":
        return lambda value: f'"{value.replace(" ", "T")}Z"'
    if column.type in ("string", "date"):
        return json.dumps
    # Numbers; a decimal is stored as text, all of whose digits count.
    return str
