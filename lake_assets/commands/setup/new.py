"""`lake-assets new`: adds a mart, a table or a source to a lake.

Here: the files, and the entries in lake.yaml. Not here: reading a database (`storage/reflection/`), the text of a
mart (`new_mart.py`), printing (`new_cli.py`).
"""

import json
import re
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from string import Template

from lake_assets.commands.setup.new_mart import new_mart
from lake_assets.config import FURTHER_SHAPES, UNDECIDED, SourceConfig, TableName, table_mistake
from lake_assets.config.config_file import ConfigError, load_lake
from lake_assets.errors import LakeError
from lake_assets.lake import Lake
from lake_assets.onboarding.lake_yaml_text import (
    Decision,
    lob_decision,
    open_decisions,
    source_lines,
    table_lines,
)
from lake_assets.onboarding.partitions import joined
from lake_assets.onboarding.yaml_insert import with_entry
from lake_assets.silver.table.targets import Target
from lake_assets.storage.reflection.declared import Declared
from lake_assets.storage.reflection.reflect import SourceColumn, SourceTable, read_tables
from lake_assets.storage.secret_values import Secrets

NAME = re.compile(r"[a-z_][a-z0-9_]*")
TEST = Template('''\
"""$title: lake.yaml declares it completely, and its newest files fit."""

from pathlib import Path

from lake_assets.commands.setup.validate import check
from lake_assets.config.config_file import load_lake
from lake_assets.lake import open_lake

LAKE = Path(__file__).parents[1] / "lake.yaml"
KEYS = $keys


def test_the_declaration() -> None:
    lake = load_lake(LAKE)
    assert $declared
    checked = check(open_lake(lake))
    assert [text for keys, text in checked.mistakes if keys[: len(KEYS)] == KEYS] == []
''')
"""What `lake-assets validate` checks, for a table or a source."""


@dataclass(frozen=True, slots=True)
class Added:
    """What was added."""

    undecided: list[Decision]
    """If there are any, the entry is a comment in lake.yaml: with something undecided in it, no command could read the
    file."""
    test: Path


def add_mart(config: Path, lake: Lake, name: str, table: str) -> list[Path]:
    """Writes `marts/NAME.py` and `tests/test_NAME.py` beside lake.yaml, and adds the mart to `gold.marts`. Returns the
    new files. Raises LakeError, and then writes nothing."""
    _require_name(name)
    if name in (mart.name for mart in lake.marts):
        raise LakeError(f"gold.marts has a mart {name} already; choose another name.")
    written = new_mart(name, _target(lake, table))
    folder = config.absolute().parent
    texts = {folder / f"marts/{name}.py": written.module, folder / f"tests/test_{name}.py": written.test}
    if existing := [str(path) for path in texts if path.exists()]:
        raise LakeError(f"{existing[0]} exists and is not overwritten; choose another name.")
    _written(config, ["gold", "marts"], [f"- marts/{name}.py"], texts)
    return list(texts)


def add_table(config: Path, lake: Lake, name: str, source: str | None, address: str | None) -> Added:
    """Adds `schema.table` to the source, by default the lake's only one, and writes `tests/test_SCHEMA_TABLE.py`. With
    a SQLAlchemy URL, its columns are read from the database. Raises LakeError and SourceError, and then writes
    nothing."""
    sources = list(lake.config.sources)
    if source is None and len(sources) > 1:
        raise LakeError(f"lake.yaml has the sources {', '.join(sources)}: name one with --source.")
    source = source or sources[0]
    if source not in sources:
        raise LakeError(f"lake.yaml has no source {source}; it has {', '.join(sources)}.")
    if name in lake.config.sources[source].tables:
        raise LakeError(f"sources.{source}.tables has {name} already.")
    table = _table(name, address, lake.runtime.aws.secrets)
    taken = _silver_names(lake.config.sources[source])
    entry = textwrap.dedent("\n".join(table_lines([table], taken, shared=False))).splitlines()
    undecided = open_decisions([table])
    keys = ["sources", source, "tables"]
    declared = f"{json.dumps(name, ensure_ascii=False)} in lake.sources[{json.dumps(source)}].tables"
    test = _test(config, name, [*keys, name], declared)
    _written(config, keys, _commented(entry) if undecided else entry, test)
    return Added(undecided, *test)


