"""Names of silver tables and columns for what a source calls otherwise.

Here: making them valid and unique. Not here: the rules for a name (`config/`). Pure.

Dagster makes names of ops, inputs and outputs from an asset's key, and allows only ASCII letters, digits and `_` in
them (docs/decisions.md). So letters lose their accents, and a letter of another script becomes its code point: 日本 is
u65e5u672c.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from itertools import count

from lake_assets.config import Mode, name_mistake
from lake_assets.schema.names import free_name
from lake_assets.table_name import TableName

LONGEST = 120
"""Characters: the name is a folder in the warehouse, and part of names in Dagster."""
_ACCENTS = re.compile("[\u0300-\u036f]")


def silver_names(
    tables: Sequence[tuple[str, str]], taken: Collection[str] = ()
) -> dict[tuple[str, str], str | None]:
    """The `name:` of each table (schema, table) that needs one, because its own name is not valid, or is also that of
    another table or in `taken`. A table whose name is valid as it is keeps it before others get it."""
    plain = [_plain(table) for _, table in tables]
    schemas = {
        name: {schema for (schema, _), other in zip(tables, plain, strict=True) if other == name}
        for name in plain
    }
    wanted = {
        (schema, table): name
        if len(schemas[name]) == 1 and name not in taken
        else _plain(f"{schema}_{table}")
        for (schema, table), name in zip(tables, plain, strict=True)
    }
    used = set(taken)
    names: dict[tuple[str, str], str | None] = {}
    # A name that is right as it is comes first.
    for place in sorted(wanted, key=lambda place: wanted[place] != place[1]):
        name = next(free for free in _numbered(wanted[place]) if free not in used)
        used.add(name)
        names[place] = None if name == TableName(*place).silver else name
    return names


def renamed_columns(
    columns: Sequence[str], reserved: Collection[str], shapes: Collection[Mode]
) -> dict[str, str]:
    """By column of the source that a table of these shapes cannot have under its name, the name for silver. `reserved`:
    names of columns that DMS adds to the files."""
    first: dict[str, str] = {}
    # Of columns that differ by case, the one in lower case keeps its name, else the first.
    for name in sorted(columns, key=lambda name: name != name.lower()):
        if name not in reserved and name_mistake(name, (), shapes) is None:
            first.setdefault(name.lower(), name)
    used, found = [*columns, *reserved], dict[str, str]()
    for name in columns:
        if first.get(name.lower()) != name:
            found[name] = free_name(name, used, shapes)
            used.append(found[name])
    return found


def _plain(name: str) -> str:
    """The name in lower-case ASCII letters, digits and `_`."""
    text = _ACCENTS.sub("", unicodedata.normalize("NFKD", name.casefold()))
    text = "".join(_ascii(character) for character in text)
    return (text if re.match(r"[a-z_]", text) else f"_{text}")[:LONGEST]


def _ascii(character: str) -> str:
    if re.fullmatch(r"[a-z0-9_]", character):
        return character
    return f"u{ord(character):04x}" if unicodedata.category(character)[0] in "LMN" else "_"


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}_{number}" for number in count(2))
