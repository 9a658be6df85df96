"""`lake-assets spark …`: reads the command line, starts and stops the local Spark Connect server, prints the result.

Here: options and output. Not here: the server (`spark/connect_server.py`).
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lake_assets.spark.connect_server import ConnectServer

spark = typer.Typer(
    no_args_is_help=True, help="Manage a Spark Connect server for all processes of a local lake."
)


@spark.callback()
def options() -> None:
    """Manage a Spark Connect server for all processes of a local lake."""


@spark.command()
def start(context: typer.Context) -> None:
    """Start a Spark Connect server at spark.remote unless one is running."""
    server = _server(context.obj)
    found = server.running()
    running = server.start()
    word = "is already running" if found is not None else "has started"
    typer.echo(
        f"Spark Connect {word} at sc://{server.host}:{server.port} (process {running.pid}); log: {server.log}"
    )


@spark.command()
def stop(context: typer.Context) -> None:
    """Stop the server that `start` started."""
    typer.echo(
        "Spark Connect has stopped." if _server(context.obj).stop() else "No Spark Connect server runs here."
    )


@spark.command()
def status(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """Report whether the server is running. Exit with 1 if it is not."""
    server = _server(context.obj)
    running = server.running()
    if as_json:
        found = {"running": running is not None, "address": f"sc://{server.host}:{server.port}"}
        if running is not None:
            found |= {"pid": running.pid, "megabytes": running.megabytes, "seconds": running.seconds}
        typer.echo(json.dumps(found))
    elif running is None:
        typer.echo("No Spark Connect server runs here: `lake-assets spark start` starts one.")
    else:
        typer.echo(
            f"Spark Connect runs at sc://{server.host}:{server.port} (process {running.pid}, {running.megabytes:,.0f} "
            f"MB, for {running.seconds:,.0f} s)"
        )
    if running is None:
        raise typer.Exit(1)


def _server(path: Path) -> "ConnectServer":
    from lake_assets.commands.setup.folder import local_folder
    from lake_assets.config.config_file import load_lake
    from lake_assets.spark.connect_server import ConnectServer

    lake = load_lake(path)
    return ConnectServer(lake, local_folder(lake, path))
