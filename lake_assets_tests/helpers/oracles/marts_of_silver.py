"""What the marts of the demonstration must hold, computed from silver tables by `mart_oracle.py`.

Here: which tables each mart reads, and the settings of the lakes of `bike_lake.py`. Not here: what a row is.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from lake_assets_tests.helpers.oracles import mart_oracle as oracle

Row = dict[str, Any]
SETTINGS = {
    "empty_rack_limit_minutes": 30,
    "refill_within_minutes": 30,
    "maintenance_every_km": 5,
    "least_members": 2,
}
LIMIT, WITHIN = (
    timedelta(minutes=SETTINGS[f"{name}_minutes"]) for name in ("empty_rack_limit", "refill_within")
)
ORDER = {
    "station_daily": ("day", "station_id"),
    "trip_revenue_daily": ("day", "district"),
    "station_hourly": ("hour", "station_id"),
    "member_activity_weekly": ("week", "plan"),
    "bike_utilisation": ("bike_id",),
    "racks_to_refill": ("station_id",),
    "racks_empty_now": ("station_id",),
}
"""By mart, the columns that identify a row."""
RACKS = ("stations", "station_status", "station_status_changes")


def expected(
    mart: str, silver: Callable[[str], list[Row]], now: datetime, days: Callable[[], Sequence[date]]
) -> list[Row]:
    """The mart's rows. `silver` reads a table; `days` are those that a mart by day has."""

    def tables(*names: str) -> list[list[Row]]:
        return [silver(name) for name in names]

    def hours() -> list[datetime]:
        first = min(row["_commit_ts"] for row in silver("station_status_changes"))
        first = first.replace(minute=0, second=0, microsecond=0)
        return [first + n * oracle.HOUR for n in range((now - first) // oracle.HOUR + 1)]

    def weeks() -> list[date]:
        return sorted({day - timedelta(days=day.weekday()) for day in days()})

    least, every_km = SETTINGS["least_members"], SETTINGS["maintenance_every_km"]
    by_mart: dict[str, Callable[[], list[Row]]] = {
        "station_daily": lambda: oracle.station_daily(
            *tables("stations", "trips", "station_status_changes"), now=now, days=days(), limit=LIMIT
        ),
        "trip_revenue_daily": lambda: oracle.trip_revenue_daily(*tables("stations", "trips"), days=days()),
        "station_hourly": lambda: oracle.station_hourly(
            silver("station_status_changes"), now=now, hours=hours()
        ),
        "member_activity_weekly": lambda: oracle.member_activity_weekly(
            *tables("trips", "members"), weeks=weeks(), least=least
        ),
        "bike_utilisation": lambda: oracle.bike_utilisation(
            *tables("bikes", "trips", "maintenance_tickets"), every_km=every_km
        ),
        "racks_to_refill": lambda: oracle.racks_to_refill(
            *tables(*RACKS), now=now, limit=LIMIT, within=WITHIN
        ),
        "racks_empty_now": lambda: oracle.racks_empty_now(*tables(*RACKS), now=now, limit=LIMIT, close=0.7),
    }
    return by_mart[mart]()
