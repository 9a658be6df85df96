"""The board's section on empty racks: a map, and the racks in breach and close to the limit with a countdown.

Here: the bike-sharing company's part of `lake-assets board`. Not here: the parts that every lake has
(`commands/board/board.py`), the mart (`racks_empty_now.py`).

Reads with PyIceberg, without Spark.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from lake_assets.demo.marts.empty_spells import RackSettings
from lake_assets.demo.marts.racks_empty_now import MART
from lake_assets.iceberg.table_io import load_table
from lake_assets.lake import Lake
from lake_assets.words import span

STATIONS, STATUS = "silver_bikeshare.stations", "silver_bikeshare.station_status"
WIDTH, MARGIN = 1000, 30
"""The map's width and margin, in units of its SVG."""
MOST_LABELS = 12
"""The most names on the map, those of the most urgent racks: more would cover each other."""
TEMPLATES = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
TEMPLATES.filters["span"] = span


class RackState(StrEnum):
    """What the map shows by colour and shape; the most urgent first."""

    BREACH = "breach"
    CLOSE = "close"
    EMPTY = "empty"
    BIKES = "bikes"


@dataclass(frozen=True, slots=True)
class Rack:
    """A station on the map."""

    name: str
    district: str
    bikes: int
    state: RackState
    empty_since: datetime | None
    """None also for an empty rack that the mart does not have yet."""
    limit_at: datetime | None
    """When it exceeds the limit, or did."""
    x: float
    y: float


def rack_section(lake: Lake, now: datetime) -> Markup | None:
    """The section as HTML, with the states of racks at `now` (UTC); None for a lake without the mart."""
    if MART not in lake.marts:
        return None
    stations = _rows(lake, STATIONS)
    bikes = {row["station_id"]: row["bikes_available"] for row in _rows(lake, STATUS)}
    spells = {row["station_id"]: row for row in _rows(lake, MART.identifier)}
    settings = RackSettings.model_validate(lake.config.gold.settings)
    places, height = _places(stations)
    racks = [
        _rack(row, bikes[row["station_id"]], spells.get(row["station_id"]), place, settings, now)
        for row, place in zip(stations, places, strict=True)
        if row["station_id"] in bikes
    ]
    urgent = [rack for rack in racks if rack.state in (RackState.BREACH, RackState.CLOSE)]
    urgent.sort(key=lambda rack: (rack.limit_at or now, rack.name))
    as_of = max((row["as_of"] for row in spells.values()), default=None)
    html = TEMPLATES.get_template("rack_board.html").render(
        # The most urgent last, so that no other mark covers them.
        racks=sorted(racks, key=lambda rack: list(RackState).index(rack.state), reverse=True),
        urgent=urgent,
        labelled=urgent[:MOST_LABELS],
        counts={state.value: sum(rack.state is state for rack in racks) for state in RackState},
        as_of=as_of,
        limit=settings.empty_rack_limit_minutes,
        now=now,
        width=WIDTH,
        height=height,
    )
    return Markup(html)


def _rows(lake: Lake, identifier: str) -> list[dict[str, Any]]:
    table = load_table(lake.runtime.catalog, identifier)
    rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist() if table is not None else []
    return rows


def _rack(
    station: dict[str, Any],
    bikes: int,
    spell: dict[str, Any] | None,
    place: tuple[float, float],
    settings: RackSettings,
    now: datetime,
) -> Rack:
    # As in the mart, the current table decides which racks are empty, and the mart's row only since when.
    since = spell["empty_since"] if spell is not None and bikes == 0 else None
    limit = timedelta(minutes=settings.empty_rack_limit_minutes)
    if bikes > 0:
        state = RackState.BIKES
    elif since is not None and now - since >= limit:
        state = RackState.BREACH
    elif since is not None and now - since >= settings.empty_rack_close_share * limit:
        state = RackState.CLOSE
    else:
        state = RackState.EMPTY
    limit_at = since + limit if since is not None else None
    return Rack(station["name"], station["district"], bikes, state, since, limit_at, *place)


def _places(stations: Sequence[dict[str, Any]]) -> tuple[list[tuple[float, float]], float]:
    """Each station's place on the map, and the map's height. A city is small enough for a flat map."""
    if not stations:
        return [], 2 * MARGIN
    # A degree of longitude is shorter than one of latitude.
    shrink = math.cos(math.radians(stations[0]["latitude"]))
    east = [row["longitude"] * shrink for row in stations]
    south = [-row["latitude"] for row in stations]
    scale = (WIDTH - 2 * MARGIN) / max(max(east) - min(east), max(south) - min(south), 1e-9)
    places = [
        (MARGIN + (x - min(east)) * scale, MARGIN + (y - min(south)) * scale)
        for x, y in zip(east, south, strict=True)
    ]
    return places, 2 * MARGIN + (max(south) - min(south)) * scale
