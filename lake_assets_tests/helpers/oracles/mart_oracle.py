"""The marts in plain Python, row by row: what the Spark versions must equal.

Here: the obvious meaning of each mart over rows as dictionaries with Python values, times in UTC. It shares no code
with `lake_assets.gold`. Not here: where the rows come from.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

Row = dict[str, Any]
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


class Spell(NamedTuple):
    """A time without a bike; `until` is None while it lasts."""

    since: datetime
    until: datetime | None


def utc_day(moment: datetime) -> date:
    """The day of an instant."""
    return moment.astimezone(UTC).date()


def midnight(day: date) -> datetime:
    """The first instant of a day."""
    return datetime.combine(day, time(), UTC)


def days_from(first: date, last: date) -> list[date]:
    """All days from the first to the last."""
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def rounded(minutes: float) -> float:
    """To three decimals, a five upwards, as SQL does."""
    return float(Decimal(repr(minutes)).quantize(Decimal("0.001"), ROUND_HALF_UP))


def station_spells(changes: Iterable[Row]) -> dict[int, list[Spell]]:
    """The spells of each station in order, from the change log of station_status."""
    return {station: _spells(states) for station, states in station_states(changes).items()}


def station_states(changes: Iterable[Row]) -> dict[int, dict[datetime, Row]]:
    """By station and time, the row of the state from then on, in order."""
    by_station: dict[int, list[Row]] = defaultdict(list)
    for row in changes:
        by_station[row["station_id"]].append(row)
    loads: dict[int, list[datetime]] = defaultdict(list)
    for rows in by_station.values():
        stamps = sorted(row["_commit_ts"] for row in rows if row["_sequence"] == "")
        for number, stamp in enumerate(stamps):
            loads[number].append(stamp)
    starts = sorted(min(stamps) for stamps in loads.values())
    return {station: _states(rows, starts) for station, rows in by_station.items()}


def _states(rows: list[Row], load_starts: list[datetime]) -> dict[datetime, Row]:
    rows = sorted(rows, key=lambda row: (row["_commit_ts"], row["_sequence"]))
    states: dict[datetime, Row] = {}
    changed: datetime | None = None
    for row in rows:
        at = row["_commit_ts"]
        if row["_sequence"] == "":
            began = max(start for start in load_starts if start <= at)
            stale = changed is not None and (began == load_starts[0] or changed >= began)
            if stale:
                continue
        else:
            changed = at
        states[at] = row
    return states


def _spells(states: dict[datetime, Row]) -> list[Spell]:
    spells: list[Spell] = []
    for at, row in states.items():
        empty = row["_op"] != "D" and row["bikes_available"] == 0
        is_open = bool(spells) and spells[-1].until is None
        if empty and not is_open:
            spells.append(Spell(at, None))
        elif not empty and is_open:
            spells[-1] = Spell(spells[-1].since, at)
    return spells


def station_hourly(status_changes: Sequence[Row], *, now: datetime, hours: Sequence[datetime]) -> list[Row]:
    """What the mart of this name must hold."""
    found = []
    for station, states in station_states(status_changes).items():
        ends = [*list(states)[1:], None]
        lasting = [
            (since, end or max(now, since), row)
            for (since, row), end in zip(states.items(), ends, strict=True)
        ]
        for hour in hours:
            parts = [
                (min(until, hour + HOUR) - max(since, hour), row)
                for since, until, row in lasting
                if since < hour + HOUR and until > hour and row["_op"] != "D"
            ]
            parts = [(lasts, row) for lasts, row in parts if lasts > timedelta(0)]
            if parts:
                known = sum((lasts for lasts, _ in parts), timedelta(0))
                with_bikes = (lasts for lasts, row in parts if row["bikes_available"] > 0)
                with_docks = (lasts for lasts, row in parts if row["docks_available"] > 0)
                bikes = sum((lasts * row["bikes_available"] for lasts, row in parts), timedelta(0))
                found.append(
                    {
                        "hour": hour,
                        "station_id": station,
                        "minutes_known": rounded(known / MINUTE),
                        "minutes_with_bikes": rounded(sum(with_bikes, timedelta(0)) / MINUTE),
                        "minutes_with_docks": rounded(sum(with_docks, timedelta(0)) / MINUTE),
                        "mean_bikes": rounded(bikes / known),
                    }
                )
    return found


def member_activity_weekly(
    trips: Sequence[Row], members: Sequence[Row], *, weeks: Sequence[date], least: int
) -> list[Row]:
    """What the mart of this name must hold; `weeks` by their Mondays."""
    plans = {member["member_id"]: member["plan"] for member in members}
    groups: dict[tuple[date, str], list[Row]] = defaultdict(list)
    for trip in trips:
        day = utc_day(trip["started_at"])
        week = day - timedelta(days=day.weekday())
        if trip["ended_at"] is not None and trip["member_id"] in plans and week in weeks:
            groups[week, plans[trip["member_id"]]].append(trip)
    found = []
    for (week, plan), ridden in groups.items():
        riders = {trip["member_id"] for trip in ridden}
        time = sum((trip["ended_at"] - trip["started_at"] for trip in ridden), timedelta(0))
        if len(riders) >= least:
            found.append(
                {
                    "week": week,
                    "plan": plan,
                    "members": len(riders),
                    "trips": len(ridden),
                    "hours_ridden": rounded(time / HOUR),
                    "distance_km": float(_kilometres(ridden)),
                }
            )
    return found


def station_daily(
    stations: Sequence[Row],
    trips: Sequence[Row],
    status_changes: Sequence[Row],
    *,
    now: datetime,
    days: Sequence[date],
    limit: timedelta,
) -> list[Row]:
    """What the mart of this name must hold."""
    spells = station_spells(status_changes)
    found = []
    for day in days:
        start, end = midnight(day), midnight(day + timedelta(days=1))
        for station in stations:
            number = station["station_id"]
            inside, breaches = [], 0
            for spell in spells.get(number, []):
                until = spell.until or max(now, spell.since)
                inside.append(max(timedelta(0), min(until, end) - max(spell.since, start)))
                passed = spell.since + limit
                breaches += passed <= until and start <= passed < end
            found.append(
                {
                    "day": day,
                    "station_id": number,
                    "name": station["name"],
                    "district": station["district"],
                    "trips_out": sum(
                        trip["start_station_id"] == number and utc_day(trip["started_at"]) == day
                        for trip in trips
                    ),
                    "trips_in": sum(
                        trip["end_station_id"] == number
                        and trip["ended_at"] is not None
                        and utc_day(trip["ended_at"]) == day
                        for trip in trips
                    ),
                    "minutes_empty": rounded(sum(inside, timedelta(0)) / MINUTE),
                    "longest_empty_minutes": rounded(max(inside, default=timedelta(0)) / MINUTE),
                    "empty_limit_breaches": breaches,
                }
            )
    return found


def trip_revenue_daily(stations: Sequence[Row], trips: Sequence[Row], *, days: Sequence[date]) -> list[Row]:
    """What the mart of this name must hold."""
    districts = {station["station_id"]: station["district"] for station in stations}
    groups: dict[tuple[date, str], list[Row]] = defaultdict(list)
    for trip in trips:
        if trip["ended_at"] is not None and utc_day(trip["ended_at"]) in days:
            district = districts.get(trip["start_station_id"], "unknown")
            groups[utc_day(trip["ended_at"]), district].append(trip)
    return [
        {
            "day": day,
            "district": district,
            "trips": len(members),
            "revenue": sum((trip["fare"] or Decimal(0) for trip in members), Decimal("0.00")),
            "distance_km": float(_kilometres(members)),
        }
        for (day, district), members in groups.items()
    ]


def racks_empty_now(
    stations: Sequence[Row],
    status: Sequence[Row],
    status_changes: Sequence[Row],
    *,
    now: datetime,
    limit: timedelta,
    close: float,
) -> list[Row]:
    """What the mart of this name must hold."""
    spells = station_spells(status_changes)
    known = {station["station_id"]: station for station in stations}
    found = []
    for rack in status:
        if rack["bikes_available"] != 0:
            continue
        number = rack["station_id"]
        last = spells.get(number, [])[-1:]
        since = last[0].since if last and last[0].until is None else None
        lasts = None if since is None else max(now, since) - since
        state = "within limit"
        if lasts is not None and lasts >= limit:
            state = "breach"
        elif lasts is not None and lasts >= limit * close:
            state = "close"
        found.append(
            {
                "station_id": number,
                "name": known[number]["name"] if number in known else None,
                "district": known[number]["district"] if number in known else None,
                "empty_since": since,
                "minutes_empty": None if lasts is None else rounded(lasts / MINUTE),
                "state": state,
                "docks_available": rack["docks_available"],
                "as_of": now,
            }
        )
    return found


def racks_to_refill(
    stations: Sequence[Row],
    status: Sequence[Row],
    status_changes: Sequence[Row],
    *,
    now: datetime,
    limit: timedelta,
    within: timedelta,
) -> list[Row]:
    """What the mart of this name must hold."""
    names = ("station_id", "name", "district", "empty_since", "docks_available")
    empty = racks_empty_now(stations, status, status_changes, now=now, limit=limit, close=1)
    return [
        {name: rack[name] for name in names} | {"breach_at": rack["empty_since"] + limit}
        for rack in empty
        if rack["empty_since"] is not None and now < rack["empty_since"] + limit <= now + within
    ]


def bike_utilisation(
    bikes: Sequence[Row], trips: Sequence[Row], tickets: Sequence[Row], *, every_km: int
) -> list[Row]:
    """What the mart of this name must hold."""
    found = []
    for bike in bikes:
        number = bike["bike_id"]
        closed = [t["closed_at"] for t in tickets if t["bike_id"] == number and t["closed_at"] is not None]
        maintained = max(closed, default=None)
        ridden = [trip for trip in trips if trip["bike_id"] == number and trip["ended_at"] is not None]
        since = [trip for trip in ridden if maintained is None or trip["ended_at"] > maintained]
        hours = sum((trip["ended_at"] - trip["started_at"] for trip in ridden), timedelta(0)) / timedelta(
            hours=1
        )
        found.append(
            {
                "bike_id": number,
                "model": bike["model"],
                "status": bike["status"],
                "trips": len(ridden),
                "distance_km": float(_kilometres(ridden)),
                "hours_ridden": rounded(hours),
                "maintained_at": maintained,
                "km_since_maintenance": float(_kilometres(since)),
                "maintenance_due": _kilometres(since) >= every_km,
            }
        )
    return found


def _kilometres(trips: Iterable[Row]) -> Decimal:
    given = (Decimal(repr(trip["distance_km"])) for trip in trips if trip["distance_km"] is not None)
    return sum((distance.quantize(Decimal("0.000001"), ROUND_HALF_UP) for distance in given), Decimal(0))
