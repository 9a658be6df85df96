"""`python -m benchmarks.scale.simulate costs.json`: latency and load of many tables, by a simulation of rounds.

Every batch takes what a measured one took, drawn at random from `costs.py`'s lists, plus the requests that were counted
(`benchmarks/requests.py`) at a given time each. Here: the simulation, and the shares of each resource. Not here: the
price of requests for a choice of settings (`lake-assets advise`).

A round scans, logs, and applies every table with new files, as the continuous run does. Its turns run side by side:
Python's part of all of them on one core, because one process has one interpreter, Java's on the others.
"""

import argparse
import heapq
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import quantiles

from lake_assets.commands.setup.advise import (
    GET_DOLLARS,
    GETS_A_BATCH,
    GETS_A_FILE,
    PUT_DOLLARS,
    PUTS_A_BATCH,
    PUTS_A_LOG,
)

IN_TURN = 10
"""Requests of a batch that wait for each other; the others are sent side by side. By the seconds of a batch with 20 ms
a request (docs/performance.md, "Requests to S3"), without those of Java and Python."""
COMMITS_A_BATCH = 2
"""Of the catalog: the table, and the file log's share of a round."""
BULK_CHANGES = 200_000
"""Changes of a batch of the kind `bulk` (`costs.py`)."""
MONTH = 30 * 86_400
STORAGE_DOLLARS = 0.023
"""A GB and month of S3 Standard in us-east-1."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A deployment and its load."""

    tables: int = 1_000
    changes: float = 50_000
    """Changes a second of all tables together."""
    skew: float = 1.1
    """The exponent of Zipf's law by which they are spread."""
    interval: float = 60.0
    """Seconds between two files of a table that has changes."""
    cores: int = 8
    """Of Java, besides the one of the process."""
    processes: int = 1
    """Among which the tables are divided, each with so many cores."""
    threads: int = 16
    request_ms: float = 20.0
    terabytes: float = 10.0
    catalog_per_second: float = 10.0
    """Commits that the catalog takes. An assumption: Glue's quotas are an account's own."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Lists of (clock, Python's, Java's) seconds, by step."""

    steps: dict[str, list[tuple[float, float, float]]]

    @classmethod
    def read(cls, path: Path) -> "Costs":
        found = json.loads(path.read_text())
        return cls({n: list(zip(s["clock"], s["python"], s["java"], strict=True)) for n, s in found.items()})

    def drawn(self, rng: Random, changes: float) -> tuple[float, float]:
        """Python's and Java's seconds of a batch of so many changes of a large table: of one with few changes, and a
        share of what many changes take more."""
        _, python, java = rng.choice(self.steps["large"])
        _, more_python, more_java = rng.choice(self.steps["bulk"])
        share = changes / BULK_CHANGES
        return python + share * max(0.0, more_python - python), java + share * max(0.0, more_java - java)

    def middle(self, step: str) -> tuple[float, float, float]:
        """The medians."""
        columns = zip(*self.steps[step], strict=True)
        clock, python, java = (sorted(column)[len(column) // 2] for column in columns)
        return clock, python, java


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the simulation gave."""

    p50: float
    p99: float
    """Seconds from a file to its rows in silver, weighted by changes."""
    round_seconds: float
    grows: bool
    """Whether files wait longer and longer."""
    shares: dict[str, float]
    """By resource, the share of it that is used."""
    dollars: float
    """A month's requests and storage, without machines."""


def rates(scenario: Scenario) -> list[float]:
    """Changes a second of each table."""
    weights = [1 / place**scenario.skew for place in range(1, scenario.tables + 1)]
    return [scenario.changes * weight / sum(weights) for weight in weights]


def simulate(scenario: Scenario, costs: Costs, seconds: float = 900.0, seed: int = 1) -> Outcome:
    """One of the processes, with its share of the tables."""
    rng = Random(seed)
    own = rates(scenario)[:: scenario.processes]
    due = [(rng.uniform(0, scenario.interval), table) for table in range(len(own))]
    heapq.heapify(due)
    waiting: dict[int, list[float]] = {}
    now, rounds, waits = 0.0, list[float](), list[tuple[float, float]]()
    python_used = java_used = 0.0
    batches = files = 0
    request = scenario.request_ms / 1000
    while now < seconds:
        while due and due[0][0] <= now:
            at, table = heapq.heappop(due)
            waiting.setdefault(table, []).append(at)
            heapq.heappush(due, (at + scenario.interval * rng.uniform(0.9, 1.1), table))
        began = now
        now += costs.middle("look")[0] + request
        if not waiting:
            now = max(now, due[0][0])
            continue
        taken, waiting = waiting, {}
        now += costs.middle("log")[0] + PUTS_A_LOG * request
        ends, python, java = _turns(scenario, costs, own, taken, rng)
        python_used, java_used = python_used + python, java_used + java
        for table, end in ends.items():
            weight = own[table] * scenario.interval
            waits += [(now + end - at, weight) for at in taken[table]]
            files += len(taken[table])
        batches += len(ends)
        now += max(ends.values())
        rounds.append(now - began)
    late = [wait for wait, _ in waits[-len(waits) // 4 :]]
    early = [wait for wait, _ in waits[len(waits) // 4 : len(waits) // 2]]
    per_second = scenario.processes / now
    shares = {
        "Python's core of a process": python_used / now,
        "Java's cores": java_used / now / scenario.cores,
        "commits of the catalog": batches * COMMITS_A_BATCH * per_second / scenario.catalog_per_second,
        "requests of a prefix of the bucket (3,500 PUT a second)": batches
        * PUTS_A_BATCH
        * per_second
        / 3_500,
    }
    puts, gets = batches * PUTS_A_BATCH, batches * GETS_A_BATCH + files * GETS_A_FILE
    requests = (puts * PUT_DOLLARS + gets * GET_DOLLARS) * per_second * MONTH
    return Outcome(
        _weighted(waits, 0.5),
        _weighted(waits, 0.99),
        sum(rounds) / len(rounds),
        sum(late) / len(late) > 1.5 * sum(early) / len(early),
        shares,
        requests + scenario.terabytes * 1000 * STORAGE_DOLLARS,
    )


def _turns(
    scenario: Scenario,
    costs: Costs,
    own: Sequence[float],
    taken: dict[int, list[float]],
    rng: Random,
) -> tuple[dict[int, float], float, float]:
    """By table, when its turn ends; and the processor seconds of all turns. Threads take the tables one after the
    other. A turn needs Python's only core, and one of Java's, one after the other for each; requests need none."""
    free = [0.0] * scenario.threads
    java_free = [0.0] * scenario.cores
    python_free = used_python = used_java = 0.0
    ends = {}
    for table in sorted(taken, key=lambda table: -own[table]):
        python, java = costs.drawn(rng, own[table] * scenario.interval * len(taken[table]))
        used_python, used_java = used_python + python, used_java + java
        began = heapq.heappop(free)
        python_free = max(python_free, began) + python
        java_began = max(heapq.heappop(java_free), python_free)
        heapq.heappush(java_free, java_began + java)
        ends[table] = java_began + java + IN_TURN * scenario.request_ms / 1000
        heapq.heappush(free, ends[table])
    return ends, used_python, used_java


def _weighted(waits: Sequence[tuple[float, float]], share: float) -> float:
    """The wait below which this share of the changes is."""
    whole, passed = sum(weight for _, weight in waits), 0.0
    for wait, weight in sorted(waits):
        passed += weight
        if passed >= share * whole:
            return wait
    raise ValueError("nothing has waited")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("costs", type=Path)
    parser.add_argument("--tables", type=int, default=Scenario().tables)
    parser.add_argument("--changes", type=float, default=Scenario().changes)
    given = parser.parse_args()
    costs = Costs.read(given.costs)
    for step, measured in costs.steps.items():
        clock = [each[0] for each in measured]
        low, high = (quantiles(clock, n=10)[place] for place in (0, 8))
        print(f"{step}: {len(measured)} measured, {low:.3f} to {high:.3f} s")
    # Measured: rounds of 1.86 s, p50 1.9 s from the landing (docs/performance.md, five tables of a million rows).
    known = Scenario(5, 200, skew=0, interval=1, cores=2, threads=6, request_ms=0)
    done = simulate(known, costs)
    print(
        f"five tables on two cores: rounds of {done.round_seconds:.2f} s, p50 {done.p50:.2f}, p99 {done.p99:.2f} s"
    )
    base = Scenario(tables=given.tables, changes=given.changes)
    print("| files every | processes | cores each | p50 s | p99 s | round s | grows | fullest | $ a month |")
    print("|---|---|---|---|---|---|---|---|---|")
    for interval in (60.0, 10.0, 1.0):
        for processes in (1, 4, 16):
            for cores in (2, 8):
                scenario = replace(base, interval=interval, processes=processes, cores=cores)
                done = simulate(scenario, costs)
                fullest = sorted(done.shares.items(), key=lambda each: -each[1])[:2]
                said = ", ".join(f"{name} {share:.0%}" for name, share in fullest)
                print(
                    f"| {interval:g} s | {processes} | {cores} | {done.p50:.1f} | {done.p99:.1f} | "
                    f"{done.round_seconds:.1f} | {'yes' if done.grows else 'no'} | {said} | {done.dollars:,.0f} |"
                )


if __name__ == "__main__":
    main()
