"""`lake-assets demo` on the command line.

Not here: the demonstration (`demo/`).
"""

from pathlib import Path
from typing import Annotated

import typer

from lake_assets.commands.run.sync_cli import BRIEF_ROWS, run_sync
from lake_assets.commands.show.console import messages, results
from lake_assets.words import many

demo = typer.Typer(no_args_is_help=True, help="Run the bike-sharing demonstration.")
out = results()
err = messages()

Changes = Annotated[int, typer.Option(help="The least number of changes.", min=1000)]
Days = Annotated[float, typer.Option(help="Days that the history covers; it ends now.", min=0.1)]
Seed = Annotated[int, typer.Option(help="The same seed and end time give the same files.")]


@demo.command()
def generate(context: typer.Context, changes: Changes = 200_000, days: Days = 7, seed: Seed = 1) -> None:
    """Write a history of the source: a full load and CDC files."""
    generate_history(context.obj, changes, days, seed)


@demo.command()
def feed(
    context: typer.Context,
    rate: Annotated[float, typer.Option(help="Changes a second.")] = 20.0,
    flush_seconds: Annotated[
        float, typer.Option(help="Seconds from the first commit in a file to the file.")
    ] = 5.0,
    duration: Annotated[float | None, typer.Option(help="Seconds; by default until it is stopped.")] = None,
) -> None:
    """Continue the source in real time."""
    from lake_assets.commands.setup.folder import local_folder
    from lake_assets.config.config_file import load_lake
    from lake_assets.demo.demo_commands import demo_source
    from lake_assets.demo.feed import run_feed

    config = load_lake(context.obj)
    source = demo_source(config, local_folder(config, context.obj))
    run_feed(
        source.output,
        source.database,
        rate=rate,
        flush_seconds=flush_seconds,
        duration=duration,
        endpoint_url=source.config.s3.endpoint,
    )


@demo.command()
def run(context: typer.Context, changes: Changes = 200_000, days: Days = 7, seed: Seed = 1) -> None:
    """Generate a history unless there is one, run the main job, compare silver with the source."""
    from lake_assets.commands.run.warm_spark import on_running_server
    from lake_assets.commands.setup.folder import SPARK_LOG, local_folder
    from lake_assets.commands.show.show import show_comparison, show_rows
    from lake_assets.config.config_file import load_lake
    from lake_assets.demo import demo_commands as demonstration
    from lake_assets.lake import open_lake
    from lake_assets.spark.session import SparkSessions, check_spark

    config = load_lake(context.obj)
    check_spark(config)
    folder = local_folder(config, context.obj)
    source = demonstration.demo_source(config, folder)
    if source.exists:
        flushed = demonstration.flush_leftovers(source)
    else:
        flushed = True
        # Spark starts while the history is generated; the main job of this process then uses it.
        SparkSessions(on_running_server(context.obj), folder / SPARK_LOG).begin(brief=changes <= BRIEF_ROWS)
        generate_history(context.obj, changes, days, seed)
    code = run_sync(context.obj, None, None, True, layers=True)
    lake = open_lake(config)
    if not flushed:
        err.print(
            "A live feed is running: its source is ahead of its files, so silver is not compared with it."
        )
        raise typer.Exit(code)
    comparisons = demonstration.compare(lake, source)
    show_comparison(out, comparisons)
    catalog = lake.runtime.catalog
    for mart in demonstration.SHOWN:
        rows = demonstration.top_rows(catalog, f"gold.{mart.name}", mart.by, 5, mart.of_full_day)
        show_rows(out, mart.title, rows, mart.columns)
    raise typer.Exit(code if all(found.equal for found in comparisons) else 1)


def generate_history(config: Path, changes: int, days: float, seed: int) -> None:
    """Writes the demonstration's history, unless there is one."""
    from lake_assets.commands.run.progress import ProgressBar
    from lake_assets.commands.setup.folder import local_folder
    from lake_assets.config.config_file import load_lake
    from lake_assets.demo.demo_commands import demo_source
    from lake_assets.demo.demo_commands import generate as generate_demo

    lake = load_lake(config)
    source = demo_source(lake, local_folder(lake, config))
    if source.exists:
        err.print(f"{source.database} exists already: the source continues from it.")
        return
    with ProgressBar(err) as bar:
        bar.begin("history", changes)
        written = generate_demo(
            source,
            changes=changes,
            days=days,
            seed=seed,
            progress=lambda done, asked: bar.at("history", done),
        )
    ops = written.ops
    out.print(
        f"source: {many(sum(written.load_rows.values()), 'row')} in {many(written.load_files, 'full-load file')}, "
        f"{many(sum(written.rows.values()), 'change')} ({ops['I']:,} I, {ops['U']:,} U, {ops['D']:,} D) of "
        f"{many(written.transactions, 'transaction')} in {many(written.cdc_files, 'CDC file')}, {written.seconds:.1f} s"
    )
