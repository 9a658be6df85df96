"""`lake-assets backfill` on the command line. Not here: the work (`orchestration/backfill.py`)."""

from typing import Annotated

import typer

from lake_assets.commands.show.console import results
from lake_assets.words import many

out = results()


def backfill(
    context: typer.Context,
    mart: Annotated[str, typer.Argument(help="The mart, such as station_daily.")],
    first: Annotated[
        str, typer.Argument(help="The first partition, such as 2026-03-01 or 2026-03-01-00:00.")
    ],
    last: Annotated[str, typer.Argument(help="The last partition, included.")],
    chunk: Annotated[
        int | None, typer.Option(min=1, help="How many partitions one run computes at most; by default all.")
    ] = None,
) -> None:
    """Compute partitions of a mart again. If it is stopped, `sync` or the sensors compute what is left."""
    from lake_assets.commands.run.opening import opened
    from lake_assets.rounds.requested_periods import asked_periods

    lake = opened(context.obj, needs_marts=True)
    # Report a mistake in the arguments before Spark starts.
    asked_periods(lake.config, lake.marts, mart, first, last)
    lake.runtime.sessions.begin()
    # Spark starts during the import of Dagster, which takes seconds.
    from lake_assets.orchestration.backfill import backfill as computed
    from lake_assets.orchestration.instance import dagster_instance

    with dagster_instance(context.obj.absolute().parent) as instance:
        for begin, end, number in computed(lake, instance, mart, first, last, chunk):
            out.print(f"{many(number, 'partition')} from {begin} to {end} computed")
