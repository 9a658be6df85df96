"""`lake-assets init`: writes a lake.yaml from a source database.

Here: writing the file. Not here: its content (`onboarding/`), reading the source (`storage/reflection/`), printing
(`cli.py`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lake_assets.commands.dms.import_endpoint import documents_of
from lake_assets.commands.setup.dagster_files import place
from lake_assets.onboarding.endpoint_import.lake_section import section_from_database
from lake_assets.onboarding.json_schema import SCHEMA, schema_text
from lake_assets.onboarding.lake_yaml_text import (
    Decision,
    head,
    lob_decision,
    open_decisions,
    source_lines,
)
from lake_assets.onboarding.partitions import joined
from lake_assets.storage.database_connection import SourceError
from lake_assets.storage.reflection.reflect import Reading, read_tables


@dataclass(frozen=True, slots=True)
class Written:
    """What was written."""

    engine: str
    text: str
    tables: int
    columns: int
    undecided: list[Decision]
    """The decisions that `validate` requires from the user."""
    left_out: list[str]
    """What the file does not have, a phrase for each kind."""


def init(
    address: str,
    output: Path | None,
    *,
    schemas: list[str],
    source: str,
    location: str | None,
    documents: Sequence[Path] = (),
) -> Written:
    """Writes `output`, which must not exist yet, and Dagster's files beside it. With None, only returns the text.
    `documents`: AWS's descriptions of the endpoints and the task, whose settings and table mapping then count. Raises
    SourceError and DocumentError."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", source):
        raise SourceError(f"The source's name {source!r} must be lower case letters, digits and _.")
    if output is not None and output.exists():
        raise SourceError(f"{output} exists and is not overwritten: name another file with --output.")
    if documents:
        written = _with_documents(address, schemas, source, location, documents)
    else:
        written = _from_database(read_tables(address, schemas), source, location)
    if output is not None:
        _write(output, written.text)
    return written


def _from_database(reading: Reading, source: str, location: str | None) -> Written:
    tables = joined(reading.tables)
    lines = ["sources:", *source_lines(source, location, tables)]
    lobs = lob_decision(tables)
    return Written(
        reading.engine,
        head(reading.engine) + "".join(line + "\n" for line in lines),
        len(tables),
        sum(len(table.columns) for table in tables),
        [*([lobs] if lobs is not None else []), *open_decisions(tables)],
        list(reading.left_out),
    )


def _with_documents(
    address: str, schemas: Sequence[str], source: str, location: str | None, documents: Sequence[Path]
) -> Written:
    section = section_from_database(
        documents_of(documents),
        source,
        location,
        lambda settings: read_tables(address, schemas, settings=settings),
    )
    return Written(
        section.engine,
        head(section.engine) + section.text,
        len(section.tables),
        sum(len(table.columns) for table in section.tables),
        list(section.undecided),
        list(section.left_out),
    )


def _write(output: Path, text: str) -> None:
    # `x`: a file that another process creates meanwhile is not overwritten either.
    with output.open("x", encoding="utf-8") as file:
        file.write(text)
    folder = output.absolute().parent
    place(folder)
    (folder / SCHEMA).write_text(schema_text(), encoding="utf-8")
