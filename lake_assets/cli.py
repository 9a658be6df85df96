"""The command line, `lake-assets`: reads it, calls the command, prints the result.

Results go to standard output, messages to standard error. Exit codes: 0 done, 1 a table failed or stopped (the others
are applied) or the lake is not as the command needs it, 2 a wrong option, configuration or machine.
"""

import gc
import json
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lake_assets.commands.mend.mending_cli import detach, full_load, recover, restore
from lake_assets.commands.mend.quarantine_cli import quarantine
from lake_assets.commands.mend.rebuild_cli import rebuild, replay
from lake_assets.commands.run.maintain_cli import maintain
from lake_assets.commands.run.spark_cli import spark
from lake_assets.commands.setup.advise_cli import advise
from lake_assets.commands.setup.schema_cli import schema
from lake_assets.commands.show.console import messages, results
from lake_assets.config.config_file import ConfigError, lake_path, load_lake
from lake_assets.errors import CatalogUnavailable, DocumentError, LakeError
from lake_assets.spark.preflight import PreflightError
from lake_assets.words import many

if TYPE_CHECKING:
    from lake_assets.commands.run.progress import ProgressBar
    from lake_assets.lake import Lake
    from lake_assets.rounds.pending_work import Looked, SyncResult

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    # A traceback must not quote variables: an address may be among them, with its password.
    pretty_exceptions_show_locals=False,
    help="A lakehouse from AWS DMS files.",
)
demo = typer.Typer(no_args_is_help=True, help="The bike-sharing demonstration.")
app.add_typer(demo, name="demo")
app.add_typer(quarantine, name="quarantine")
app.add_typer(schema, name="schema")
app.add_typer(spark, name="spark")
app.command()(rebuild)
app.command()(replay)
app.command("full-load")(full_load)
app.command()(restore)
app.command()(recover)
app.command()(detach)
app.command()(maintain)
app.command()(advise)

out = results()
err = messages()

Config = Annotated[Path | None, typer.Option("--config", help="The lake.yaml to use; also LAKE_CONFIG.")]


@app.callback()
def options(context: typer.Context, config: Config = None) -> None:
    """A lakehouse from AWS DMS files."""
    context.obj = lake_path(config)


@app.command()
def validate(context: typer.Context) -> None:
    """Check lake.yaml, alone and against the files that are there; report every mistake with its place."""
    from lake_assets.commands.setup.validate import check
    from lake_assets.lake import open_lake

    lake = open_lake(load_lake(context.obj))
    checked = check(lake)
    for warning in checked.warnings:
        err.print(f"warning: {warning}")
    if checked.mistakes:
        raise ConfigError(context.obj, list(checked.mistakes))
    tables = sum(len(source.tables) for source in lake.config.sources.values())
    out.print(
        f"{context.obj}: {many(len(lake.config.sources), 'source')}, {many(tables, 'table')}, "
        f"{many(len(lake.targets), 'silver table')}, "
        f"{many(len(lake.marts), 'mart')}: valid"
    )


@app.command("import-endpoint")
def import_endpoint(
    files: Annotated[
        list[Path],
        typer.Argument(help="JSON of `aws dms describe-endpoints`, `describe-replication-tasks`, mappings."),
    ],
    output: Annotated[Path | None, typer.Option(help="A new file for the section.")] = None,
) -> None:
    """Turn DMS's own description of a task into the sources section of lake.yaml."""
    from lake_assets.commands.setup.import_endpoint import import_endpoint as imported

    text = imported(files, output)
    if output is None:
        typer.echo(text, nl=False)
    else:
        err.print(f"{output} is written; it opens no lake before what it calls undecided is decided.")


@app.command()
def init(
    address: Annotated[
        str,
        typer.Option(
            "--from-database",
            metavar="URL",
            envvar="LAKE_SOURCE_URL",
            show_envvar=True,
            help="A SQLAlchemy URL, such as postgresql://user:password@host/database. Nothing of it is written.",
        ),
    ],
    schema: Annotated[list[str] | None, typer.Option(help="Only this schema; may be repeated.")] = None,
    source: Annotated[str, typer.Option(help="The source's name in lake.yaml.")] = "source",
    location: Annotated[
        str | None, typer.Option(help="Where DMS writes: a folder or s3://bucket/prefix.")
    ] = None,
    output: Annotated[str, typer.Option(help="The file to write; - for standard output.")] = "lake.yaml",
) -> None:
    """Write a lake.yaml with all tables of a source database: columns, types, NOT NULL and primary keys; beside it,
    workspace.yaml and dagster.yaml, which Dagster reads, where they are missing."""
    from lake_assets.commands.setup.init import init as write_contract

    written = write_contract(
        address,
        None if output == "-" else Path(output),
        schemas=schema or [],
        source=source,
        location=location,
    )
    if output == "-":
        typer.echo(written.text, nl=False)
    else:
        out.print(
            f"{output}: {many(written.tables, 'table')}, {many(written.columns, 'column')} of {written.engine}"
        )
    for decision in written.undecided:
        err.print(f"to decide: {decision}")


