"""`python -m benchmarks.plot_batches FILE [--svg FILE]`: what batches cost, and what the table was meanwhile.

Of a file that `benchmarks.many_batches --sync` wrote with `--calls`. It needs matplotlib, as `plot.py`. Here: drawing.
Not here: the figures (`many_batches.py`).
"""

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.large_tables.results import PRODUCT

SMOOTHED = 25
"""Batches whose median is drawn."""


def draw(found: dict[str, Any], path: Path) -> None:
    """Three panels over the number of the batch: seconds, files, and bytes on the disk."""
    readable, whole, tables = found["readable"], found["whole"], found["tables"]
    numbers = range(1, len(readable) + 1)
    figure = Figure(figsize=(9, 7.5), layout="constrained")
    seconds, files, stored = figure.subplots(3, sharex=True)
    kept_up = [
        (number, one) for number, one, alone in zip(numbers, whole, readable, strict=True) if one > alone
    ]
    seconds.plot(numbers, readable, ".", markersize=2, color="C7", label="until the rows are readable")
    if kept_up:
        seconds.plot(
            *zip(*kept_up, strict=True), ".", markersize=4, color="C1", label="whole call, with maintenance"
        )
    middle = [median(readable[max(0, number - SMOOTHED) : number]) for number in numbers]
    seconds.plot(numbers, middle, color="C0", label=f"median of {SMOOTHED} batches, until readable")
    seconds.set_ylabel("seconds")
    at = [one["batch"] for one in tables]
    for name, text in (("data_files", "data files"), ("delete_files", "files of deletes")):
        files.plot(at, [one[name] for one in tables], label=text)
    files.set_ylabel("live files")
    stored.plot(
        at, [one["stored_bytes"] / 2**20 for one in tables], label="on the disk, with former snapshots"
    )
    stored.plot(at, [one["live_bytes"] / 2**20 for one in tables], label="live")
    stored.set_ylabel("MB")
    stored.set_xlabel("batch")
    for axes in (seconds, files, stored):
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left", frameon=False, fontsize=8)
    # The same figures give the same bytes; texts stay texts.
    with mpl.rc_context({"svg.hashsalt": PRODUCT, "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--svg", type=Path, default=Path("docs/many_batches.svg"))
    given = parser.parse_args()
    draw(json.loads(given.file.read_text()), given.svg)
    print(given.svg)


if __name__ == "__main__":
    main()
