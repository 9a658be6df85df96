"""Tables whose columns lake.yaml leaves to the source database (`columns: from_database`).

Here: their columns and key when a lake is opened, from the table's contract or, before it has one, from the database.
Not here: reading the database, and the columns when a batch begins (`schema/at_source.py`, `schema/contract.py`).
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from lake_assets.config import KEYED_MODES, LakeConfig, Mode
from lake_assets.config.config_file import mistakes_of
from lake_assets.errors import LakeError, TableStopped
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.contract import left_to_source

Place = tuple[str, str]
"""Source and table (`schema.table`)."""


def with_columns(lake: LakeConfig, runtime: LakeRuntime) -> tuple[LakeConfig, dict[Place, str]]:
    """The configuration with the columns of such tables; and by table that has to wait, why. It is left out. Raises
    LakeError if no table is left, or for mistakes of other tables that the columns show."""
    found: dict[Place, Mapping[str, Any] | None] = {}
    waiting: dict[Place, str] = {}
    for source, table in lake.open_tables:
        try:
            found[source, table] = _keys(lake, runtime, source, table)
        except TableStopped as stop:
            found[source, table], waiting[source, table] = None, str(stop)
    while len(waiting) < sum(len(source.tables) for source in lake.sources.values()):
        content = lake.given_with(found)
        try:
            opened = LakeConfig.model_validate(content)
        except ValidationError as error:
            of_tables, others = _mistakes(lake, error, content)
            news = {place: texts for place, texts in of_tables.items() if found.get(place) is not None}
            if not news:
                sentences = [
                    *waiting.values(),
                    *others,
                    *(text for all in of_tables.values() for text in all),
                ]
                raise LakeError("\n".join(sentences)) from None
            for (source, table), texts in news.items():
                found[source, table] = None
                waiting[source, table] = (
                    f"{table}: the columns of the source database do not fit lake.yaml ({'; '.join(texts)}). List the "
                    "table's columns, or change what lake.yaml says of it."
                )
        else:
            for (source, table), keys in found.items():
                if keys is not None:
                    opened.sources[source].tables[table].leave_to_source()
            return opened, waiting
    raise LakeError("\n".join(waiting.values()))


def _keys(lake: LakeConfig, runtime: LakeRuntime, source: str, table: str) -> dict[str, Any]:
    config = lake.sources[source].tables[table]
    silver = f"silver_{source}.{lake.sources[source].silver_name(table)}"
    at_source = runtime.at_source(source, table)
    if (recorded := runtime.contracts.of(silver).newest) is None:
        columns, key = at_source.declared(config.ignore, config.renamed_from)
    else:
        columns, key = left_to_source(table, recorded.contract, config.ignore, config.renamed_from)
        if not key and not config.primary_key and config.mode in KEYED_MODES:
            _, key = at_source.declared(config.ignore, config.renamed_from)
    keys: dict[str, Any] = {
        "columns": {
            column.name: f"{column.type} not null" if column.required else column.type for column in columns
        }
    }
    if not config.primary_key and config.mode is not Mode.FULL_ROW:
        keys["primary_key"] = list(key)
    return keys


def _mistakes(
    lake: LakeConfig, error: ValidationError, content: dict[str, Any]
) -> tuple[dict[Place, list[str]], list[str]]:
    """The mistakes of tables that are open, and those of anything else."""
    of_tables: dict[Place, list[str]] = defaultdict(list)
    others = []
    for keys, text in mistakes_of(error, content):
        place = (str(keys[1]), str(keys[3])) if len(keys) > 3 and keys[2] == "tables" else None
        if place in lake.open_tables:
            of_tables[place].append(": ".join([".".join(map(str, keys[4:])), text]).removeprefix(": "))
        else:
            others.append(f"{'.'.join(map(str, keys))}: {text}")
    return of_tables, others
