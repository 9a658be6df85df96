"""The command line, `lake-assets`: reads it, calls the command, prints the result.

Results go to standard output, messages to standard error. Exit codes: 0 done, 1 a table failed or stopped (the others
are applied) or the lake's state does not allow the command, 2 a wrong option, configuration or machine.
"""

import gc
import logging
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from lake_assets.commands.board.board_cli import board, report
from lake_assets.commands.demo.demo_cli import demo, generate_history
from lake_assets.commands.demo.demo_stream_cli import stream as demo_stream
from lake_assets.commands.dms.dms_cli import dms
from lake_assets.commands.doctor.doctor_cli import doctor
from lake_assets.commands.erase.erase_cli import erase
from lake_assets.commands.history.time_cli import diff, pause, resume, snapshots
from lake_assets.commands.mend.mending_cli import detach, full_load, recover, restore
from lake_assets.commands.mend.quarantine_cli import quarantine
from lake_assets.commands.mend.rebuild_cli import rebuild, replay
from lake_assets.commands.mend.repair_cli import repair
from lake_assets.commands.options import Table, lake_of
from lake_assets.commands.package.package_cli import package
from lake_assets.commands.remove.remove_cli import destroy, remove
from lake_assets.commands.run.backfill_cli import backfill
from lake_assets.commands.run.maintain_cli import maintain
from lake_assets.commands.run.spark_cli import spark
from lake_assets.commands.run.stream_cli import stream
from lake_assets.commands.run.sync_cli import run_sync
from lake_assets.commands.run.warehouse_cli import warehouse
from lake_assets.commands.setup.advise_cli import advise
from lake_assets.commands.setup.new_cli import new
from lake_assets.commands.setup.schema_cli import schema
from lake_assets.commands.show.console import messages, results
from lake_assets.commands.show_cli import batches, latency, metrics, status
from lake_assets.errors import CatalogUnavailable, DocumentError, LakeError
from lake_assets.logs import print_json_if_asked
from lake_assets.spark.preflight import PreflightError
from lake_assets.words import many, printable

OF_A_NEW_FILE = {"address": "--from-database", "documents": "FILE"} | {
    name: f"--{name}" for name in ("endpoint", "schema", "source", "location", "output")
}
"""Parameters of `init` that say what goes into a new lake.yaml, with their options."""
app = typer.Typer(
    no_args_is_help=True,
    # A traceback must not show variables: one may be an address with its password.
    pretty_exceptions_show_locals=False,
    help="A lakehouse from AWS DMS files.",
)
app.add_typer(demo, name="demo")
demo.command(name="stream")(demo_stream)
app.add_typer(dms, name="dms")
app.add_typer(new, name="new")
app.add_typer(quarantine, name="quarantine")
app.add_typer(schema, name="schema")
app.add_typer(spark, name="spark")
app.command()(status)
app.command()(latency)
app.command()(batches)
app.command()(metrics)
app.command()(doctor)
app.command()(repair)
app.command()(erase)
for command in (rebuild, replay, full_load, restore, recover, detach):
    app.command(command.__name__.replace("_", "-"), rich_help_panel="Repairs, one by one")(command)
app.command()(remove)
app.command()(destroy)
app.command()(pause)
app.command()(resume)
app.command()(snapshots)
app.command()(diff)
app.command()(stream)
app.command()(maintain)
app.command()(backfill)
app.command()(advise)
app.command()(board)
app.command()(report)
app.command()(warehouse)
app.command()(package)

out = results()
err = messages()

Config = Annotated[Path | None, typer.Option("--config", help="The lake.yaml to use; also LAKE_CONFIG.")]


def _version(wanted: bool) -> None:
    if wanted:
        out.print(version("lake_assets"))
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    config: Config = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A lakehouse from AWS DMS files."""
    from lake_assets.config.config_file import lake_path

    context.obj = lake_path(config)


@app.command()
def validate(
    context: typer.Context,
    online: Annotated[
        bool, typer.Option("--online", help="Try the catalog on a throw-away table, too.")
    ] = False,
) -> None:
    """Check lake.yaml, alone and against the files in the bucket, and report every error with its location."""
    from lake_assets.commands.setup.validate import check
    from lake_assets.config.config_file import ConfigError, included_tables, load_lake
    from lake_assets.lake import open_without_broken_marts

    lake = open_without_broken_marts(load_lake(context.obj))
    checked = check(lake)
    for warning in checked.warnings:
        err.print(f"warning: {warning}")
    if checked.mistakes:
        raise ConfigError(context.obj, list(checked.mistakes), included_tables(context.obj))
    if online:
        lake.runtime.probe()
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
    """Convert AWS's description of a DMS task to the sources section of lake.yaml."""
    from lake_assets.commands.dms.import_endpoint import import_endpoint as imported

    text = imported(files, output)
    if output is None:
        typer.echo(text, nl=False)
    else:
        err.print(
            f"{output} is written. The lake cannot be opened before everything marked undecided is decided."
        )


