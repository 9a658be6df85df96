"""The seven tables of the bike-sharing company, as data.

Here: names, columns in source order with their Iceberg types, primary keys. Not here: how SQLite stores a value
(`source_values.py`), how a DMS file writes one (`demo/dms/dms_csv.py`, `demo/dms/dms_parquet.py`), or what the rows
mean (`demo/company/city.py`).
"""

from dataclasses import dataclass
from functools import cached_property

SCHEMA = "public"


@dataclass(frozen=True)
class Column:
    """One source column: its Iceberg type name (`long`, `decimal(10, 2)`, …) and whether it is NOT NULL."""

    name: str
    type: str
    required: bool

    @property
    def declaration(self) -> str:
        """As `lake.yaml` spells it: `long not null`."""
        return f"{self.type} not null" if self.required else self.type

    @cached_property
    def precision_and_scale(self) -> tuple[int, int]:
        """Precision and scale of a decimal column. Raises ValueError for any other type."""
        if not self.type.startswith("decimal("):
            raise ValueError(f"column {self.name} is {self.type}, not a decimal")
        precision, scale = self.type.removeprefix("decimal(").removesuffix(")").split(",")
        return int(precision), int(scale)


@dataclass(frozen=True)
class SourceTable:
    """One source table; `primary_key` is empty for a table that has none."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        """Where the primary key's columns stand among `columns`, in the key's order."""
        return tuple(self.column_names.index(name) for name in self.primary_key)


def _table(name: str, primary_key: tuple[str, ...], columns: dict[str, str]) -> SourceTable:
    return SourceTable(
        name,
        tuple(
            Column(column, declaration.removesuffix(" not null"), declaration.endswith(" not null"))
            for column, declaration in columns.items()
        ),
        primary_key,
    )


_ALL = (
    _table(
        "stations",
        ("station_id",),
        {
            "station_id": "int not null",
            "name": "string not null",
            "district": "string not null",
            "capacity": "int not null",
            "latitude": "double not null",
            "longitude": "double not null",
            "opened_on": "date not null",
            "is_active": "boolean not null",
        },
    ),
    _table(
        "bikes",
        ("bike_id",),
        {
            "bike_id": "long not null",
            "model": "string not null",
            "is_electric": "boolean not null",
            "battery_percent": "decimal(5, 2)",
            "bought_on": "date not null",
            "status": "string not null",
        },
    ),
    _table(
        "members",
        ("member_id",),
        {
            "member_id": "long not null",
            "email": "string not null",
            "full_name": "string not null",
            "phone": "string",
            "birth_date": "date",
            "plan": "string not null",
            "note": "string",
            "joined_at": "timestamptz not null",
        },
    ),
    _table(
        "trips",
        ("trip_id",),
        {
            "trip_id": "long not null",
            "bike_id": "long not null",
            "member_id": "long not null",
            "start_station_id": "int not null",
            "end_station_id": "int",
            "started_at": "timestamptz not null",
            "ended_at": "timestamptz",
            "distance_km": "double",
            "fare": "decimal(10, 2)",
        },
    ),
    _table(
        "station_status",
        ("station_id",),
        {
            "station_id": "int not null",
            "bikes_available": "int not null",
            "docks_available": "int not null",
            "is_renting": "boolean not null",
            "last_reported": "timestamptz not null",
        },
    ),
    _table(
        "maintenance_tickets",
        ("bike_id", "ticket_no"),
        {
            "bike_id": "long not null",
            "ticket_no": "int not null",
            "opened_at": "timestamptz not null",
            "closed_at": "timestamptz",
            "severity": "string not null",
            "description": "string not null",
            "cost": "decimal(12, 2)",
        },
    ),
    _table(
        "app_events",
        (),
        {
            "event_time": "timestamptz not null",
            "member_id": "long",
            "event_name": "string not null",
            "payload": "string not null",
        },
    ),
)

TABLES: dict[str, SourceTable] = {table.name: table for table in _ALL}
