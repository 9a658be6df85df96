"""`lake-assets advise`: estimates what freshness costs, for a workload and some settings of DMS and the lake.

Here: the calculation; pure. The seconds were measured with tables of 2,000 rows on a local disk (docs/performance.md);
if the lake has enough batches of its own, their seconds are used instead. The requests were counted with such tables in
a bucket (`benchmarks/requests.py`). The rest is arithmetic: it gives orders of magnitude, not a bill. Not here:
printing (`advise_cli.py`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lake_assets.bronze.scan.object_listing import PAGE, PAGES, TAILS, WHOLE_BELOW
from lake_assets.config import LakeConfig
from lake_assets.iceberg.upkeep.retention import MAX_SNAPSHOTS

DAY = 86_400.0
ROUND_SECONDS = 0.4
"""The fixed part of a round: the scan, the states, the mart."""
TABLE_CORE_SECONDS = 0.3
"""Core-seconds of a small batch of one table, if the lake has not measured its own."""
IDLE_ROUND_SECONDS = 0.3
RUN_SECONDS = 2.5
"""With the sensor: seconds from a file to the start of its run's code, and seconds at the run's end."""
MARTS_RUN_SECONDS = 6.0
"""With the sensor: seconds of the separate run that computes the marts."""
UPLOAD_SECONDS = 1.0
PUTS_A_BATCH, GETS_A_BATCH, GETS_A_FILE = 9, 18, 5
"""Requests of a table's turn. PUT includes POST and LIST, and GET includes HEAD: they cost the same."""
PUTS_A_LOG, GETS_A_LOG = 5, 1
"""Additional requests of a scan that finds files."""
PUT_DOLLARS, GET_DOLLARS = 0.005 / 1000, 0.0004 / 1000
"""The price of a request to S3 Standard in us-east-1."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The changes at the source."""

    tables: int
    """Tables in the lake."""
    busy: int
    """Tables that change all the time."""
    changes: float
    """Changes a second of each busy table."""
    row_bytes: int = 200
    files: int = 0
    """Files in the bucket."""
    batch_seconds: float = TABLE_CORE_SECONDS
    """Core-seconds of a batch of a busy table."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """The settings, in seconds and kB."""

    batch_interval: float = 60
    """DMS's CdcMaxBatchInterval."""
    min_file_kb: float = 32_000
    """DMS's CdcMinFileSize."""
    continuous: bool = True
    interval: float = 0
    """Pause between two rounds of the continuous run, or two evaluations of the sensor."""
    cores: int = 2
    keep_commits: int = 1000


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate for one workload and one choice of settings."""

    knobs: Knobs
    file_every: float
    """Seconds between two files of a busy table."""
    round_seconds: float
    to_file: float
    """Seconds from a commit to its file, upload included, for half of the changes; at worst less than twice that."""
    to_silver: float
    """Seconds from the file to silver, for half of the files; at worst twice that."""
    to_mart: float
    """Additional seconds to the marts that show the present."""
    files_a_day: float
    commits_a_day: float
    snapshots: float
    """Snapshots that a busy table keeps."""
    lists_a_day: float
    puts_a_day: float
    gets_a_day: float
    dollars_a_month: float
    """The price of requests to S3, without storage and Spark."""


def estimate(work: Workload, knobs: Knobs) -> Estimate:
    """The estimate for one workload and one choice of settings."""
    every = _file_every(work, knobs)
    full = 1 - math.exp(-work.changes * every)
    files = work.busy * DAY / every * full
    a_round = _round(work, knobs, every)
    batches = min(files, work.busy * DAY / max(a_round, every))
    scans = DAY / (max(a_round, IDLE_ROUND_SECONDS + knobs.interval) if knobs.continuous else knobs.interval)
    lists = scans * lists_a_scan(work)
    logs = min(scans, DAY / every, files)
    puts = batches * PUTS_A_BATCH + logs * PUTS_A_LOG
    gets = batches * GETS_A_BATCH + files * GETS_A_FILE + logs * GETS_A_LOG
    to_silver = a_round if knobs.continuous else RUN_SECONDS + knobs.interval / 2 + a_round / 2
    return Estimate(
        knobs,
        every,
        a_round,
        every / 2 + UPLOAD_SECONDS,
        to_silver,
        ROUND_SECONDS if knobs.continuous else MARTS_RUN_SECONDS,
        files,
        batches,
        min(knobs.keep_commits * 1.5, batches / max(work.busy, 1) * 7),
        lists,
        puts,
        gets,
        30 * ((lists + puts) * PUT_DOLLARS + gets * GET_DOLLARS),
    )


def lists_a_scan(work: Workload) -> int:
    """LIST requests of one scan."""
    if work.files <= WHOLE_BELOW:
        return max(1, -(-work.files // PAGE))
    return min(work.tables, TAILS) + PAGES


def alternatives(knobs: Knobs) -> Iterator[Knobs]:
    """The settings, and others that differ from them in one value."""
    yield knobs
    for batch_interval in (1, 5, 15, 60, 300):
        if batch_interval != knobs.batch_interval:
            yield replace(knobs, batch_interval=batch_interval)
    for interval in (0, 5, 30) if knobs.continuous else (0.5, 2, 4):
        if interval != knobs.interval:
            yield replace(knobs, interval=interval)
    if knobs.continuous:
        yield replace(knobs, continuous=False, interval=0.5)
    else:
        yield replace(knobs, continuous=True, interval=0)
    yield replace(knobs, cores=knobs.cores * 2)


def knobs_of(lake: LakeConfig, batch_interval: float, min_file_kb: float) -> Knobs:
    """The settings of lake.yaml and these two of DMS."""
    continuous = lake.automation.continuous
    interval = lake.automation.poll_interval if continuous is None else continuous.interval
    return Knobs(
        batch_interval=batch_interval,
        min_file_kb=min_file_kb,
        continuous=continuous is not None,
        interval=interval.total_seconds(),
        keep_commits=MAX_SNAPSHOTS if continuous is None else continuous.keep_commits,
    )


def _file_every(work: Workload, knobs: Knobs) -> float:
    """Seconds between two files of a table: DMS closes a file after the interval, or when it is large enough."""
    if not work.changes:
        return knobs.batch_interval
    return min(knobs.batch_interval, knobs.min_file_kb * 1000 / (work.changes * work.row_bytes))


def _round(work: Workload, knobs: Knobs, every: float) -> float:
    """Seconds of a round that applies the files that landed during the previous round."""
    own = ROUND_SECONDS + (knobs.interval if knobs.continuous else 0)
    each = work.batch_seconds / knobs.cores
    if work.busy * each >= every - own:
        return own + work.busy * each
    return own / (1 - work.busy * each / every)
