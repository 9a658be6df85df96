"""The source of the mixture: people who come, change and go, and the files of their changes.

Here: the lake's settings, the files, and what every table must be at a position. Not here: who reads and who erases
(`programs.py`, `__main__.py`).
"""

import threading
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import yaml

from lake_assets_tests.helpers.files.dms_files import Clock, DmsFile, cdc_file, csv_bytes, load_file, put
from lake_assets_tests.helpers.lakes.small_lakes import DMS, TINY
from lake_assets_tests.helpers.oracles import oracle

TABLE, SILVER, CITIES, DAYS = "public.people", "silver_shop.people", "gold.people_by_city", "gold.seen_by_day"
COLUMNS = {
    "id": "long not null",
    "city": "string",
    "points": "long",
    "note": "string",
    "seen": "timestamptz",
}
KEY = ["id"]
FIRST = 40
"""People of the full load."""
BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
KEEP_SECONDS = 20
"""`maintenance.keep_snapshots`: short, so that snapshots expire while they are read. What else is about maintenance has
its defaults."""
BY_CITY = """/*
description: People and points by city.
partition_column: null
columns:
  city: string not null
  people: long not null
  points: long not null
*/
SELECT city, count(*) AS people, sum(points) AS points FROM silver_shop.people GROUP BY city
"""
BY_DAY = """/*
description: People by the day on which they were seen last.
follow:
  silver_shop.people: {day: seen}
columns:
  day: date not null
  people: long not null
*/
SELECT to_date(seen) AS day, count(*) AS people FROM silver_shop.people
WHERE seen >= :start AND seen < :end GROUP BY to_date(seen)
"""


def write_lake(folder: Path, remote: str) -> Path:
    """lake.yaml and two marts."""
    table = {
        "columns": COLUMNS,
        "primary_key": KEY,
        "also": ["change_log", "history"],
        "full_load_complete": "immediately",
        "partition_by": ["bucket(3, id)"],
    }
    lake = {
        "catalog": {
            "name": "lake",
            "uri": str(folder / "catalog.db"),
            "warehouse": str(folder / "warehouse"),
        },
        "spark": {
            "mode": "connect",
            "remote": remote,
            "conf": {"spark.driver.memory": "1g", **TINY},
        },
        "sources": {"shop": {"location": str(folder / "bronze"), "dms": DMS, "tables": {TABLE: table}}},
        "gold": {"start_date": "2026-03-01", "marts": ["people_by_city.sql", "seen_by_day.sql"]},
        "maintenance": {"keep_snapshots": f"{KEEP_SECONDS}s"},
    }
    (folder / "people_by_city.sql").write_text(BY_CITY, encoding="utf-8")
    (folder / "seen_by_day.sql").write_text(BY_DAY, encoding="utf-8")
    path = folder / "lake.yaml"
    path.write_text(yaml.safe_dump(lake, sort_keys=False), encoding="utf-8")
    return path


class People:
    """The source, and its DMS task."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.files: list[DmsFile] = []
        """All that were written, with the rows that they had before any erasure."""
        self.gone: list[int] = []
        """Keys that were deleted, and not erased yet; they never come back."""
        self._random, self._bronze = Random(f"{seed} people"), folder / "bronze"
        self._clock, self._lock = Clock(BEGAN + timedelta(hours=1)), threading.Lock()
        self._alive = {number: self._person(number) for number in range(1, FIRST + 1)}
        self._next = FIRST + 1
        self._put(load_file(TABLE, self._alive.values(), at=BEGAN))

    def change(self) -> None:
        """Writes a file of some changes."""
        with self._lock:
            rows = [self._one() for _ in range(self._random.randint(1, 12))]
            self._flush(rows)

    def leave(self, number: int) -> list[int]:
        """So many people leave for good; their keys."""
        with self._lock:
            chosen = self._random.sample(sorted(self._alive), number)
            self._flush([self._clock.change("D", self._alive.pop(key)) for key in chosen])
            self.gone += chosen
            return chosen

    def _one(self) -> dict[str, Any]:
        kind = self._random.choice("IUUUUD") if len(self._alive) > FIRST // 2 else "I"
        if kind == "I":
            row = self._person(self._next)
            self._next += 1
            self._alive[row["id"]] = row
        else:
            key = self._random.choice(sorted(self._alive))
            row = self._alive.pop(key) if kind == "D" else self._person(key)
            if kind == "U":
                self._alive[key] = row
        return self._clock.change(kind, row)

    def _person(self, key: int) -> dict[str, Any]:
        return {
            "id": key,
            "city": f"City {self._random.randrange(5)}",
            "points": self._random.randrange(1000),
            "note": f"{secret(key)}-{self._random.getrandbits(40):010x}",
            "seen": BEGAN + timedelta(minutes=self._random.randrange(6 * 24 * 60)),
        }

    def _flush(self, rows: list[dict[str, Any]]) -> None:
        self._clock.now += timedelta(seconds=1)
        self._put(cdc_file(TABLE, self._clock.now, rows))

    def _put(self, file: DmsFile) -> None:
        self.files.append(file)
        put(self._bronze, file.key, csv_bytes(file, list(COLUMNS), KEY, DMS))


def secret(key: int) -> str:
    """What the notes of a person begin with, and nobody else's."""
    return f"secret-of-{key:05d}"


def rows_at(files: list[DmsFile], offsets: Mapping[str, int], position: int) -> list[dict[str, Any]]:
    """The rows of the table at a position of the file log."""
    return oracle.current([file for file in files if offsets[file.key] <= position], list(COLUMNS), KEY)


def by_city(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the mart of cities."""
    people, points = Counter[str](), Counter[str]()
    for row in rows:
        people[row["city"]] += 1
        points[row["city"]] += row["points"]
    return [{"city": city, "people": people[city], "points": points[city]} for city in people]


def by_day(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the mart of days."""
    found = Counter(row["seen"].date() for row in rows)
    return [{"day": day, "people": people} for day, people in found.items()]
