"""The text of a lake.yaml for reflected tables.

Here: names, quoting, and a comment for each decision that is left to the user. Not here: reading the source
(`reflect.py`). Pure. The text is not dumped by a YAML library, because it has comments.
"""

import re
from collections.abc import Iterator, Sequence

from lake_assets.config import UNDECIDED, table_text
from lake_assets.schema.spelling import key, listed, value
from lake_assets.storage.reflection.reflect import SourceColumn, SourceTable

_SILVER_NAME = re.compile(r"[a-z_][a-z0-9_]*")

_HEAD = """\
# yaml-language-server: $schema=lake.schema.json
# Written by `lake-assets init` from the tables of a {engine} database. `lake-assets validate` lists what is left to
# decide: every `undecided`, and the settings of the endpoint below.
catalog:
  name: lake
  type: sqlite                            # sqlite | jdbc | glue | rest
  uri: ${{LAKE_HOME:-.lake}}/catalog.db
  warehouse: ${{LAKE_HOME:-.lake}}/warehouse

spark:
  mode: ${{LAKE_SPARK_MODE:-embedded}}      # `lake-assets dev` sets it to connect, and keeps one Spark warm
  remote: ${{SPARK_REMOTE:-sc://localhost:15002}}

automation:
  continuous: true                        # one run applies files as they land, instead of a run for each batch of files

sources:
"""
_SOURCE = """\
  {source}:
    location: {location}
    dms:                                  # the S3 endpoint's settings under their DMS names; these are DMS's defaults
      data_format: csv                    # csv | parquet
      csv_null_value: "NULL"
      add_column_name: false
      include_op_for_full_load: false
      # timestamp_column_name: commit_ts
      # change_sequence_column: change_seq
      # before_image_prefix: BI_
    tables:
"""


def lake_yaml(engine: str, source: str, location: str | None, tables: Sequence[SourceTable]) -> str:
    """The file's text. Without a location, it refers to the environment variable DMS_LOCATION."""
    lines = source_lines(source, location, tables)
    return _HEAD.format(engine=engine) + "".join(line + "\n" for line in lines)


def source_lines(source: str, location: str | None, tables: Sequence[SourceTable]) -> list[str]:
    """The section of a source in `sources`, as indented there."""
    where = "${DMS_LOCATION}" if location is None else key(location)
    head = _SOURCE.format(source=source, location=where)
    return [*head.splitlines(), *table_lines(tables)]


def table_lines(tables: Sequence[SourceTable]) -> list[str]:
    """The sections of tables in a source's `tables`, as indented there."""
    names = _silver_names(tables)
    return [line for table in tables for line in _table(table, names)]


def open_decisions(tables: Sequence[SourceTable]) -> list[str]:
    """The decisions that the user has to make before the file is valid, a sentence each."""
    found = []
    for table in tables:
        place = table_text(table.schema, table.name)
        if not table.primary_key:
            found.append(f"{place} has no primary key: declare one, or its mode")
        found += [
            f"{place}.{c.name}: {c.declared.comment}" for c in table.columns if not c.declared.is_decided
        ]
    return found


def _table(table: SourceTable, names: dict[tuple[str, str], str | None]) -> Iterator[str]:
    yield f"      {key(table_text(table.schema, table.name))}:"
    if (name := names[table.schema, table.name]) is not None:
        yield f"        name: {name}"
    if table.primary_key:
        yield f"        primary_key: {listed(table.primary_key)}"
    else:
        yield "        # No primary key at the source: with some engines, its changes then never arrive. Declare one"
        yield "        # if some columns are unique, else set mode: append_log (inserts only), full_row or change_log."
        for unique in table.unique_keys:
            yield f"        # Unique and NOT NULL at the source: primary_key: {listed(unique)}"
        yield f"        mode: {UNDECIDED}"
    yield "        columns:"
    yield from map(_column, table.columns)
    if any(column.comment for column in table.columns):
        yield "        comments:                         # of the source's columns"
        for column in table.columns:
            if column.comment:
                yield f"          {key(column.name)}: {value(' '.join(column.comment.split()))}"


def _column(column: SourceColumn) -> str:
    declared = column.declared.type + (" not null" if column.required and column.declared.is_decided else "")
    # A source's names may have any characters, but must not end the comment's line.
    comment = " ".join((column.declared.comment or "").split())
    return f"          {key(column.name)}: {declared}" + (f"  # {comment}" if comment else "")


def _silver_names(tables: Sequence[SourceTable]) -> dict[tuple[str, str], str | None]:
    """The `name:` of each table that needs one, because its own name is not a valid silver name, or is also that of a
    table of another schema."""
    own = [table.name.lower() for table in tables]
    names: dict[tuple[str, str], str | None] = {}
    for table, name in zip(tables, own, strict=True):
        if own.count(name) > 1:
            name = f"{table.schema.lower()}_{name}"
        plain = re.sub(r"[^a-z0-9_]", "_", name)
        if not _SILVER_NAME.fullmatch(plain):
            plain = f"_{plain}"
        names[table.schema, table.name] = None if plain == table.name.lower() else plain
    return names
