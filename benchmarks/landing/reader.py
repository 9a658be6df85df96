"""The process that is measured: the reader of `lake-assets stream`, until it has landed so many messages.

`python -m benchmarks.landing.reader lake.yaml 100000` prints one line of JSON. Here: its figures. Not here: the
servers, the cases (`__main__.py`).
"""

import json
import resource
import sys
import time
from pathlib import Path

from lake_assets.config.config_file import load_lake
from lake_assets.lake import open_lake
from lake_assets.rounds.arrivals import opened_stream


def resident(name: str) -> float:
    """Resident MB of this process, now (VmRSS) or at most (VmHWM)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith(name)).split()[1]) / 1024


def cpu_seconds() -> float:
    """Of all threads of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Lands, and prints the figures."""
    config, expected = Path(sys.argv[1]), int(sys.argv[2])
    lake = open_lake(load_lake(config))
    arrivals = opened_stream(lake.runtime, "shop")
    base, done, landings, faults = resident("VmRSS"), 0, [], 0
    began, cpu = time.monotonic(), cpu_seconds()
    while done < expected:
        found = arrivals.scan(30.0)
        done += found.listed
        faults += len(found.unknown)
        if found.listed:
            landings.append(found.listed)
    figures = {
        "messages": done,
        "faults": faults,
        "seconds": time.monotonic() - began,
        "cpu": cpu_seconds() - cpu,
        "base": base,
        "peak": resident("VmHWM"),
        "landings": len(landings),
        "largest": max(landings),
        "rows": sum(file.rows or 0 for file in lake.runtime.file_log.files("shop")),
    }
    arrivals.close()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
