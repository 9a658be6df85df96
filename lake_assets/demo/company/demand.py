"""When and between which stations people ride.

Here: the day's curve and the pull of districts. Not here: trips themselves (`city.py`).

In the morning residential racks empty and office racks fill, in the evening the reverse, so that racks run empty.
"""

from datetime import datetime
from itertools import accumulate
from random import Random

from lake_assets.demo.company.city import City
from lake_assets.demo.company.vocabulary import DISTRICTS

_WEEKDAY = (2, 1, 1, 1, 2, 8, 28, 80, 100, 50, 30, 32, 40, 36, 34, 44, 74, 100, 84, 50, 32, 22, 14, 6)
_WEEKEND = (10, 7, 4, 2, 1, 2, 5, 12, 24, 40, 56, 66, 72, 74, 74, 70, 66, 60, 52, 42, 32, 26, 22, 16)
"""Relative demand by hour of the day (UTC)."""

_MORNING = {"home": (6, 1), "office": (1, 6), "centre": (2, 4)}
_EVENING = {"home": (1, 6), "office": (6, 1), "centre": (4, 2)}
_LEISURE = {"home": (3, 3), "office": (1, 1), "centre": (4, 4)}
"""By kind of district, the pull as a start and the pull as an end."""


def intensity(at: datetime) -> float:
    """Relative demand at a moment, between 1 and 100."""
    curve = _WEEKEND if at.weekday() >= 5 else _WEEKDAY
    share = at.minute / 60
    return curve[at.hour] * (1 - share) + curve[(at.hour + 1) % 24] * share


class Demand:
    """Draws start and end stations by their districts. The districts are those at its creation, whatever they are
    renamed to later."""

    def __init__(self, city: City) -> None:
        self._stations = city.station_ids
        kinds = [DISTRICTS.get(city.stations[number]["district"], "centre") for number in self._stations]
        self._weights = {
            pulls_id: tuple(list(accumulate(pulls[kind][side] for kind in kinds)) for side in (0, 1))
            for pulls_id, pulls in (("morning", _MORNING), ("evening", _EVENING), ("leisure", _LEISURE))
        }

    def _draw(self, rng: Random, at: datetime, side: int) -> int:
        mood = "leisure"
        if at.weekday() < 5 and 5 <= at.hour < 11:
            mood = "morning"
        elif at.weekday() < 5 and 14 <= at.hour < 20:
            mood = "evening"
        station_id: int = rng.choices(self._stations, cum_weights=self._weights[mood][side])[0]
        return station_id

    def start(self, rng: Random, at: datetime) -> int:
        """Where the next person wants to take a bike."""
        return self._draw(rng, at, 0)

    def end(self, rng: Random, at: datetime) -> int:
        """Where a person who sets out at `at` rides to."""
        return self._draw(rng, at, 1)
