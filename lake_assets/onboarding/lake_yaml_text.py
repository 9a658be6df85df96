"""The text of a lake.yaml for reflected tables.

Here: quoting, and a comment for each decision that is left to the user. Not here: reading the source (`reflect.py`),
names for silver (`silver_names.py`), advice about a table (`table_advice.py`). Pure. The text is not dumped by a YAML
library, because it has comments.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lake_assets.config import UNDECIDED, Mode, table_text
from lake_assets.onboarding.silver_names import renamed_columns, silver_names
from lake_assets.onboarding.table_advice import advice, without_key
from lake_assets.schema.spelling import key, listed, mapping, value
from lake_assets.storage.reflection.reflect import SourceColumn, SourceTable
from lake_assets.words import many

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
"""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the user has to decide before lake.yaml is valid."""

    place: str
    """`schema.table` or `schema.table.column`: the first one."""
    reason: str
    others: int = 0
    """Further columns of the source's type, which the same decision settles."""

    @property
    def sentence(self) -> str:
        more = f" (and {many(self.others, 'more column')} of the type)" if self.others else ""
        return f"{self.place}{more}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Shared:
    """What the tables of a source have in common in its section."""

    names: Mapping[tuple[str, str], str | None] = field(default_factory=dict)
    """`name:` by schema and table, where one is needed."""
    types: Collection[tuple[str, bool]] = ()
    """The undecided types with one decision for several columns, by the type and NOT NULL."""
    decided: set[tuple[str, bool]] = field(default_factory=set)
    """Those whose decision the text has already."""
    reserved: Collection[str] = ("Op",)
    """Columns that DMS adds."""
    before_images: bool | None = None
    """Whether the files have before images of all columns; None if that is not known."""


def head(engine: str) -> str:
    """The sections before `sources:`."""
    return _HEAD.format(engine=engine)


def source_lines(
    source: str, location: str | None, tables: Sequence[SourceTable], *, shared: bool = True
) -> list[str]:
    """The section of a source in `sources`, as indented there. Without a location, it refers to the environment
    variable DMS_LOCATION."""
    where = "${DMS_LOCATION}" if location is None else key(location)
    lobs = lob_decision(tables)
    asked = [] if lobs is None else [f"      lob_mode: {UNDECIDED}  # {lobs.reason}"]
    return [
        *_SOURCE.format(source=source, location=where).splitlines(),
        *asked,
        "    tables:",
        *table_lines(tables, shared=shared),
    ]


def table_lines(
    tables: Sequence[SourceTable], taken: Collection[str] = (), *, shared: bool = True
) -> list[str]:
    """The sections of tables in a source's `tables`, as indented there. `taken`: names of other silver tables of the
    source. `shared`: whether one decision settles an undecided type for all of its columns."""
    common = Shared(
        names=silver_names([(table.schema, table.name) for table in tables], taken),
        types=shared_types(tables) if shared else (),
    )
    return [
        f"      {line}"
        for table in tables
        for line in (f"{key(table_text(table.schema, table.name))}:", *table_body(table, common))
    ]


def shared_types(tables: Sequence[SourceTable]) -> set[tuple[str, bool]]:
    """The undecided types that several columns have, by the type and NOT NULL."""
    found = Counter(
        (of, column.required)
        for table in tables
        for column in table.columns
        if (of := column.declared.of) is not None
    )
    return {kind for kind, number in found.items() if number > 1}