@app.command()
def sync(
    context: typer.Context,
    source: Annotated[str | None, typer.Option(help="Only this source.")] = None,
    table: Annotated[
        str | None, typer.Option(help="Only this table: schema.table, or the silver table's name.")
    ] = None,
    gold: Annotated[bool, typer.Option(help="Compute the marts too.")] = True,
) -> None:
    """List, apply and compute: the main job without a UI."""
    raise typer.Exit(_sync(context.obj, source, table, gold))


@app.command()
def status(context: typer.Context, as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
    """Per table: state, position, pending files, lag, rows, last batch. Exit code 1 if a table fails or has stopped."""
    from lake_assets.commands.show.show import show_status
    from lake_assets.commands.show.status import status as table_status
    from lake_assets.commands.show.status import stray_lines
    from lake_assets.lake import open_lake

    lines = table_status(open_lake(load_lake(context.obj)))
    if as_json:
        typer.echo(json.dumps([line.as_dict() for line in lines], indent=2))
    else:
        show_status(out, lines)
        for text in stray_lines(lines):
            err.print(text, highlight=False)
        for line in lines:
            if line.set_aside is not None:
                err.print(line.set_aside)
    raise typer.Exit(1 if any(line.is_wrong for line in lines) else 0)


@app.command()
def latency(context: typer.Context, as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
    """Per table and mart, how long changes took: source, file, silver, mart."""
    from lake_assets.commands.show.latency import latency as table_latency
    from lake_assets.commands.show.show import show_latency
    from lake_assets.lake import open_lake

    found = table_latency(open_lake(load_lake(context.obj)))
    if as_json:
        typer.echo(json.dumps([line.as_dict() for line in found], indent=2))
    else:
        show_latency(out, found)


@app.command()
def dev(
    context: typer.Context,
    port: Annotated[int, typer.Option(help="Port of the UI.")] = 3000,
    feed: Annotated[bool, typer.Option(help="Run the demonstration's live feed beside it.")] = False,
    rate: Annotated[float, typer.Option(help="Changes a second of the live feed.")] = 20.0,
) -> None:
    """Dagster's UI and daemon on this lake."""
    from lake_assets.commands.run.dev import dev as run_dev
    from lake_assets.demo.demo_commands import demo_source

    lake = load_lake(context.obj)
    arguments = None
    if feed:
        if not demo_source(lake).exists:
            _generate(context.obj, changes=200_000, days=7, seed=1)
        arguments = ["demo", "feed", "--rate", str(rate)]
    told = f"Dagster's UI comes up on http://localhost:{port}; Ctrl-C stops it" + (
        " and the live feed." if feed else "."
    )
    raise typer.Exit(run_dev(context.obj, port=port, feed=arguments, started=lambda: err.print(told)))


Changes = Annotated[int, typer.Option(help="At least so many changes.", min=1000)]
Days = Annotated[float, typer.Option(help="Days that the history covers; it ends now.", min=0.1)]
Seed = Annotated[int, typer.Option(help="The same seed and end give the same files.")]


@demo.command()
def generate(context: typer.Context, changes: Changes = 200_000, days: Days = 7, seed: Seed = 1) -> None:
    """Write a history of the source: a full load and CDC files."""
    _generate(context.obj, changes, days, seed)


@demo.command()
def feed(
    context: typer.Context,
    rate: Annotated[float, typer.Option(help="Changes a second.")] = 20.0,
    flush_seconds: Annotated[
        float, typer.Option(help="Seconds from the first commit in a file to the file.")
    ] = 5.0,
    duration: Annotated[float | None, typer.Option(help="Seconds; without it until stopped.")] = None,
) -> None:
    """Go on with the source in real time."""
    from lake_assets.demo.demo_commands import demo_source
    from lake_assets.demo.feed import run_feed

    source = demo_source(load_lake(context.obj))
    run_feed(
        source.config.location,
        source.database,
        rate=rate,
        flush_seconds=flush_seconds,
        duration=duration,
        endpoint_url=source.config.s3.endpoint,
    )


@demo.command()
def run(context: typer.Context, changes: Changes = 200_000, days: Days = 7, seed: Seed = 1) -> None:
    """Generate a history unless there is one, run the main job, compare silver with the source."""
    from lake_assets.commands.show.show import show_comparison, show_rows
    from lake_assets.demo import demo_commands as demonstration
    from lake_assets.lake import open_lake
    from lake_assets.spark.session import check_spark

    config = load_lake(context.obj)
    check_spark(config)
    source = demonstration.demo_source(config)
    if source.exists:
        flushed = demonstration.flush_leftovers(source)
    else:
        flushed = True
        _generate(context.obj, changes, days, seed)
    code = _sync(context.obj, None, None, True, layers=True)
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
        rows = demonstration.top_rows(catalog, f"gold.{mart.name}", mart.by, 5, mart.newest_day)
        show_rows(out, mart.title, rows, mart.columns)
    raise typer.Exit(code if all(found.equal for found in comparisons) else 1)


def _generate(config: Path, changes: int, days: float, seed: int) -> None:
    from lake_assets.commands.run.progress import ProgressBar
    from lake_assets.demo.demo_commands import demo_source
    from lake_assets.demo.demo_commands import generate as generate_demo

    source = demo_source(load_lake(config))
    if source.exists:
        err.print(f"{source.database} is there already: the source goes on from it.")
        return
    with ProgressBar(err) as bar:
        bar.begin("history", changes)
        written = generate_demo(
            source, changes=changes, days=days, seed=seed, told=lambda done, asked: bar.at("history", done)
        )
    ops = written.ops
    out.print(
        f"source: {many(sum(written.load_rows.values()), 'row')} in {many(written.load_files, 'full-load file')}, "
        f"{many(sum(written.rows.values()), 'change')} ({ops['I']:,} I, {ops['U']:,} U, {ops['D']:,} D) of "
        f"{many(written.transactions, 'transaction')} in {many(written.cdc_files, 'CDC file')}, {written.seconds:.1f} s"
    )


def _sync(path: Path, source: str | None, table: str | None, gold: bool, layers: bool = False) -> int:
    from lake_assets.commands.run.opening import opened
    from lake_assets.commands.run.progress import ProgressBar
    from lake_assets.rounds.pending_work import look

    lake = opened(path, source, table, spark=False)
    start = time.perf_counter()
    with ProgressBar(err) as bar:
        looked = look(lake, source=source, table=table, gold=gold, progress=bar)
        result = looked.result if looked.idle else _work(path, lake, looked, bar)
    if not result.nothing_pending:
        from lake_assets.commands.show.show import show_sync

        show_sync(out, result)
    for sentence in result.set_aside:
        err.print(sentence)
    for name, reason in sorted(result.waiting.items()):
        err.print(f"{name}: {reason}")
    for note in result.notes:
        err.print(f"note: {note}")
    for name, reason in sorted((result.failed | result.unlisted).items()):
        err.print(f"{name} failed: ", style="bold", end="")
        err.print(reason)
    if layers:
        from lake_assets.commands.show.show import show_layers

        silver = sum(data["rows_read"] for data in result.applied.values())
        written = sum(data["rows_written"] for data in result.marts.values())
        show_layers(
            out,
            result,
            {
                "bronze": (sum(result.files.values()), sum(result.file_rows.values())),
                "silver": (sum(data["files"] for data in result.applied.values()), silver),
                "gold": (None, written),
            },
        )
    if result.nothing_pending:
        out.print("Nothing was pending; nothing was committed.")
    else:
        out.print(
            f"{many(len(result.applied), 'table')} and {many(len(result.marts), 'mart')} in "
            f"{time.perf_counter() - start:.1f} s"
        )
    return result.exit_code


def _work(path: Path, lake: "Lake", looked: "Looked", bar: "ProgressBar") -> "SyncResult":
    from lake_assets.orchestration.instance import dagster_instance
    from lake_assets.orchestration.sync import sync as work
    from lake_assets.spark.session import check_spark

    if looked.ready or looked.marts:
        check_spark(lake.config)
    with dagster_instance(path.absolute().parent) as instance:
        return work(lake, instance, progress=bar, looked=looked)


def main() -> None:
    """Entry point: errors that a user can act on are one message, not a traceback."""
    # What a start makes stays: looking through it for garbage takes a fifth of a call that finds nothing to do.
    gc.set_threshold(100_000, 50, 50)
    printed = logging.StreamHandler()
    # What the lake has to say below that is for the log of a command (`commands/run/opening.py`).
    printed.setLevel(logging.WARNING)
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s", handlers=[printed])
    logging.getLogger("lake_assets").setLevel(logging.WARNING)
    try:
        app()
    except (ConfigError, PreflightError, DocumentError, CatalogUnavailable) as error:
        err.print(str(error))
        sys.exit(2)
    except LakeError as error:
        err.print(str(error))
        sys.exit(1)
    except Exception as error:
        from lake_assets.iceberg.catalog_faults import fault_of
        from lake_assets.spark.causes import no_room, root_cause

        if no_room(error):
            err.print(f"A disk is full: {root_cause(error)}. Make room and run it again.")
            sys.exit(1)
        if (fault := fault_of(error)) is None:
            raise
        err.print(str(fault))
        sys.exit(2)


if __name__ == "__main__":
    main()
