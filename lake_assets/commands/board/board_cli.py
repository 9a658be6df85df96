"""`lake-assets board` and `report` on the command line.

Here: options and output. Not here: the content (`board.py`), the web server (`serve_board.py`).
"""

from pathlib import Path
from typing import Annotated

import typer

from lake_assets.commands.options import lake_of
from lake_assets.commands.show.console import messages


def board(
    context: typer.Context,
    port: Annotated[int, typer.Option(help="Port of the board.")] = 3001,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Whoever reaches it can read the board.")
    ] = "127.0.0.1",
    refresh: Annotated[float, typer.Option(help="Seconds between two refreshes.", min=0.5)] = 2.0,
) -> None:
    """Serve a page that shows empty racks, tables, latency, checks, alarms and quarantine, and refreshes itself."""
    import uvicorn

    from lake_assets.commands.board.board import content
    from lake_assets.commands.board.serve_board import board_app
    from lake_assets.orchestration.instance import dagster_instance
    from lake_assets.spark.preflight import check_port

    lake = lake_of(context)
    check_port(port, "the board", host=host)
    messages().print(f"The board is on http://{host}:{port}; Ctrl-C stops it.")
    with dagster_instance(context.obj.absolute().parent) as instance:
        app = board_app(lambda: content(lake, instance=instance), refresh)
        uvicorn.run(app, host=host, port=port, log_level="warning")


def report(
    context: typer.Context,
    output: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
) -> None:
    """Write what the board shows now to an HTML file."""
    from lake_assets.commands.board.board import content, page
    from lake_assets.orchestration.instance import dagster_instance

    # Opening the instance may change the working directory.
    lake, target = lake_of(context), output.absolute()
    with dagster_instance(context.obj.absolute().parent) as instance:
        target.write_text(page(content(lake, instance=instance), refresh=None), encoding="utf-8")
    messages().print(f"{output} is written.")