def table_body(table: SourceTable, shared: Shared) -> Iterator[str]:
    """The lines of a table without its key in `tables`, indented by two."""
    renamed = renamed_columns([column.name for column in table.columns], shared.reserved, [Mode.CURRENT])
    if (name := shared.names.get((table.schema, table.name))) is not None:
        yield f"  name: {name}"
    for sentence in advice(table):
        yield f"  # {sentence}"
    if table.folders:
        yield f"  folders: {listed(table.folders)}"
    if table.primary_key:
        yield f"  primary_key: {listed(renamed.get(name, name) for name in table.primary_key)}"
    else:
        missing = without_key(table, shared.before_images)
        yield from (f"  # {sentence}" for sentence in missing.advice)
        if missing.key:
            yield f"  primary_key: {listed(renamed.get(name, name) for name in missing.key)}"
        else:
            yield f"  mode: {UNDECIDED}  # {missing.reason}"
    if large := _left_out(table):
        kept = listed(renamed.get(name, name) for name in large)
        yield f"  # kept_when_null: {kept}  # if updates that leave these large values as they are have NULL there"
    yield "  columns:"
    for column in table.columns:
        yield f"    {_column(column, renamed.get(column.name, column.name), shared)}"
    if renamed:
        given = {new: old for old, new in renamed.items()}
        yield f"  renamed_from: {mapping(given)}  # names that silver cannot have"
    if any(column.comment for column in table.columns):
        yield "  comments:                         # of the source's columns"
        for column in table.columns:
            if column.comment:
                name = renamed.get(column.name, column.name)
                yield f"    {key(name)}: {value(' '.join(column.comment.split()))}"


def _left_out(table: SourceTable) -> list[str]:
    """The columns whose large values an update may leave out, unless the source logs whole rows."""
    if table.storage is not None and table.storage.identity == "full":
        return []
    return [c.name for c in table.columns if c.declared.left_out and c.name not in table.primary_key]


def open_decisions(
    tables: Sequence[SourceTable], before_images: bool | None = None, *, ordered: bool = False
) -> list[Decision]:
    """The decisions about tables; those of one type of the source are one. `ordered`: whether the files have a change
    sequence."""
    found: list[Decision] = []
    shared = shared_types(tables)
    by_type: dict[tuple[str, bool], list[Decision]] = {}
    for table in tables:
        place = table_text(table.schema, table.name)
        if not table.primary_key and not (missing := without_key(table, before_images)).key:
            found.append(Decision(place, missing.reason))
        for column in table.columns:
            declared = column.declared
            if declared.is_decided:
                continue
            decision = Decision(f"{place}.{column.name}", declared.comment or "declare its type")
            if declared.of is not None and (kind := (declared.of, column.required)) in shared:
                by_type.setdefault(kind, []).append(decision)
            else:
                found.append(decision)
    if (partitioned := partition_decision(tables)) is not None and not ordered:
        found.insert(0, partitioned)
    grouped = [Decision(same[0].place, same[0].reason, len(same) - 1) for same in by_type.values()]
    return [*grouped, *found]


def partition_decision(tables: Sequence[SourceTable]) -> Decision | None:
    """What the files of partitioned tables need; None without one."""
    found = [table_text(table.schema, table.name) for table in tables if table.folders]
    if not found:
        return None
    return Decision(
        "change_sequence_column",
        f"only AR_H_CHANGE_SEQ orders the changes in the folders of partitions, as of {found[0]}: have the task's "
        "mapping add the column, and name it under dms",
    )


def lob_decision(tables: Sequence[SourceTable]) -> Decision | None:
    """What `lob_mode` decides for the source's LOB columns; None if it has none."""
    lobs = [f"{table_text(t.schema, t.name)}.{c.name}" for t in tables for c in t.columns if c.declared.lob]
    if not lobs:
        return None
    return Decision(
        "lob_mode",
        f"DMS cuts or leaves out LOBs, as {many(len(lobs), 'column')} may have them ({' '.join(lobs[0].split())}, …): "
        "declare none, or limited with lob_max_size and longest_lob, as in the task's settings",
    )


def _column(column: SourceColumn, name: str, shared: Shared) -> str:
    declared = column.declared
    text = declared.type + (" not null" if column.required else "")
    # A source's names may have any characters, but must not end the comment's line.
    comment = " ".join((declared.comment or "").split())
    if declared.of is not None and (kind := (declared.of, column.required)) in shared.types:
        anchor = re.sub(r"[^a-z0-9]+", "_", declared.of.lower()).strip("_") + (
            "_not_null" if column.required else ""
        )
        if kind in shared.decided:
            text, comment = f"*{anchor}", ""
        else:
            shared.decided.add(kind)
            text = f"&{anchor} {text}"
            comment = f"for each *{anchor} below, too: {comment}"
    return f"{key(name)}: {text}" + (f"  # {comment}" if comment else "")
