"""How long a file took to reach silver and the marts, in a lake that is running or has run.

`python -m benchmarks.arrivals [--config lake.yaml] [--minutes N]` reads the file log and the snapshots of silver and
gold: what a reader of the tables could see. Here: the measurement. Not here: the feed (`lake-assets dev --feed`), a
pass or a fail.
"""

import argparse
import math
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyiceberg.table import Table

from lake_assets.bronze.files.keys import FileKind
from lake_assets.config.config_file import load_lake
from lake_assets.gold.consumption import read_consumption
from lake_assets.iceberg.table_io import load_table, summary
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets.silver.table.position import LOG_OFFSET

Commit = tuple[datetime, int]
"""When the commit was made (UTC), and the log offset up to which it has the files."""


def silver_commits(table: Table) -> dict[int, Commit]:
    """By snapshot id, the commits that have a position."""
    return {
        snapshot.snapshot_id: (_at(snapshot.timestamp_ms), int(summary(snapshot)[LOG_OFFSET]))
        for snapshot in table.snapshots()
        if LOG_OFFSET in summary(snapshot)
    }


def mart_commits(table: Table, input_table: str, silver: dict[int, Commit]) -> list[Commit]:
    """The mart's commits that left none of their work list pending, with the offset up to which they have one input."""
    found = []
    for snapshot in table.snapshots():
        state = read_consumption(summary(snapshot))
        consumed = silver.get(state.snapshots.get(input_table, -1))
        if consumed is not None and not state.pending:
            found.append((_at(snapshot.timestamp_ms), consumed[1]))
    return found


def measured(lake: Lake, since: datetime, until: datetime) -> dict[str, list[float]]:
    """By stage, the seconds from the appearance of each CDC file that landed from `since` to `until`; infinite for a
    file that has not reached the stage yet."""
    catalog, seconds = lake.runtime.catalog, defaultdict[str, list[float]](list)
    for target in lake.targets:
        table = load_table(catalog, target.identifier)
        if table is None:
            continue
        silver = silver_commits(table)
        marts = {}
        for mart in lake.marts:
            own = load_table(catalog, mart.identifier)
            if own is not None and target.identifier in {rule.identifier for rule in mart.rules}:
                marts[mart.identifier] = mart_commits(own, target.identifier, silver)
        for file in lake.runtime.file_log.files(target.source, target.table):
            if file.kind is not FileKind.CDC or not since <= file.last_modified <= until:
                continue
            landed = file.last_modified
            seconds["file log"].append((file.logged_at - landed).total_seconds())
            for name, commits in {"silver": silver.values(), **marts}.items():
                reached = [at for at, offset in commits if offset >= file.offset]
                seconds[name].append((min(reached) - landed).total_seconds() if reached else math.inf)
    return seconds


def _at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("lake.yaml"))
    parser.add_argument(
        "--minutes", type=float, default=10, help="of files that landed in the last so many minutes"
    )
    parser.add_argument(
        "--settled", type=float, default=2, help="but not in the last so many: theirs is not known"
    )
    options = parser.parse_args()
    lake = open_lake(load_lake(options.config))
    now = datetime.now(UTC)
    found = measured(lake, now - timedelta(minutes=options.minutes), now - timedelta(minutes=options.settled))
    print("| from file to | files | p50 s | p90 s | longest s | over a minute |\n|---|---|---|---|---|---|")
    for stage, seconds in found.items():
        ordered = sorted(seconds)
        p50, p90 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.9))
        late = sum(each > 60 for each in seconds)
        print(f"| {stage} | {len(seconds)} | {p50:.1f} | {p90:.1f} | {ordered[-1]:.1f} | {late} |")


if __name__ == "__main__":
    main()