def add_source(
    config: Path, lake: Lake, name: str, location: str | None, tables: Sequence[str], address: str | None
) -> Added:
    """Adds a source with these tables (`schema.table`), or all tables of the database at `address`, and writes
    `tests/test_NAME.py`. Raises LakeError and SourceError, and then writes nothing."""
    _require_name(name)
    if name in lake.config.sources:
        raise LakeError(f"lake.yaml has a source {name} already; choose another name.")
    if not tables and address is None:
        raise LakeError(
            "A source needs a table: name one with --table, or read all with --from-database URL."
        )
    secrets = lake.runtime.aws.secrets
    if tables:
        found = [_table(table, address, secrets) for table in tables]
    else:
        found = joined(read_tables(address or "", secrets=secrets).tables)
    entry = textwrap.dedent("\n".join(source_lines(name, location, found))).splitlines()
    lobs = lob_decision(found)
    undecided = [*([lobs] if lobs is not None else []), *open_decisions(found)]
    test = _test(config, name, ["sources", name], f"{json.dumps(name)} in lake.sources")
    _written(config, ["sources"], _commented(entry) if undecided else entry, test)
    return Added(undecided, *test)


def _require_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise LakeError(
            f"The name {name!r} must be lower case letters, digits and _, and not begin with a digit."
        )


def _target(lake: Lake, table: str) -> Target:
    for target in lake.targets:
        if target.is_called(table):
            return target
    known = ", ".join(target.name for target in lake.targets)
    raise LakeError(f"lake.yaml has no table {table}; it has {known}.")


def _table(name: str, address: str | None, secrets: Secrets) -> SourceTable:
    if (wrong := table_mistake(name)) is not None:
        raise LakeError(f"The table {name} {wrong}.")
    schema, table = TableName.parse(name)
    if address is None:
        undecided = SourceColumn("id", Declared(UNDECIDED, "list all columns of the table"), required=True)
        return SourceTable(schema, table, (undecided,), ("id",))
    every = read_tables(address, [schema], secrets).tables
    for found in (*joined(every), *every):
        if found.name == table:
            return found
    raise LakeError(f"The database has no table {name} that its user can read.")


def _silver_names(source: SourceConfig) -> set[str]:
    """The names that the source's silver tables have."""
    return {
        f"{silver}{FURTHER_SHAPES.get(shape, '')}"
        for name, table in source.tables.items()
        for silver in (table.name or TableName.parse(name).silver,)
        for shape in (table.mode, *table.also)
    }


def _commented(entry: Sequence[str]) -> list[str]:
    return [f"# {line}" for line in entry]


def _test(config: Path, title: str, keys: Sequence[str], declared: str) -> dict[Path, str]:
    """The test of lake.yaml's entry at the keys, by a path that no other file has. `declared`: the condition that the
    lake has the entry."""
    text = TEST.substitute(title=title, keys=tuple(keys), declared=declared)
    plain = re.sub(r"\W", "_", title.lower())
    folder = config.absolute().parent / "tests"
    paths = (folder / f"test_{plain}{'' if number == 1 else f'_{number}'}.py" for number in count(1))
    # A test that is there for the same entry stays as it is.
    return {next(p for p in paths if not p.exists() or p.read_text(encoding="utf-8") == text): text}


def _written(config: Path, keys: list[str], entry: list[str], texts: Mapping[Path, str]) -> None:
    """Adds the entry to lake.yaml, if that is valid with it, and writes the texts to their paths."""
    changed = with_entry(config.read_text(encoding="utf-8"), keys, entry)
    # Beside lake.yaml, whose relative paths are those of its folder; then moved, so that no command reads half of it.
    with tempfile.NamedTemporaryFile(
        "w", dir=config.absolute().parent, prefix=f".{config.name}.", delete=False, encoding="utf-8"
    ) as file:
        file.write(changed)
    draft = Path(file.name)
    try:
        load_lake(draft)
        for path, text in texts.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        draft.chmod(config.stat().st_mode)
        draft.replace(config.resolve())
    except ConfigError as refused:
        mistakes = "\n".join(refused.mistakes)
        raise LakeError(f"Nothing is written, because {config} would not be valid:\n{mistakes}") from None
    finally:
        draft.unlink(missing_ok=True)
