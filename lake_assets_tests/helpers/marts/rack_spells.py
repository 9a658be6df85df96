"""Racks that run empty in every way, with the minutes that they are empty by day.

Here: the cases, and all tables of a source that has them. Not here: the marts (`gold/marts/`).
"""

from datetime import UTC, date, datetime, timedelta

from lake_assets_tests.helpers.marts.bike_rows import GONE, NORTH, SOUTH, TRIPS, at, change, load, station
from lake_assets_tests.helpers.marts.mart_frames import Row

LIMIT = timedelta(minutes=30)
CLOSE = 0.7
FIRST, LAST = date(2024, 3, 1), date(2024, 3, 5)
NOW = datetime(2024, 3, 5, 18, tzinfo=UTC)

BEGAN = load(1, "00:00:10", 5)

# The rows of one station, and by day of March: minutes empty, longest spell, breaches. Other days have zeros.
SPELLS: dict[str, tuple[list[Row], dict[int, tuple[float, float, int]]]] = {
    "never empty": ([BEGAN, change(2, "10:00", 1)], {}),
    "over midnight, within the limit": (
        [BEGAN, change(1, "23:50", 0), change(2, "00:05", 1)],
        {1: (10, 10, 0), 2: (5, 5, 0)},
    ),
    "over midnight, and the limit passes after it": (
        [BEGAN, change(1, "23:45", 0), change(2, "00:30", 1)],
        {1: (15, 15, 0), 2: (30, 30, 1)},
    ),
    "over midnight, and the limit passed before it": (
        [BEGAN, change(1, "23:00", 0), change(2, "01:00", 1)],
        {1: (60, 60, 1), 2: (60, 60, 0)},
    ),
    "the limit passes at midnight, when it is refilled": (
        [BEGAN, change(2, "23:30", 0), change(3, "00:00", 4)],
        {2: (30, 30, 0), 3: (0, 0, 1)},
    ),
    "over whole days": (
        [BEGAN, change(1, "12:00", 0), change(4, "06:00", 3)],
        {1: (720, 720, 1), 2: (1440, 1440, 0), 3: (1440, 1440, 0), 4: (360, 360, 0)},
    ),
    "open at the end": ([BEGAN, change(4, "23:40", 0)], {4: (20, 20, 0), 5: (1080, 1080, 1)}),
    "open at the end and close to the limit": ([BEGAN, change(5, "17:36", 0)], {5: (24, 24, 0)}),
    "open at the end and within the limit": ([BEGAN, change(5, "17:50", 0)], {5: (10, 10, 0)}),
    "the limit passes at the very end": ([BEGAN, change(5, "17:30", 0)], {5: (30, 30, 1)}),
    "starts in the full load": ([load(1, "00:00:10", 0), change(1, "01:00:10", 2)], {1: (60, 60, 1)}),
    "a full-load row that is older than its time": (
        [change(1, "00:00:05", 2), load(1, "00:00:20", 0), change(1, "08:00", 1)],
        {},
    ),
    "an empty full-load row between changes": (
        # Committed first: empty for ten seconds, and full again when the row, read before that, is transferred.
        [change(1, "00:00:05", 0), change(1, "00:00:15", 3), load(1, "00:00:20", 0)],
        {1: (0.167, 0.167, 0)},
    ),
    "a deleted station is not empty": (
        [BEGAN, change(2, "10:00", 0), change(2, "10:40", None, "D")],
        {2: (40, 40, 1)},
    ),
    "deleted while it had bikes, and founded again without": (
        [BEGAN, change(2, "10:00", None, "D"), change(2, "11:00", 0, "I"), change(2, "11:20", 1)],
        {2: (20, 20, 0)},
    ),
    "refilled at the very instant the limit passes": (
        [BEGAN, change(2, "10:00", 0), change(2, "10:30", 1)],
        {2: (30, 30, 1)},
    ),
    "refilled a microsecond before it": (
        [BEGAN, change(2, "10:00:00.000001", 0), change(2, "10:30", 1)],
        {2: (30, 30, 0)},
    ),
    "emptied and refilled in one transaction": ([BEGAN, change(2, "10:00", 0), change(2, "10:00", 1)], {}),
    "refilled and emptied in one transaction": (
        [BEGAN, change(2, "10:00", 0), change(2, "10:20", 1), change(2, "10:20", 0), change(2, "10:40", 1)],
        {2: (40, 40, 1)},
    ),
    "still empty after a change of something else": (
        [BEGAN, change(2, "10:00", 0), change(2, "10:20", 0), change(2, "10:40", 1)],
        {2: (40, 40, 1)},
    ),
    "several spells": (
        [
            BEGAN,
            *(change(2, "10:00", 0), change(2, "10:45", 1)),
            *(change(2, "12:00", 0), change(2, "12:10", 2)),
            *(change(2, "13:00", 0), change(2, "13:31:30", 1)),
        ],
        {2: (86.5, 45, 2)},
    ),
    "a reload tells that it was refilled while nothing replicated": (
        [BEGAN, change(2, "10:00", 0), load(3, "09:00:00", 3)],
        {2: (840, 840, 1), 3: (540, 540, 0)},
    ),
    "a reload tells nothing new": (
        [BEGAN, change(2, "10:00", 0), load(3, "09:00:01", 0), change(3, "10:00", 2)],
        {2: (840, 840, 1), 3: (600, 600, 0)},
    ),
    "a change follows the reload's beginning": (
        [BEGAN, change(3, "09:00:02", 2), load(3, "09:00:05", 0), change(3, "12:00", 1)],
        {},
    ),
    "a reload does not reach back before its time": (
        # Empty from the first load to the change of the 2nd; the reload's row does not cut that spell in two.
        [load(1, "00:00:10", 0), change(1, "01:00:10", 0), change(2, "00:00", 4), load(3, "09:00:04", 4)],
        {1: (1439.833, 1439.833, 1)},
    ),
    "founded after the first full load": (
        [change(2, "08:00", 0, "I"), change(2, "09:00", 2), load(3, "09:00:03", 2)],
        {2: (60, 60, 1)},
    ),
}
STATION_NUMBER = {name: number for number, name in enumerate(SPELLS, start=1)}


def current_status(changes: list[Row]) -> list[Row]:
    """What station_status holds after the changes: the first full load, then what is newer by time."""
    last: dict[int, Row] = {}
    first_load = {id(row) for row in changes if row["_sequence"] == "" and row["_commit_ts"] < at(2)}
    for row in sorted(
        changes, key=lambda row: (id(row) not in first_load, row["_commit_ts"], row["_sequence"])
    ):
        last[row["station_id"]] = row
    return [row | {"docks_available": 7} for row in last.values() if row["_op"] != "D"]


def written_by_hand() -> dict[str, list[Row]]:
    """The rows of each table that the marts read."""
    changes = [
        row | {"station_id": STATION_NUMBER[name]} for name, (rows, _) in SPELLS.items() for row in rows
    ]
    # A rack that is empty, although no station of that number is known.
    changes += [row | {"station_id": GONE} for row in (BEGAN, change(5, "17:00", 0))]
    stations = [station(number, "middle") for number in STATION_NUMBER.values()]
    status = current_status(changes)
    # The log may be a commit behind the current table, or ahead of it.
    status += [{"station_id": NORTH, "bikes_available": 0, "docks_available": 3}]
    return {
        "stations": [*stations, station(NORTH, "north"), station(SOUTH, "south")],
        "trips": TRIPS,
        "station_status": status,
        "station_status_changes": changes,
    }
