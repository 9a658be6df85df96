"""The instants at which a zone's clocks show a local time, asked of Python's zoneinfo one by one.

Here: PEP 495 by the letter. Shares no code with the package, which has a table of its own.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

ZONES = (
    "Europe/Berlin",  # double summer time in the 1940s, local mean time before 1893
    "Europe/Dublin",  # winter time is the exception there
    "Australia/Lord_Howe",  # half an hour, in the southern hemisphere
    "America/Sao_Paulo",  # at midnight
    "Pacific/Apia",  # has no 30th of December 2011
    "Africa/Casablanca",  # by the moon, up to 2087
    "Asia/Kathmandu",
    "America/St_Johns",  # one minute past midnight
)


def instants(zone: str, wall: datetime) -> list[datetime]:
    """In UTC, the earliest first."""
    place = ZoneInfo(zone)
    read = {wall.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(one for one in read if one.astimezone(place).replace(tzinfo=None, fold=0) == wall)


def changes(zone: str, since: int, until: int) -> Iterator[datetime]:
    """Local times in these years just before a change of the zone's offset, to the hour."""
    place, at = ZoneInfo(zone), datetime(since, 1, 1, tzinfo=UTC)
    offset = at.astimezone(place).utcoffset()
    while at.year < until:
        at += timedelta(hours=6)
        if (now := at.astimezone(place).utcoffset()) != offset:
            for hours in range(7):
                yield (at - timedelta(hours=hours)).astimezone(place).replace(tzinfo=None, fold=0)
            offset = now
