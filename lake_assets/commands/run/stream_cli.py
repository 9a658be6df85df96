"""`lake-assets stream`: lands the messages of a source's stream until it is stopped.

Here: the loop of one process, its pauses and its end. Not here: a landing (`bronze/stream/landing.py`). It needs no
Spark, so that messages land while silver is down: Kinesis keeps them for a day.
"""

import signal
import threading
from types import FrameType
from typing import Annotated

import typer

from lake_assets.commands.show.console import messages
from lake_assets.words import many

LONGEST_PAUSE = 30.0
"""Seconds between two attempts while the stream cannot be read."""


def stream(
    context: typer.Context,
    source: Annotated[
        str | None, typer.Argument(help="The source; may be left out if only one has a stream.")
    ] = None,
) -> None:
    """Land the messages of a source's stream as they arrive, without Spark, until it is stopped. Several processes may
    do so at once. Exit with 1 if messages that were not read are gone."""
    from lake_assets.bronze.stream.clients import StreamLost
    from lake_assets.commands.run.opening import opened
    from lake_assets.rounds.arrivals import opened_stream
    from lake_assets.storage.object_store import StoreError

    lake, err = opened(context.obj, spark=False), messages()
    streams = sorted(name for name, config in lake.config.sources.items() if config.stream is not None)
    if source is None and len(streams) == 1:
        (source,) = streams
    if source not in streams:
        has = f"those with a stream are {', '.join(streams)}" if streams else "no source has a stream"
        raise typer.BadParameter(f"name a source with a stream: {has}", param_hint="SOURCE")
    ended = threading.Event()
    _end_on_signals(ended)
    arrivals, pause = opened_stream(lake.runtime, source), 0.0
    try:
        while not ended.wait(pause):
            try:
                found = arrivals.scan(LONGEST_PAUSE)
            except StreamLost as lost:
                err.print(str(lost), highlight=False, markup=False)
                raise typer.Exit(1) from lost
            except StoreError as error:
                pause = min(LONGEST_PAUSE, pause * 2 or 1.0)
                err.print(f"{error} The next attempt is in {pause:.0f} s.", highlight=False, markup=False)
                continue
            pause = 0.0
            if found.logged:
                err.print(f"{source}: {many(found.listed, 'message')} in {many(len(found.logged), 'file')}")
    finally:
        arrivals.close()


def _end_on_signals(ended: threading.Event) -> None:
    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
