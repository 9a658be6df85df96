"""`lake-assets spark …`: reads the command line, starts and stops the lake's Spark Connect server, prints the result.

Here: options and output. Not here: the server on this machine (`spark/connect/connect_server.py`), the session at EMR
(`spark/connect/emr_session.py`).
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lake_assets.spark.connect.connect_server import ConnectServer
    from lake_assets.spark.connect.emr_session import EmrSession

spark = typer.Typer(no_args_is_help=True, help="Manage the Spark Connect server of all processes of a lake.")


@spark.callback()
def options() -> None:
    """Manage the Spark Connect server of all processes of a lake: on this machine, or a session of Amazon EMR."""


@spark.command()
def start(context: typer.Context) -> None:
    """Start a Spark Connect server at spark.remote, or a session of EMR, unless one is running."""
    server = _server(context.obj)
    word = "has started" if server.running() is None else "is already running"
    running = server.start()
    log = f"; log: {server.log}" if server.log is not None else ""
    typer.echo(f"Spark Connect {word} at {server.place} ({running}){log}")


@spark.command()
def stop(context: typer.Context) -> None:
    """Stop what `start` started."""
    server = _server(context.obj)
    typer.echo(
        "Spark Connect has stopped." if server.stop() else f"No Spark Connect server runs {server.here}."
    )


@spark.command()
def status(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """Report whether the server is running. Exit with 1 if it is not."""
    server = _server(context.obj)
    running = server.running()
    if as_json:
        facts = asdict(running) if running is not None else {}
        typer.echo(json.dumps({"running": running is not None, "address": server.place, **facts}))
    elif running is None:
        typer.echo(f"No Spark Connect server runs {server.here}: `lake-assets spark start` starts one.")
    else:
        typer.echo(f"Spark Connect runs at {server.place} ({running})")
    if running is None:
        raise typer.Exit(1)


def _server(path: Path) -> "ConnectServer | EmrSession":
    from lake_assets.commands.setup.folder import local_folder
    from lake_assets.config.config_file import load_lake

    lake = load_lake(path)
    if lake.spark.application is not None:
        from lake_assets.spark.connect.emr_session import EmrSession
        from lake_assets.storage.aws_client import Aws

        return EmrSession(lake, Aws(lake.secrets))
    from lake_assets.spark.connect.connect_server import ConnectServer

    return ConnectServer(lake, local_folder(lake, path))
