"""`lake-assets demo stream`: the company's changes through a topic of Kafka, live, and compared at the end.

Here: the command, and its live part. Not here: the source (`demo/stream_demo.py`).
"""

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lake_assets.commands.demo.demo_cli import Changes, Days, Seed, err, out
from lake_assets.commands.run.sync_cli import run_sync
from lake_assets.words import many

if TYPE_CHECKING:
    from lake_assets.demo.stream_demo import StreamDemo
    from lake_assets.lake import Lake

FLUSH_SECONDS = 0.2
"""DMS sends a message within about this time."""
QUIET_SECONDS = 5.0
"""So long after the last change, nothing is under way any more."""


def stream(
    context: typer.Context,
    changes: Changes = 20_000,
    days: Days = 1,
    seed: Seed = 1,
    seconds: Annotated[float, typer.Option(help="How long the live part takes.")] = 60.0,
    rate: Annotated[float, typer.Option(help="Changes a second of the live part.")] = 50.0,
    ui: Annotated[
        bool, typer.Option("--ui", help="Open Dagster's UI for the live part, until it is stopped.")
    ] = False,
    port: Annotated[int, typer.Option(help="Port of the UI.")] = 3000,
) -> None:
    """Send the source through a topic of Kafka, whose broker starts here: a history, then live changes, a new column
    and a reload. Compare silver with the source, and print how long changes took."""
    from lake_assets.commands.demo.kafka_broker import kafka_broker
    from lake_assets.commands.run.progress import ProgressBar
    from lake_assets.commands.setup.dagster_files import place
    from lake_assets.commands.setup.folder import local_folder
    from lake_assets.commands.show.latency import latency
    from lake_assets.commands.show.show import show_comparison, show_latency
    from lake_assets.config.config_file import load_lake
    from lake_assets.demo import demo_commands as demonstration
    from lake_assets.demo.stream_demo import ADDED, STATIONS, StreamDemo
    from lake_assets.lake import open_lake
    from lake_assets.spark.session import check_spark

    config = load_lake(context.obj)
    check_spark(config)
    folder = local_folder(config, context.obj) / "stream"
    shutil.rmtree(folder, ignore_errors=True)
    with kafka_broker(folder / "kafka") as broker:
        found = StreamDemo(folder, broker)
        found.write_config(context.obj)
        place(folder)
        with ProgressBar(err) as bar:
            bar.begin("history", changes)
            found.send_history(
                changes=changes, days=days, seed=seed, progress=lambda done, asked: bar.at("history", done)
            )
        code = run_sync(found.config, None, None, True, layers=True)
        if ui:
            raise typer.Exit(_in_dagster(found.config, port, rate))
        began = datetime.now(UTC)
        out.print(f"Live for {seconds:.0f} s, at a rate of {rate:.0f}/s.")
        lake = open_lake(load_lake(found.config))
        rounds = _live(lake, found, seconds, rate)
        added = {STATIONS.name: (ADDED.name,)}
        comparisons = demonstration.compare(
            lake, demonstration.demo_source(lake.config, found.database.parent), added
        )
        show_comparison(out, comparisons)
        filled = _filled(lake)
        out.print(
            f"The stations got the column {ADDED.name}, and were loaded again: {many(filled, 'row')} in silver have it."
        )
        out.print(f"{many(rounds, 'round')} of the continuous run:")
        show_latency(out, latency(lake, since=began))
    raise typer.Exit(code if filled and all(table.equal for table in comparisons) else 1)


def _filled(lake: "Lake") -> int:
    """The stations that have a value in the column that was added."""
    from lake_assets.demo.demo_commands import SOURCE
    from lake_assets.demo.stream_demo import ADDED, STATIONS

    stations = lake.runtime.catalog.load_table(f"silver_{SOURCE}.{STATIONS.name}").scan().to_arrow()
    if ADDED.name not in stations.column_names:
        return 0
    return sum(value is not None for value in stations.column(ADDED.name).to_pylist())


def _in_dagster(config: Path, port: int, rate: float) -> int:
    """Dagster's UI and daemon, with a live feed to the topic, until it is stopped."""
    from lake_assets.commands.run.dev import dev

    feed = ["demo", "feed", "--rate", str(rate), "--flush-seconds", str(FLUSH_SECONDS)]
    text = f"Dagster's UI starts on http://localhost:{port}; Ctrl-C stops it, the live feed and the broker."
    return dev(config, port=port, feed=feed, started=lambda: err.print(text))


def _live(lake: "Lake", source: "StreamDemo", seconds: float, rate: float) -> int:
    """The source goes on in real time, with a process that lands and a continuous run beside it. Returns the number of
    rounds."""
    from lake_assets.demo.demo_commands import SOURCE
    from lake_assets.demo.feed import run_feed
    from lake_assets.orchestration.instance import dagster_instance
    from lake_assets.orchestration.runs.continuous_run import Continuous

    options = {"rate": rate, "flush_seconds": FLUSH_SECONDS, "duration": seconds}
    feed = threading.Thread(target=run_feed, args=(source.topic, source.database), kwargs=options)
    rounds = 0
    with dagster_instance(source.folder) as instance, _lands(source.config):
        run = Continuous(lake.runtime, SOURCE, lake.targets, lake.marts, instance)
        feed.start()
        quiet_since = time.monotonic()
        began, is_reloaded = time.monotonic(), False
        while feed.is_alive() or time.monotonic() - quiet_since < QUIET_SECONDS:
            if not is_reloaded and time.monotonic() - began > seconds / 2:
                source.reload_stations()
                is_reloaded = True
            done = run.round(0.5)
            rounds += 1
            if done.files or done.batches or done.marts or done.under_way:
                quiet_since = time.monotonic()
        run.finish()
        run.close()
    return rounds


@contextmanager
def _lands(config: Path) -> Iterator[None]:
    """`lake-assets stream` in a process of its own."""
    command = [sys.executable, "-m", "lake_assets.cli", "--config", str(config), "stream"]
    with (config.parent / "stream.log").open("wb") as log:
        reader = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            yield
        finally:
            reader.send_signal(signal.SIGINT)
            reader.wait()
