"""`python -m lake_assets_tests.soak`: runs random histories and prints a table of their features.

Here: the command line. Not here: processes (`workers.py`), a history (`run.py`).
"""

import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lake_assets_tests.soak.plan import KINDS, SWITCHES
from lake_assets_tests.soak.record import add_to, recorded
from lake_assets_tests.soak.run import History, Outcome, history
from lake_assets_tests.soak.run import run as run_files
from lake_assets_tests.soak.stream import run as streamed
from lake_assets_tests.soak.workers import run_all

PROGRESS_SECONDS = 30
FIGURES = ("files", "changes", "turns", "compared", "kills", "wrong_rows")


def main(
    histories: Annotated[int, typer.Option(help="How many.")] = 100,
    seed: Annotated[int, typer.Option(help="The first one's seed; the next has the next.")] = 0,
    processes: Annotated[int, typer.Option(help="Each has a Spark of its own.")] = 2,
    minutes: Annotated[float, typer.Option(help="None begins after this time; 0: no limit.")] = 0.0,
    only: Annotated[
        str, typer.Option(help="Kinds or features, by commas: only histories that have all.")
    ] = "",
    stream: Annotated[
        bool, typer.Option("--stream", help="They arrive in a stream instead of files.")
    ] = False,
    without: Annotated[str, typer.Option(help=f"Not these, by commas: {', '.join(SWITCHES)}.")] = "",
    record: Annotated[
        Path | None,
        typer.Option(
            help="A file to which each outcome is added; seeds that it has as right are not run again."
        ),
    ] = None,
) -> None:
    """Runs random histories and compares silver with the source. Exits with 1 if any table was wrong."""
    off, wanted = _names(without), _names(only)
    if unknown := off - {*SWITCHES, *KINDS, "csv", "headerless", "mixed", "plain", "parallel"}:
        raise typer.BadParameter(f"{', '.join(sorted(unknown))} cannot be switched off")
    began = shown = time.monotonic()
    outcomes = recorded(record)
    done = {outcome.seed for outcome in outcomes if outcome.failure is None}
    written, run = (streamed.history, streamed.run) if stream else (history, run_files)
    chosen = _chosen(lambda number: written(number, off), seed, wanted)
    seeds = (found for found in itertools.islice(chosen, histories) if found not in done)
    outcomes = [outcome for outcome in outcomes if outcome.seed in done]
    own = partial(run, without=tuple(off))
    for outcome in run_all(seeds, own, processes, lambda: 0 < minutes * 60 < time.monotonic() - began):
        outcomes.append(outcome)
        add_to(record, outcome)
        if outcome.failure is not None:
            switches = " --stream" * stream + (f" --without {','.join(sorted(off))}" if off else "")
            print(f"\nseed {outcome.seed} is wrong; again with:")
            print(
                f"  python -m lake_assets_tests.soak --histories 1 --processes 1 --seed {outcome.seed}{switches}"
            )
            print(f"{outcome.failure}\n", flush=True)
        if time.monotonic() - shown > PROGRESS_SECONDS:
            shown = time.monotonic()
            wrong = sum(outcome.failure is not None for outcome in outcomes)
            print(f"{len(outcomes)} of {histories} after {shown - began:.0f} s, {wrong} wrong", flush=True)
    _print_table(outcomes, time.monotonic() - began)
    raise typer.Exit(1 if any(outcome.failure for outcome in outcomes) or not outcomes else 0)


def _names(text: str) -> set[str]:
    return {name.strip() for name in text.split(",") if name.strip()}


def _chosen(history: Callable[[int], History], first: int, wanted: set[str]) -> Iterator[int]:
    for seed in itertools.count(first):
        if not wanted:
            yield seed
            continue
        found = history(seed)
        if wanted <= {*found.seen, found.plan.kind}:
            yield seed


def _print_table(outcomes: list[Outcome], seconds: float) -> None:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.kind].append(outcome)
    features: Counter[str] = Counter(feature for outcome in outcomes for feature in outcome.features)
    print("\n" + " " * 34 + "".join(f"{title:>11}" for title in ("histories", *FIGURES, "failed")))
    for kind, found in sorted(groups.items()):
        _print_line(kind, found)
    for feature, _ in sorted(features.items()):
        _print_line(f"  {feature}", [outcome for outcome in outcomes if feature in outcome.features])
    _print_line("all", outcomes)
    stops = sum(outcome.stops for outcome in outcomes)
    own = sum(outcome.seconds for outcome in outcomes) / max(len(outcomes), 1)
    print(
        f"{len(outcomes)} histories in {seconds:.0f} s, {own:.1f} s each; {stops} turns stopped for missing files"
    )


def _print_line(name: str, found: list[Outcome]) -> None:
    sums = [sum(getattr(outcome, figure) for outcome in found) for figure in FIGURES]
    failed = sum(outcome.failure is not None for outcome in found)
    print(f"{name:34}" + "".join(f"{figure:11}" for figure in (len(found), *sums, failed)))


if __name__ == "__main__":
    typer.run(main)
