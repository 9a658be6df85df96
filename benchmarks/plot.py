"""`python -m benchmarks.plot FILE... [--svg FILE]`: a bar chart of the results that benchmarks wrote with `--out`.

For each workload the ratio of every contender's time to that of this package. It needs matplotlib, which
`make bench-plot` installs and nothing else uses. Here: drawing. Not here: the figures (`large_tables/results.py`).
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from benchmarks.large_tables.results import PRODUCT

NOT_EXACT = "floor"
"""A contender that is not drawn: it does less than the others, so its ratio means something else."""
BAR = 0.24
"""Inches that a bar takes."""


def bars(paths: list[Path]) -> dict[str, dict[str, float]]:
    """Ratios of the contenders, by workload."""
    figures: list[dict[str, Any]] = [one for path in paths for one in json.loads(path.read_text())["figures"]]
    shown = [one for one in figures if one["contender"] not in (PRODUCT, NOT_EXACT)]
    found: dict[str, dict[str, float]] = {one["workload"]: {} for one in shown}
    for one in shown:
        found[one["workload"]][one["contender"]] = one["ratio"]
    return found


def draw(workloads: dict[str, dict[str, float]], path: Path) -> None:
    """A group of bars from 1 for each workload, in one colour for each contender."""
    names = list(dict.fromkeys(name for ratios in workloads.values() for name in ratios))
    lines = sum(len(ratios) + 1 for ratios in workloads.values())
    figure = Figure(figsize=(9, 1.2 + BAR * (lines + len(names) / 3)), layout="constrained")
    axes = figure.subplots()
    line, ticks = 0.0, []
    for ratios in workloads.values():
        ticks.append(line + (len(ratios) - 1) / 2)
        for name, ratio in ratios.items():
            bar = axes.barh(line, ratio - 1, left=1, color=f"C{names.index(name)}", label=name)
            axes.bar_label(bar, [f"{ratio:.2f}"], padding=3, fontsize=8)
            line += 1
        line += 1
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.margins(x=0.1, y=0.01)
    axes.set_yticks(ticks, list(workloads))
    axes.invert_yaxis()
    axes.set_xlabel(f"time of the contender / time of {PRODUCT} (right of 1: {PRODUCT} is faster)")
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=3, frameon=False)
    # The same figures give the same bytes; texts stay texts.
    with mpl.rc_context({"svg.hashsalt": PRODUCT, "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--svg", type=Path, default=Path("docs/large_tables.svg"))
    given = parser.parse_args()
    draw(bars(given.files), given.svg)
    print(given.svg)


if __name__ == "__main__":
    main()
