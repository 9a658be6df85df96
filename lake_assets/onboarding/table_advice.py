"""What a source's catalog says about how a table's changes arrive: sentences for lake.yaml.

Here: keys, REPLICA IDENTITY, logging, inheritance. Not here: reading the catalog (`storage/reflection/`), the text of
lake.yaml (`lake_yaml_text.py`). Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from lake_assets.schema.spelling import listed
from lake_assets.storage.reflection.reflect import SourceTable


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
