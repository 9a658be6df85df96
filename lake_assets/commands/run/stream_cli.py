"""`lake-assets stream`: lands the messages of a source's stream until it is stopped.

Here: the command and its end. Not here: the landings (`rounds/landings.py`). It needs no Spark, so that messages land
while silver is down: Kinesis keeps them for a day.
"""

import signal
import threading
from contextlib import closing
from types import FrameType
from typing import Annotated

import typer

from lake_assets.commands.show.console import messages
from lake_assets.words import many


def stream(
    context: typer.Context,
    source: Annotated[
        str | None, typer.Argument(help="The source; may be left out if only one has a stream.")
    ] = None,
    skip_expired: Annotated[
        bool,
        typer.Option(
            "--skip-expired",
            help="After messages expired, go on with those that the stream still has; land nothing.",
        ),
    ] = False,
) -> None:
    """Land the messages of a source's stream as they arrive, without Spark, until it is stopped. Several processes may
    do so at once. Exit with 1 if messages that were not read are gone."""
    from lake_assets.bronze.stream.clients import StreamLost
    from lake_assets.commands.run.opening import opened
    from lake_assets.rounds.arrivals import opened_stream
    from lake_assets.rounds.landings import land_until

    lake, err = opened(context.obj, spark=False), messages()
    streams = sorted(name for name, config in lake.config.sources.items() if config.stream is not None)
    if source is None and len(streams) == 1:
        (source,) = streams
    if source not in streams:
        has = f"those with a stream are {', '.join(streams)}" if streams else "no source has a stream"
        raise typer.BadParameter(f"name a source with a stream: {has}", param_hint="SOURCE")
    ended = threading.Event()
    _end_on_signals(ended)

    def landed(count: int, files: int) -> None:
        err.print(f"{source}: {many(count, 'message')} in {many(files, 'file')}")

    def warn(sentence: str) -> None:
        err.print(sentence, highlight=False, markup=False)

    if skip_expired:
        with closing(opened_stream(lake.runtime, source)) as arrivals:
            arrivals.skip_expired()
        warn(
            "Reading goes on with the messages that the stream still has. Have DMS reload the tables: until then, the "
            "changes that expired are missing."
        )
        return
    try:
        land_until(ended, lake.runtime, source, warn, landed)
    except StreamLost as lost:
        warn(str(lost))
        raise typer.Exit(1) from lost


def _end_on_signals(ended: threading.Event) -> None:
    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
