"""What a source's catalog says about how a table's changes arrive: sentences for lake.yaml.

Here: keys, REPLICA IDENTITY, logging, inheritance, partitions. Not here: reading the catalog (`storage/reflection/`),
the text of lake.yaml (`lake_yaml_text.py`). Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap

from lake_assets.schema.spelling import listed
from lake_assets.storage.reflection.reflect import SourceTable
from lake_assets.table_name import table_text


@dataclass(frozen=True, slots=True)
class Missing:
    """What to do about a table without a primary key."""

    advice: tuple[str, ...]
    """Lines of comments."""
    reason: str
    """What `mode` has to decide."""
    key: tuple[str, ...] = ()
    """The columns by which the source itself identifies a row, so that there is nothing to decide."""


def advice(table: SourceTable) -> Iterator[str]:
    """Lines of comments about any table."""
    if table.partitions:
        yield "Partitioned: changes are logged under the names of its partitions, whose folders join it by `folders`:"
        yield from wrap(f"{', '.join(table.partitions)}.", 100)
        yield "Have the task select these, and not this table. To have a table for each, remove this one and add them:"
        yield f"`lake-assets new table {table_text(table.schema, table.partitions[0])}` and so on."
    storage = table.storage
    if storage is None:
        return
    if not storage.logged:
        yield "UNLOGGED: PostgreSQL does not log its changes, so DMS writes a full load and never a change."
    if storage.identity == "nothing":
        yield "REPLICA IDENTITY NOTHING: PostgreSQL logs no keys of updates and deletes, so DMS writes inserts only."
    if storage.identity == "full":
        yield "REPLICA IDENTITY FULL: before images and deleted rows may have all columns, not the key only."
    if storage.parents and not storage.partition:
        parents = ", ".join(".".join(parent) for parent in storage.parents)
        yield f"Inherits from {parents}: a SELECT of that table, and so perhaps its full load, has these rows too."


def without_key(table: SourceTable, before_images: bool | None = None) -> Missing:
    """`before_images`: whether the files have before images of all columns; None if that is not known."""
    storage = table.storage
    unique = [
        f"Unique and NOT NULL at the source: primary_key: {listed(names)}" for names in table.unique_keys
    ]
    if storage is not None and storage.identity == "index":
        said = (
            f"No primary key; the source identifies rows by a unique index: {listed(storage.identity_key)}."
        )
        return Missing((said,), "", storage.identity_key)
    lines = ["No primary key at the source: with some engines, its updates and deletes never arrive."]
    modes = ["append_log (inserts only)"]
    if storage is not None and storage.identity != "full":
        lines = [
            "No primary key and no REPLICA IDENTITY at the source: DMS writes its inserts, and neither updates nor",
            "deletes. For these, give it a key or REPLICA IDENTITY FULL at the source.",
        ]
    elif before_images is not False and not any(column.declared.lob for column in table.columns):
        # A row is found by its values before the change, and no before image has a LOB.
        modes.append("full_row (with before images of all columns)")
    modes.append("change_log")
    choice = f"{', '.join(modes[:-1])} or {modes[-1]}"
    key = "declare primary_key instead of mode, or " if unique else ""
    return Missing((*lines, *unique), f"no primary key: {key}choose {choice}")
