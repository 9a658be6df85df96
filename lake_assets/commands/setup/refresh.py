"""`lake-assets init --refresh`: brings the columns in lake.yaml up to those of the source databases.

Here: the differences, and writing them. Not here: editing the text (`yaml_columns.py`), reading a database
(`storage/reflection/`), printing (`cli.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lake_assets.checks.schema_rules import by_new_names
from lake_assets.config import SourceConfig, TableConfig, TableName
from lake_assets.config.config_file import ConfigError, included_tables, load_lake
from lake_assets.errors import LakeError
from lake_assets.lake import Lake
from lake_assets.onboarding.yaml_columns import Edit, with_edits
from lake_assets.schema.promotion import holds, widens
from lake_assets.storage.reflection.reflect import SourceTable, read_tables
from lake_assets.words import many


@dataclass(slots=True)
class Refreshed:
    """What a refresh found."""

    texts: dict[Path, str] = field(default_factory=dict)
    """By changed file, its new text."""
    changes: list[str] = field(default_factory=list)
    """A sentence for each column that is written."""
    left: list[str] = field(default_factory=list)
    """A sentence for each difference that the user has to decide."""


def refresh(config: Path, lake: Lake) -> Refreshed:
    """Compares the tables of each source that has a `database` with it. Raises SourceError and LakeError."""
    sources = {name: source for name, source in lake.config.sources.items() if source.database is not None}
    if not sources:
        raise LakeError(
            "No source of lake.yaml has a database: add its SQLAlchemy URL as database, and run again."
        )
    included, found = included_tables(config), Refreshed()
    for name, source in sources.items():
        at_source = _tables(source, lake)
        for table, own in source.tables.items():
            if own.is_left_to_source:
                continue  # its columns are not in lake.yaml
            if (theirs := at_source.get(table)) is None:
                found.left.append(f"{table}: the source has no such table, or its user may not read it")
                continue
            edits = list(_edits(own, by_new_names(theirs, own.renamed_from), found.left, table))
            if edits and not source.settings(table).add_column_name:
                # A file without a header shows when its columns change; lake.yaml may be ahead of the files.
                found.left.append(
                    f"{table}: its columns differ in {many(len(edits), 'place')}; the first file with another number "
                    "of fields changes the table by itself"
                )
                continue
            keys = ["sources", name, "tables", table, "columns"]
            file = config
            if (name, table) in included.files:
                file, keys = included.files[name, table][0], [table, "columns"]
            if edits:
                text = found.texts.get(file) or file.read_text(encoding="utf-8")
                found.texts[file] = with_edits(text, keys, edits)
                found.changes += [f"{table}: {edit}" for edit in edits]
    return found


def write(config: Path, texts: dict[Path, str]) -> None:
    """Writes the texts. Raises LakeError, and leaves all files as they were, if lake.yaml would not be valid."""
    before = {file: file.read_text(encoding="utf-8") for file in texts}
    for file, text in texts.items():
        _replace(file, text)
    try:
        load_lake(config)
    except ConfigError as refused:
        for file, text in before.items():
            _replace(file, text)
        mistakes = "\n".join(refused.mistakes)
        raise LakeError(f"Nothing is written, because {config} would not be valid:\n{mistakes}") from None


def _replace(file: Path, text: str) -> None:
    """In one step, so that no command reads half of the file."""
    real = file.resolve()
    draft = real.with_name(f".{real.name}.new")
    draft.write_text(text, encoding="utf-8", newline="\r\n" if b"\r\n" in real.read_bytes() else "\n")
    draft.chmod(real.stat().st_mode)
    draft.replace(real)


def _tables(source: SourceConfig, lake: Lake) -> dict[str, SourceTable]:
    schemas = sorted({TableName.parse(table).schema for table in source.tables})
    assert source.database is not None, "refresh selects such sources"
    reading = read_tables(source.database.get_secret_value(), schemas, lake.runtime.aws.secrets)
    return {str(TableName(table.schema, table.name)): table for table in reading.tables}


def _edits(own: TableConfig, source: SourceTable, left: list[str], table: str) -> Iterator[Edit]:
    # A rule of the task's mapping may write all names in lower or upper case.
    known = {column.name.casefold(): column for column in own.columns}
    ignored = {name.casefold() for name in own.ignore}
    at_source = {column.name.casefold(): column for column in source.columns}
    before: str | None = None
    for name, column in at_source.items():
        declared = column.declared
        if (kept := known.get(name)) is None:
            if name in ignored:
                continue
            if declared.is_decided:
                # It may be NULL: rows that are older than the column lack it.
                yield Edit("add", column.name, declared.type, after=before)
                before = column.name
            else:
                left.append(
                    f"{table}: column {column.name} is new, and its type is open ({declared.comment})"
                )
            continue
        before = kept.name
        required = kept.required and column.required
        wider = declared.is_decided and widens(kept.type, declared.type)
        if wider or required != kept.required:
            kind = declared.type if wider else kept.type
            yield Edit("change", kept.name, f"{kind} not null" if required else kind)
        elif declared.is_decided and kept.type != "string" and not holds(kept.type, declared.type):
            left.append(f"{table}: column {kept.name} is {declared.type} at the source, and {kept.type} here")
    # Late files may still have it, and a rule of the mapping may add it.
    left += [f"{table}: the source has no column {c.name}" for n, c in known.items() if n not in at_source]


def shown(found: Refreshed) -> Sequence[str]:
    """The lines that report what was found."""
    return [*found.changes, *(f"left to you: {text}" for text in found.left)]
