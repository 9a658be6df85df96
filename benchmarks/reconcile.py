"""`python -m benchmarks.reconcile`: one flipped cell among many rows is found by a cycle of slices, and repaired.

A full load and batches of changes are applied. Then a writer outside the engine changes one cell by a commit that the
table's guard takes for the engine's own. A cycle compares the table with its files, slice by slice, or all slices in
one pass. Here: the time of each step, and its share of the time that applying took; with `--minutes`, the share that
the check takes when it runs beside a feed. Not here: tests of what is found.
"""

import os
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from benchmarks.large_tables.bench import Bench, opened, options
from benchmarks.large_tables.contenders import Product
from benchmarks.large_tables.workloads import Source, Workload
from lake_assets.checks.data_check import Outcome
from lake_assets.checks.reconcile_rule import equals_files
from lake_assets.config import Reconcile
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets.silver.reconcile.compare_slices import begun_cycle, compare, known_cycle, note
from lake_assets.silver.reconcile.cycle import Cycle
from lake_assets.silver.reconcile.repair import repair
from lake_assets.silver.table.guard import refuse_unfit
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.reconcile.outside_writer import rewrite

T = TypeVar("T")
SHARE, WEEK = 0.03, 7 * 86400
SMALL = Workload("1,000 uniform", 1_000, files=1)
EVALUATIONS = 14
"""How often the check is evaluated in a period: daily, for two weeks."""
TENDED = 50
"""Batches between two maintenances of the table."""


def timed(what: str, call: Callable[[], T]) -> tuple[T, float]:
    """The result of the call and its seconds, which are printed."""
    begin = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - begin
    print(f"{what}: {seconds:.1f} s, load average {os.getloadavg()[0]:.1f}", flush=True)
    return result, seconds


def measure(bench: Bench, rows: int, batches: int, slices: list[int], ending: str) -> None:
    """Applies, flips, compares, repairs; prints each step."""
    source, (target,) = Source(bench.bronze, rows, ending=ending), bench.lake.targets
    product, runtime = Product(bench.lake, [target]), bench.lake.runtime
    _, load = timed(f"full load of {rows:,} rows as {ending}", partial(product.load, source.load()))
    taken = []
    for number in range(batches):
        files = source.changes(SMALL)
        taken.append(timed(f"batch {number + 1} of {SMALL.name}", partial(product.apply, files))[1])
    key = int(source.alive[rows // 2])
    assert rewrite(bench.lake, target.identifier, f"id = {key}", price="price + 0.01") == 1
    refuse_unfit(target, runtime.catalog.load_table(target.identifier))
    print(f"price of id={key} is flipped; the guard has not noticed", flush=True)
    for number in slices:
        cycle, spent = timed(
            f"begin of a cycle of {number}",
            partial(begun_cycle, runtime, target, number, None, datetime.now(UTC)),
        )
        for one in range(cycle.number):
            found, seconds = timed(
                f"slice {one + 1} of {cycle.number}", partial(compare, runtime, target, cycle, [one])
            )
            spent += seconds
            cycle = note(runtime, target, cycle, found)
            if found.different:
                print(f"  found: {found.examples[one]}", flush=True)
        assert cycle.different, "the cycle finds the cell"
        report(cycle, spent, load, statistics.median(taken))
    (one,) = cycle.different
    done, _ = timed("repair of its slice", partial(repair, runtime, target, cycle, [one]))
    assert (done.rows, done.left) == (1, 0)
    again, _ = timed("the slice once more", partial(compare, runtime, target, cycle, [one]))
    assert not again.different
    print("found and repaired")


def measure_check(bench: Bench, rows: int, minutes: float, ending: str) -> None:
    """The check itself beside a feed, for two periods. In the first one it learns what a reading takes, and in the
    second one a cell is flipped. Prints the check's time in percent of that of applying."""
    source, (target,) = Source(bench.bronze, rows, ending=ending), bench.lake.targets
    product, runtime = Product(bench.lake, [target]), bench.lake.runtime
    product.load(source.load())
    check = equals_files(target, Reconcile(every=timedelta(minutes=minutes)))
    for period in (1, 2):
        applied, compared, batches = 0.0, 0.0, 0
        begun, evaluations = time.monotonic(), 0
        while (passed := (time.monotonic() - begun) / 60 / minutes) < 1:
            files = source.changes(SMALL)
            applied += bench.measured(product.apply, files).seconds
            batches += 1
            if batches % TENDED == 0:
                maintain_silver(runtime, (), target)
            if evaluations <= passed * EVALUATIONS:
                evaluations += 1
                outcome, seconds = timed(
                    f"evaluation {evaluations} of period {period}", partial(check, runtime, ())
                )
                compared += seconds
                print(outcome.state, flush=True)
                mend(bench, target, outcome)
            if period == 2 and batches == 1:
                one = f"id = {source.alive[rows // 2]}"
                assert rewrite(bench.lake, target.identifier, one, price="price + 1") == 1
        print(
            f"period {period}: {batches} batches took {applied:.1f} s, {evaluations} evaluations {compared:.1f} s: "
            f"{100 * compared / applied:.1f} %",
            flush=True,
        )


def mend(bench: Bench, target: Target, outcome: Outcome) -> None:
    """Repairs what the check has found, as its message says."""
    if outcome.figures.get("rows_different"):
        runtime, cycle = bench.lake.runtime, known_cycle(bench.lake.runtime, target)
        assert cycle is not None
        done, _ = timed("repair", partial(repair, runtime, target, cycle, list(cycle.different)))
        assert (done.rows, done.left) == (1, 0)


def report(cycle: Cycle, spent: float, load: float, batch: float) -> None:
    """The cost of a cycle, and how much a feed must apply for it to be 3 %."""
    batches = spent / SHARE / batch
    print(
        f"cycle of {cycle.number}: {cycle.rows:,} rows, {spent:.1f} s, {spent / load:.2f} of the full load's time. It "
        f"is 3 % of {batches:,.0f} batches of {batch:.2f} s: in 7 days, one every {WEEK / batches:,.0f} s",
        flush=True,
    )


def main() -> None:
    """The command line."""
    parser = options(__doc__, rows=10_000_000, repeat=1, memory="6g")
    parser.add_argument("--batches", type=int, default=8, help="batches of 1,000 changes before the flip")
    parser.add_argument(
        "--slices", type=int, nargs="+", default=[7, 1], help="slices of each cycle, one after another"
    )
    parser.add_argument("--ending", choices=["parquet", "csv"], default="csv")
    parser.add_argument("--minutes", type=float, help="measure the check itself, with this period")
    given = parser.parse_args()
    with opened("reconcile", given) as bench:
        if given.minutes:
            measure_check(bench, given.rows, given.minutes, given.ending)
            return
        measure(bench, given.rows, given.batches, given.slices, given.ending)


if __name__ == "__main__":
    main()
