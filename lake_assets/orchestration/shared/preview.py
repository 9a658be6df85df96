"""The rows that an event shows: some of those that the table's newest commit has added.

Here: their text; every value that is shown passes `shown_value`. Not here: reading them
(`iceberg/file_io/newest_rows.py`).
"""

import logging
from typing import Any

import dagster as dg

from lake_assets.config.secrets import hidden_in
from lake_assets.iceberg.file_io.newest_rows import newest_rows
from lake_assets.iceberg.table_io import load_table
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.causes import root_cause

PREVIEW = "preview"
"""Metadata of an event: its rows as a Markdown table."""
LONGEST = 40
"""Characters of a value."""
MOST_COLUMNS = 30

logger = logging.getLogger(__name__)


def preview(runtime: LakeRuntime, identifier: str, *, show: bool = True) -> dict[str, dg.MetadataValue[Any]]:
    """Metadata with the rows; empty if there are none or `automation.preview_rows` is 0. Raises nothing if rows cannot
    be read."""
    most = runtime.lake.automation.preview_rows
    if not most or not show:
        return {}
    try:
        table = load_table(runtime.catalog, identifier)
        rows = newest_rows(table, most) if table is not None else []
        return {PREVIEW: dg.MetadataValue.md(rows_as_markdown(rows))} if rows else {}
    except Exception as error:
        reason = hidden_in(runtime.lake, root_cause(error))
        logger.warning("%s: its newest rows could not be read for the preview: %s", identifier, reason)
        logger.debug("the preview of %s failed", identifier, exc_info=True)
        return {}


def rows_as_markdown(rows: list[dict[str, Any]]) -> str:
    """A table with a line for each row."""
    columns = list(rows[0])[:MOST_COLUMNS]
    lines = [columns, ["---"] * len(columns)]
    lines += [[shown_value(column, row.get(column)) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown_value(column: str, value: Any) -> str:
    """The text of one value: of one line, and short."""
    text = "NULL" if value is None else str(value)
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").split())
