"""A lake whose empty racks raise alarms, over a mart that PyIceberg writes: no Spark is needed.

Here: the lake, its racks, a round of sending. Not here: the server that takes the alarms (`servers/webhook.py`).
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from lake_assets.alarms.alarm_log import AlarmLog
from lake_assets.alarms.send_alarms import AlarmRound, send_alarms
from lake_assets.config import LakeConfig
from lake_assets.lake import Lake, open_lake

MART = "lake_assets.demo.marts.racks_empty_now"
SINCE = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ALARM = {
    "key": ["station_id"],
    "spell": "empty_since",
    "where": "state = 'close' OR state = 'breach'",
    "text": "{name} is empty since {empty_since}.",
}
STATION_STATUS = {
    "primary_key": ["station_id"],
    "also": ["change_log"],
    "columns": {"station_id": "int not null", "bikes_available": "int", "docks_available": "int"},
}
STATIONS = {
    "primary_key": ["station_id"],
    "columns": {"station_id": "int not null", "name": "string", "district": "string"},
}


def raw(folder: Path, webhook: str | None, **alarm: Any) -> dict[str, Any]:
    """A lake.yaml with the alarm; `alarm` replaces its settings."""
    tables = {"public.station_status": STATION_STATUS, "public.stations": STATIONS}
    dms = {"timestamp_column_name": "commit_ts", "add_column_name": True}
    return {
        "catalog": {"uri": str(folder / "catalog.db"), "warehouse": str(folder / "warehouse")},
        "sources": {"bikeshare": {"location": str(folder / "bronze"), "dms": dms, "tables": tables}},
        "gold": {"marts": [MART]},
        "alarms": {"webhook": webhook, "marts": {"racks_empty_now": ALARM | alarm}},
    }


def lake_of(folder: Path, webhook: str | None, **alarm: Any) -> Lake:
    return open_lake(LakeConfig.model_validate(raw(folder, webhook, **alarm)))


def rack(number: int, state: str = "close", since: datetime | None = SINCE) -> dict[str, Any]:
    return {"station_id": number, "name": f"Rack {number}", "empty_since": since, "state": state}


SCHEMA = pa.schema(
    [
        ("station_id", pa.int32()),
        ("name", pa.string()),
        ("empty_since", pa.timestamp("us", "UTC")),
        ("state", pa.string()),
    ]
)


def write(lake: Lake, *rows: dict[str, Any]) -> None:
    """The mart has these rows."""
    catalog = lake.runtime.catalog
    catalog.create_namespace_if_not_exists("gold")
    found = pa.Table.from_pylist(list(rows), schema=SCHEMA)
    catalog.create_table_if_not_exists("gold.racks_empty_now", SCHEMA).overwrite(found)


def sent(lake: Lake) -> AlarmRound:
    """One round, as by a process that knows only the lake."""
    return send_alarms(lake.runtime, AlarmLog(lake.runtime.catalog))
