"""`python -m lake_assets_tests.outside`: random histories with actions from outside, and a table of the actions.

Here: the command line and the processes. Not here: a history (`run.py`).
"""

import multiprocessing
import time
from collections import Counter
from typing import Annotated

import typer

from lake_assets_tests.outside.run import Outside, quiet, run

PROGRESS_SECONDS = 30
RENEWED = 100
"""Histories after which a new process takes over: a JVM keeps what it has loaded for a lake."""


def main(
    histories: Annotated[int, typer.Option(help="How many.")] = 300,
    seed: Annotated[int, typer.Option(help="The first one's seed; the next has the next.")] = 0,
    processes: Annotated[int, typer.Option(help="Each has a Spark of its own.")] = 2,
    minutes: Annotated[float, typer.Option(help="Stop after this time; 0: no limit.")] = 0.0,
) -> None:
    """Run the histories and compare silver with the source. Exit with 1 if any table was silently wrong or stuck."""
    began = shown = time.monotonic()
    outcomes: list[Outside] = []
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, initializer=quiet, maxtasksperchild=RENEWED) as pool:
        for outcome in pool.imap_unordered(run, range(seed, seed + histories)):
            outcomes.append(outcome)
            if outcome.failure is not None:
                print(f"\nseed {outcome.seed} is wrong:\n{outcome.failure}\n", flush=True)
            if 0 < minutes * 60 < time.monotonic() - began:
                break
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                wrong = sum(one.failure is not None for one in outcomes)
                print(
                    f"{len(outcomes)} of {histories} after {shown - began:.0f} s, {wrong} wrong", flush=True
                )
    _print(outcomes, time.monotonic() - began)
    raise typer.Exit(1 if any(outcome.failure for outcome in outcomes) else 0)


def _print(outcomes: list[Outside], seconds: float) -> None:
    actions: Counter[str] = Counter()
    mended: Counter[str] = Counter()
    for outcome in outcomes:
        actions += outcome.actions
        mended += outcome.mended
    for title, found in (("action", actions), ("mended by", mended)):
        print(f"\n{title:32}{'times':>8}")
        for name, times in sorted(found.items()):
            print(f"  {name:30}{times:8}")
    print(f"\nhistories                       {len(outcomes):8}")
    print(f"comparisons of whole tables     {sum(outcome.compared for outcome in outcomes):8}")
    print(f"ended with a reload to be asked {sum(outcome.needs_reload for outcome in outcomes):8}")
    print(f"silent differences (rows)       {sum(outcome.wrong_rows for outcome in outcomes):8}")
    print(f"failed                          {sum(outcome.failure is not None for outcome in outcomes):8}")
    print(f"{seconds:.0f} s")


if __name__ == "__main__":
    typer.run(main)
