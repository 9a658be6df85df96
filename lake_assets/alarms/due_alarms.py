"""The alarms that the rows of the marts raise now.

Here: from a mart's rows to alarms with their ids, and mistakes in the declaration. Not here: which have been sent
(`alarm_log.py`), sending (`send_alarms.py`). Reads with PyIceberg, without Spark.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField
from pyparsing import ParseBaseException

from lake_assets.config import LakeConfig
from lake_assets.config.outputs.alarms import MartAlarm
from lake_assets.errors import LakeError
from lake_assets.gold.mart import Mart
from lake_assets.iceberg.table_io import load_table


@dataclass(frozen=True, slots=True)
class Alarm:
    """One key in one spell."""

    id: str
    """Identifies the mart, key and spell; the same in every process and after every failure."""
    mart: str
    text: str
    row: Mapping[str, Any]
    """The row that raised it, as JSON has it."""


def due_alarms(catalog: Catalog, config: LakeConfig, mart: str) -> list[Alarm]:
    """The alarms of a mart's rows as they are now, sent or not; none for a mart that does not exist yet."""
    declared = config.alarms.marts[mart]
    table = load_table(catalog, f"gold.{mart}")
    if table is None:
        return []
    rows: list[dict[str, Any]] = table.scan(row_filter=_condition(declared)).to_arrow().to_pylist()
    identity = (*declared.key, declared.spell)
    found = (
        _alarm(mart, declared, row) for row in rows if all(row[column] is not None for column in identity)
    )
    # A mart without a key of its own may have a key twice.
    return sorted({alarm.id: alarm for alarm in found}.values(), key=lambda alarm: (alarm.text, alarm.id))


def _alarm(mart: str, declared: MartAlarm, row: Mapping[str, Any]) -> Alarm:
    shown = {
        name: value if isinstance(value, bool | int | float) else _text(value) for name, value in row.items()
    }
    identity = [mart, *(_text(row[column]) for column in (*declared.key, declared.spell))]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]
    template = declared.text or f"{mart}: " + ", ".join(
        f"{column} {{{column}}}" for column in (*declared.key, declared.spell)
    )
    return Alarm(
        digest, mart, template.format_map({name: _text(value) for name, value in row.items()}), shown
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _condition(declared: MartAlarm) -> BooleanExpression:
    return parse(declared.where) if declared.where else AlwaysTrue()


def refuse_impossible_alarms(marts: Sequence[Mart], config: LakeConfig) -> None:
    """Raises LakeError with every alarm whose mart or columns do not exist, or whose condition cannot be read."""
    by_name = {mart.name: mart for mart in marts}
    found = [
        f"alarms.marts.{name}: {text}"
        for name, declared in config.alarms.marts.items()
        for text in _mistakes(declared, by_name.get(name))
    ]
    if found:
        raise LakeError("\n".join(found))


def _mistakes(declared: MartAlarm, mart: Mart | None) -> Iterator[str]:
    if mart is None:
        yield "gold.marts has no mart of this name; add its module, or remove the alarm"
        return
    columns = [column.name for column in mart.columns]
    given = {"key": declared.key, "spell": (declared.spell,), "text": declared.text_columns}
    for setting, names in given.items():
        for column in names:
            if column not in columns:
                yield f"{setting} names {column or 'no column'}; the mart has {', '.join(columns)}"
    try:
        condition = _condition(declared)
    except ParseBaseException as error:
        yield f"where cannot be read at character {error.loc + 1}; write a condition such as state = 'close'"
        return
    fields = (NestedField(n, c.name, c.type) for n, c in enumerate(mart.columns, 1))
    try:
        bind(Schema(*fields), condition, case_sensitive=True)
    except (ValueError, TypeError) as error:
        yield f"where does not fit the mart ({error}); it has {', '.join(columns)}"
