"""A tiny bike-sharing lake: DMS files from hand-written changes, silver and the marts by real Dagster runs.

Here: the source, its lake, and comparing its marts with a full computation from silver (`marts_of_silver.py`). Not
here: the cases.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg

from lake_assets.config import LakeConfig
from lake_assets.demo.source.bike_schema import TABLES
from lake_assets.gold.mart import Mart
from lake_assets.gold.periods.grain import Grain
from lake_assets.gold.registry import load_marts
from lake_assets.orchestration.assets.mart_runs import MartRun, MartWork, mart_work, within_partitions
from lake_assets.orchestration.checks.blocking_checks import failed_inputs
from lake_assets.orchestration.lake_definitions import Lake, build_definitions, open_lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets_tests.helpers.lakes.small_lakes import DMS, SPARK, TINY, UNSYNCED, write_file
from lake_assets_tests.helpers.marts.mart_frames import in_order
from lake_assets_tests.helpers.oracles import mart_oracle as oracle
from lake_assets_tests.helpers.oracles.marts_of_silver import ORDER, SETTINGS, expected

Row = dict[str, Any]
MARTS = (
    "lake_assets.demo.marts.station_daily",
    "lake_assets.demo.marts.trip_revenue_daily",
    "lake_assets.demo.marts.racks_empty_now",
)
USED = ("stations", "trips", "station_status")
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
DAILY, REVENUE, EMPTY_NOW = "station_daily", "trip_revenue_daily", "racks_empty_now"


def at(day: int, clock: str = "12:00") -> datetime:
    """A moment of March 2024, UTC."""
    return datetime.fromisoformat(f"2024-03-{day:02d}T{clock}+00:00")


def days(*numbers: int) -> set[date]:
    """Days of March 2024."""
    return {date(2024, 3, number) for number in numbers}


def station(number: int, district: str) -> Row:
    """A row of `stations`."""
    return {
        "station_id": number,
        "name": f"Rack {number}",
        "district": district,
        "capacity": 10,
        "latitude": 48.1,
        "longitude": 11.5,
        "opened_on": date(2020, 1, 1),
        "is_active": True,
    }


def status(number: int, bikes: int, when: datetime) -> Row:
    """A row of `station_status`."""
    return {
        "station_id": number,
        "bikes_available": bikes,
        "docks_available": 10 - bikes,
        "is_renting": True,
        "last_reported": when,
    }


def trip(number: int, started: datetime, ended: datetime | None, **values: Any) -> Row:
    """A row of `trips`; `values` replace or add to it."""
    row = {
        "trip_id": number,
        "bike_id": 1,
        "member_id": 1,
        "start_station_id": 1,
        "end_station_id": None if ended is None else 2,
        "started_at": started,
        "ended_at": ended,
        "distance_km": None if ended is None else 1.1,
        "fare": None if ended is None else "2.50",
    }
    return row | values


def bike_tables(names: Iterable[str] = USED) -> Row:
    """The tables of the source, as lake.yaml has them, but for masks."""
    tables: Row = {
        f"public.{name}": {
            "primary_key": list(TABLES[name].primary_key),
            "columns": {column.name: column.declaration for column in TABLES[name].columns},
            "full_load_complete": "immediately",
            "quarantine": {"max_rows": 0},
        }
        for name in names
    }
    tables["public.trips"]["partition_by"] = ["day(started_at)"]
    tables["public.station_status"]["also"] = ["change_log"]
    return tables


class BikeLake:
    """A lake with one source; by default three of its tables and three of the marts."""

    def __init__(
        self,
        folder: Path,
        *,
        start_date: str = "2024-03-01",
        catalog: str | None = None,
        tables: Sequence[str] = USED,
        marts: Sequence[str] = MARTS,
    ) -> None:
        """`catalog`: the name of the catalog, for another process on the same lake."""
        self.folder = folder
        self._config = LakeConfig.model_validate(
            {
                "catalog": {
                    "name": catalog or f"lake_{uuid4().hex[:8]}",
                    "uri": str(folder / "catalog.db"),
                    "warehouse": str(folder / "warehouse"),
                    **UNSYNCED,
                },
                "sources": {
                    "bikeshare": {
                        "location": str(folder / "bronze"),
                        "dms": DMS,
                        "tables": bike_tables(tables),
                    }
                },
                "spark": {"conf": TINY} | SPARK,
                "gold": {
                    "start_date": start_date,
                    "marts": marts,
                    "settings": SETTINGS,
                },
            }
        )
        self.clock = at(1)
        """Commit time of the newest change."""
        self._changes = 0
        self._rows: dict[tuple[Any, ...], Row] = {}
        self.restart()

    def restart(self, marts: Sequence[Mart] | None = None) -> None:
        """As after a kill of everything and the loss of Dagster's storage: only the lake is left."""
        self.lake: Lake = open_lake(self._config, marts=marts or load_marts(self._config))
        self.instance = dg.DagsterInstance.ephemeral()
        self.job = build_definitions(self.lake).resolve_implicit_global_asset_job_def()

    # The source.

    def load(self, table: str, when: datetime, rows: Iterable[Row], part: int = 1) -> None:
        """A LOAD file."""
        lines = [self._line(table, "I", when, row, "") for row in rows]
        self._write(f"public/{table}/LOAD{part:08X}.csv", table, lines)

    def change(self, when: datetime, *changes: tuple[str, str, Row], key: str | None = None) -> list[str]:
        """One transaction's changes as (table, I or U or D, values), in a file per table; the files' keys.

        An update names the key and what changes. `key` names the one file otherwise than by the commit.
        """
        lines: dict[str, list[str]] = {}
        for table, op, values in changes:
            row = self._rows.get(_key(table, values), {}) | values
            self._changes += 1
            digits = f"{when:%Y%m%d%H%M%S}{when.microsecond // 10_000:02d}{self._changes:019d}"
            lines.setdefault(table, []).append(self._line(table, op, when, row, digits))
        keys = []
        for table, written in lines.items():
            flushed = when + timedelta(seconds=1, milliseconds=self._changes)
            name = key or f"{flushed:%Y%m%d-%H%M%S}{flushed.microsecond // 1000:03d}.csv"
            keys.append(f"public/{table}/{name}")
            self._write(keys[-1], table, written)
        return keys

    def _line(self, table: str, op: str, when: datetime, row: Row, digits: str) -> str:
        if op == "D":
            row = {name: row[name] for name in TABLES[table].primary_key}
        else:
            self._rows[_key(table, row)] = row
        values = (_text(row.get(column.name)) for column in TABLES[table].columns)
        return ",".join([op, _text(when), *values, digits, *("" for _ in TABLES[table].primary_key)])

    def _write(self, key: str, table: str, lines: Sequence[str]) -> None:
        columns = ",".join(column.name for column in TABLES[table].columns)
        before = ",".join(f"BI_{name}" for name in TABLES[table].primary_key)
        write_file(self.folder, key, [f"Op,commit_ts,{columns},change_seq,{before}", *lines])

    # The lake.

    def apply(self, *tables: str) -> dg.ExecuteInProcessResult:
        """Lists the files and applies them, all silver tables or those named."""
        log_arrivals(self.lake.runtime, "bikeshare")
        keys = [dg.AssetKey(t.asset_key) for t in self.lake.targets if not tables or t.name in tables]
        return self.run(MartRun((), None), [*keys, dg.AssetKey(["lake_ops", "bikeshare_batch"])])

    def work(self) -> MartWork:
        """What the sensor would request."""

        def refuse(mart: Mart) -> str | None:
            failed = failed_inputs(self.instance, mart)
            return f"{mart.name} waits for {', '.join(failed)}" if failed else None

        return mart_work(self.lake.runtime, self.lake.marts, refuse)

    def requested(self) -> dict[str, set[date] | None]:
        """By mart, the days that would be requested; None for a mart without days."""
        found: dict[str, set[date] | None] = {}
        for run in self.work().runs:
            for name in run.marts:
                if run.periods is None:
                    found[name] = None
                else:
                    own = found.setdefault(name, set())
                    assert own is not None
                    assert own.isdisjoint(oracle.days_from(*run.periods)), "a day is requested once"
                    own.update(oracle.days_from(*run.periods))
        return found

    def run(self, run: MartRun, keys: Sequence[dg.AssetKey] | None = None) -> dg.ExecuteInProcessResult:
        """Runs what was requested, in this process."""
        return self.job.execute_in_process(
            instance=self.instance,
            asset_selection=list(keys or run.keys),
            tags=run.tags,
            raise_on_error=False,
            run_config=QUIET,
        )

    def compute(self) -> dict[str, set[date] | None]:
        """Requests and runs the marts; returns the requests."""
        requested = self.requested()
        for run in self.work().runs:
            assert self.run(run).success, run
        return requested

    # Reading it.

    def rows(self, identifier: str) -> list[Row]:
        """A table's rows, through PyIceberg."""
        return self.lake.runtime.catalog.load_table(identifier).scan().to_arrow().to_pylist()

    def silver(self, table: str) -> list[Row]:
        return self.rows(f"silver_bikeshare.{table}")

    def files(self, mart: str) -> dict[date, set[str]]:
        """The data files of a mart by day: a recomputed day has new ones."""
        found: dict[date, set[str]] = {}
        for task in self.lake.runtime.catalog.load_table(f"gold.{mart}").scan().plan_files():
            day = date(1970, 1, 1) + timedelta(days=task.file.partition[0])
            found.setdefault(day, set()).add(task.file.file_path)
        return found

    def check(self, now: datetime | None = None) -> None:
        """The marts are what plain Python computes over all days from the silver tables; `now` is the last commit."""
        for mart in self.lake.marts:
            order = ORDER[mart.name]
            rows = expected(mart.name, self.silver, now or self.clock, lambda: self._days(now or self.clock))
            assert in_order(self.rows(mart.identifier), *order) == in_order(rows, *order), mart.name

    def _days(self, now: datetime) -> list[date]:
        """The days of the marts; outside their range those whose rows are gone, or that a test has computed by hand."""
        trips, changes = self.silver("trips"), self.silver("station_status_changes")
        lie_in = [trip[c].date() for trip in trips for c in ("started_at", "ended_at") if trip[c] is not None]
        lie_in += [row["_commit_ts"].date() for row in changes] + [now.date()]
        partitions = within_partitions(lie_in, Grain.DAY, self.lake.config.gold.start_date)
        held = {row["day"] for row in self.rows("gold.station_daily")}
        return sorted({*oracle.days_from(min(partitions), max(partitions)), *held})


def _key(table: str, row: Row) -> tuple[Any, ...]:
    return (table, *(row[name] for name in TABLES[table].primary_key))


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"
    return str(value).lower() if isinstance(value, bool) else str(value)