@app.command()
def init(
    context: typer.Context,
    address: Annotated[
        str | None,
        typer.Option(
            "--from-database",
            metavar="URL",
            envvar="LAKE_SOURCE_URL",
            show_envvar=True,
            help="A SQLAlchemy URL, such as postgresql://user:password@host/database. No part of it is written.",
        ),
    ] = None,
    documents: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="More of AWS's descriptions, as for --endpoint."),
    ] = None,
    endpoint: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="JSON of `aws dms describe-endpoints`, `describe-replication-tasks`, or table mappings: their "
            "settings and tables count.",
        ),
    ] = None,
    schema: Annotated[list[str] | None, typer.Option(help="Only this schema; may be repeated.")] = None,
    source: Annotated[str, typer.Option(help="The source's name in lake.yaml.")] = "source",
    location: Annotated[
        str | None, typer.Option(help="Where DMS writes: a folder or s3://bucket/prefix.")
    ] = None,
    output: Annotated[str, typer.Option(help="The file to write; - for standard output.")] = "lake.yaml",
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh",
            help="Compare the columns of an existing lake.yaml with each source's `database`, and write the "
            "difference into it; with --output -, show it only.",
        ),
    ] = False,
) -> None:
    """Write a lake.yaml with all tables of a source database: columns, types, NOT NULL and primary keys. Write beside
    it the JSON schema for editors and, if they are missing, Dagster's workspace.yaml and dagster.yaml."""
    if refresh:
        for name, option in OF_A_NEW_FILE.items():
            given = context.get_parameter_source(name)
            if given is not None and given.name == "COMMANDLINE" and (name, output) != ("output", "-"):
                text = "does not go with --refresh, which reads all sources of --config and writes into its files"
                raise typer.BadParameter(text, param_hint=option)
        refresh_columns(context, show_only=output == "-")
        return
    if address is None:
        raise typer.BadParameter("is missing", param_hint="--from-database")
    from lake_assets.commands.setup.init import init as write_contract

    written = write_contract(
        address,
        None if output == "-" else Path(output),
        schemas=schema or [],
        source=source,
        location=location,
        documents=[*(endpoint or ()), *(documents or ())],
    )
    if output == "-":
        typer.echo(written.text, nl=False)
    else:
        out.print(
            f"{output}: {many(written.tables, 'table')}, {many(written.columns, 'column')} of {written.engine}"
        )
    for phrase in written.left_out:
        err.print(f"left out: {phrase}", highlight=False, markup=False)
    for decision in written.undecided:
        err.print(f"to decide: {decision.sentence}", highlight=False, markup=False)


def refresh_columns(context: typer.Context, *, show_only: bool) -> None:
    """`init --refresh`."""
    from lake_assets.commands.setup.refresh import refresh as compared
    from lake_assets.commands.setup.refresh import shown, write

    found = compared(context.obj, lake_of(context))
    for line in shown(found) or ["No column of lake.yaml differs from the source."]:
        typer.echo(printable(line))
    if found.texts and not show_only:
        write(context.obj, found.texts)
        out.print(f"Written: {', '.join(map(str, found.texts))}")


@app.command()
def sync(
    context: typer.Context,
    source: Annotated[str | None, typer.Option(help="Only this source.")] = None,
    table: Table = None,
    gold: Annotated[bool, typer.Option(help="Compute the marts too.")] = True,
) -> None:
    """Scan the sources, apply new files, and compute marts: the main job without the UI."""
    raise typer.Exit(run_sync(context.obj, source, table, gold))


@app.command()
def dev(
    context: typer.Context,
    port: Annotated[int, typer.Option(help="Port of the UI.")] = 3000,
    feed: Annotated[bool, typer.Option(help="Run the demonstration's live feed too.")] = False,
    rate: Annotated[float, typer.Option(help="Changes a second of the live feed.")] = 20.0,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Print each tick of Dagster's daemon and the events of runs."),
    ] = False,
) -> None:
    """Start Dagster's UI and daemon on this lake."""
    from lake_assets.commands.run.dev import dev as run_dev
    from lake_assets.commands.setup.folder import local_folder
    from lake_assets.config.config_file import load_lake
    from lake_assets.demo.demo_commands import demo_source

    lake = load_lake(context.obj)
    arguments = None
    if feed:
        if not demo_source(lake, local_folder(lake, context.obj)).exists:
            generate_history(context.obj, changes=200_000, days=7, seed=1)
        arguments = ["demo", "feed", "--rate", str(rate)]
    message = f"Dagster's UI starts on http://localhost:{port}; Ctrl-C stops it" + (
        " and the live feed." if feed else "."
    )
    code = run_dev(
        context.obj, port=port, feed=arguments, started=lambda: err.print(message), verbose=verbose
    )
    raise typer.Exit(code)


class _Printable(logging.Formatter):
    """Lets no text of a file or of a foreign error steer the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def main() -> None:
    """Entry point: errors that a user can act on are one message, not a traceback."""
    # Objects made at startup stay alive: scanning them for garbage takes a fifth of a call that has nothing to do.
    gc.set_threshold(100_000, 50, 50)
    printed = logging.StreamHandler()
    # Messages below this level only go to a command's own log (`commands/run/opening.py`).
    printed.setLevel(logging.WARNING)
    printed.setFormatter(_Printable("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.ERROR, handlers=[printed])
    logging.getLogger("lake_assets").setLevel(logging.WARNING)
    print_json_if_asked()
    try:
        app()
    except (PreflightError, DocumentError, CatalogUnavailable) as error:
        err.print(str(error))
        sys.exit(2)
    except LakeError as error:
        err.print(str(error))
        sys.exit(1)
    except Exception as error:
        from lake_assets.config.config_file import ConfigError
        from lake_assets.iceberg.catalog_faults import fault_of
        from lake_assets.spark.causes import disk_full, root_cause

        if isinstance(error, ConfigError):
            err.print(str(error))
            sys.exit(2)
        if disk_full(error):
            err.print(f"A disk is full: {root_cause(error)}. Make room and run it again.")
            sys.exit(1)
        if (fault := fault_of(error)) is None:
            raise
        err.print(str(fault))
        sys.exit(2)


if __name__ == "__main__":
    main()
