"""`lake-assets doctor`: options and output.

Not here: what is examined (`examinations.py`).
"""

import json
from dataclasses import asdict

import typer

from lake_assets.commands.options import AsJson
from lake_assets.words import many, printable


def doctor(context: typer.Context, as_json: AsJson = False) -> None:
    """Examine the lake and this machine: settings, Spark, catalog, sources, clock, disk, tables, quarantine, branches,
    maintenance, runs. Print what is wrong with its remedy; exit with 1 if anything is. Changes nothing."""
    from lake_assets.commands.doctor.examinations import examined
    from lake_assets.config.config_file import load_lake
    from lake_assets.lake import open_without_broken_marts

    lake = open_without_broken_marts(load_lake(context.obj))
    faults, shown = 0, []
    for one in examined(lake, context.obj):
        faults += not one.is_well
        shown.append(asdict(one))
        if not as_json:
            typer.echo(printable(f"{'ok   ' if one.is_well else 'FAULT'} {one.what}: {one.said}"))
            if one.remedy is not None:
                typer.echo(printable(f"      → {one.remedy}"))
    if as_json:
        typer.echo(json.dumps(shown, indent=2))
    else:
        typer.echo("All is well." if not faults else f"{many(faults, 'fault')}.")
    raise typer.Exit(1 if faults else 0)
