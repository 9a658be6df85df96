"""`lake-assets new`: adds a mart, a table or a source to a lake.

Here: the files, and the entries in lake.yaml. Not here: reading a database (`storage/reflection/`), the text of a
mart (`new_mart.py`), printing (`new_cli.py`).
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from lake_assets.commands.setup.new_mart import new_mart
from lake_assets.commands.setup.yaml_insert import with_entry
from lake_assets.config import UNDECIDED, TableName, table_mistake
from lake_assets.errors import LakeError
from lake_assets.lake import Lake
from lake_assets.onboarding.lake_yaml_text import source_lines, table_lines
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
    checked = check(open_lake(load_lake(LAKE)))
    assert [text for keys, text in checked.mistakes if keys[: len(KEYS)] == KEYS] == []
''')
"""What `lake-assets validate` checks, for a table or a source."""


def add_mart(config: Path, lake: Lake, name: str, table: str) -> list[Path]:
    """Writes `marts/NAME.py` and `tests/test_NAME.py` beside lake.yaml, and adds the mart to `gold.marts`. Returns the
    new files. Raises LakeError, and then writes nothing."""
    _require_name(name)
    if name in (mart.name for mart in lake.marts):
        raise LakeError(f"gold.marts has a mart {name} already; choose another name.")
    written = new_mart(name, _target(lake, table))
    texts = {f"marts/{name}.py": written.module, f"tests/test_{name}.py": written.test}
    return _written(config, ["gold", "marts"], [f"- marts/{name}.py"], texts)


def add_table(
    config: Path, lake: Lake, name: str, source: str | None, address: str | None
) -> tuple[list[Path], SourceTable]:
    """Adds `schema.table` to the source, by default the lake's only one, and writes `tests/test_SCHEMA_TABLE.py`. With
    a SQLAlchemy URL, its columns are read from the database. Returns the new file and the table. Raises LakeError and
    SourceError, and then writes nothing."""
    sources = list(lake.config.sources)
    if source is None and len(sources) > 1:
        raise LakeError(f"lake.yaml has the sources {', '.join(sources)}: name one with --source.")
    source = source or sources[0]
    if source not in sources:
        raise LakeError(f"lake.yaml has no source {source}; it has {', '.join(sources)}.")
    if name in lake.config.sources[source].tables:
        raise LakeError(f"sources.{source}.tables has {name} already.")
    table = _table(name, address, lake.runtime.aws.secrets)
    entry = textwrap.dedent("\n".join(table_lines([table]))).splitlines()
    keys = ["sources", source, "tables"]
    return _written(config, keys, entry, _test(name, [*keys, name])), table


def add_source(
    config: Path, lake: Lake, name: str, location: str | None, tables: Sequence[str], address: str | None
) -> tuple[list[Path], list[SourceTable]]:
    """Adds a source with these tables (`schema.table`), or all tables of the database at `address`, and writes
    `tests/test_NAME.py`. Returns the new file and the tables. Raises LakeError and SourceError, and then writes
    nothing."""
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
        found = read_tables(address or "", secrets=secrets)[1]
    entry = textwrap.dedent("\n".join(source_lines(name, location, found))).splitlines()
    return _written(config, ["sources"], entry, _test(name, ["sources", name])), found


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
    for found in read_tables(address, [schema], secrets)[1]:
        if found.name == table:
            return found
    raise LakeError(f"The database has no table {name} that its user can read.")


def _test(title: str, keys: Sequence[str]) -> dict[str, str]:
    """The test of lake.yaml's entry at the keys, by its path."""
    place = f"tests/test_{re.sub(r'[^a-z0-9]', '_', title.lower())}.py"
    return {place: TEST.substitute(title=title, keys=tuple(keys))}


def _written(config: Path, keys: list[str], entry: list[str], texts: Mapping[str, str]) -> list[Path]:
    """Adds the entry to lake.yaml, and writes the texts to their paths beside it."""
    files = {config.absolute().parent / place: text for place, text in texts.items()}
    if existing := [str(path) for path in files if path.exists()]:
        raise LakeError(f"{existing[0]} exists and is not overwritten; choose another name.")
    changed = with_entry(config.read_text(encoding="utf-8"), keys, entry)
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    config.write_text(changed, encoding="utf-8")
    return list(files)
