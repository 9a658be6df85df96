"""Tables whose columns lake.yaml leaves to the source database (`columns: from_database`).

Here: their columns and key, from the first contract of the table or, before it has one, from the database. Not here:
reading the database (`schema/at_source.py`), columns that the source changes later (`schema/current.py`).
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from lake_assets.config import LakeConfig, Mode, TableConfig
from lake_assets.config.config_file import mistakes_of
from lake_assets.errors import LakeError, TableStopped
from lake_assets.runtime import LakeRuntime


def with_columns(lake: LakeConfig, runtime: LakeRuntime) -> tuple[LakeConfig, list[str]]:
    """The configuration with the columns of such tables; and for each table that has to wait, why. It is left out.
    Raises LakeError if no table is left, or if the columns do not fit what lake.yaml says of several tables."""
    found: dict[tuple[str, str], Mapping[str, Any] | None] = {}
    waiting = []
    for source, table in lake.open_tables:
        try:
            found[source, table] = _keys(lake, runtime, source, table)
        except TableStopped as stop:
            found[source, table] = None
            waiting.append(str(stop))
    if not found:
        return lake, []
    if len(waiting) == sum(len(source.tables) for source in lake.sources.values()):
        raise LakeError("\n".join(waiting))
    try:
        return lake.with_tables(found), waiting
    except ValidationError as error:
        raise LakeError("\n".join(_sentences(error))) from None


def _keys(lake: LakeConfig, runtime: LakeRuntime, source: str, table: str) -> dict[str, Any]:
    config = lake.sources[source].tables[table]
    new_names = {old: new for new, old in config.renamed_from.items()}
    silver = f"silver_{source}.{lake.sources[source].silver_name(table)}"
    recorded = runtime.contracts.of(silver).newest
    if recorded is None:
        columns, key = runtime.at_source(source, table).declared(config.ignore, new_names)
    else:
        # As lake.yaml said them when the newest contract began; what files brought since is in the contract.
        known, key = recorded.configured.columns, recorded.configured.primary_key
        columns = {
            new_names.get(column.name, column.name): f"{column.type} not null"
            if column.required
            else column.type
            for column in known
            if column.name not in config.ignore
        }
        key = tuple(new_names.get(name, name) for name in key)
    keys: dict[str, Any] = {"columns": columns}
    if not config.primary_key and config.mode is not Mode.FULL_ROW:
        keys["primary_key"] = list(key)
    try:
        TableConfig.model_validate({**lake.given(source, table), **keys})
    except ValidationError as error:
        raise TableStopped(
            table,
            f"the columns of the source database do not fit lake.yaml ({'; '.join(_sentences(error))}).",
            "List the table's columns, or change what lake.yaml says of it.",
        ) from None
    return keys


def _sentences(error: ValidationError) -> list[str]:
    return [f"{'.'.join(map(str, keys))}: {text}" for keys, text in mistakes_of(error, {})]
