"""`lake-assets warehouse`: what an engine needs to read silver and gold.

Here: the command line. Not here: the statements (`outputs/`).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from lake_assets.commands.options import lake_of

if TYPE_CHECKING:
    from lake_assets.lake import Lake


def warehouse(
    context: typer.Context,
    engine: Annotated[str, typer.Argument(help="snowflake, athena, redshift, databricks, trino or duckdb.")],
    apply: Annotated[
        bool,
        typer.Option("--apply", help="Execute the statements in Snowflake, by the connection of lake.yaml."),
    ] = False,
) -> None:
    """Print what an engine needs to read silver and gold: its statements, and the least rights."""
    from lake_assets.errors import LakeError
    from lake_assets.outputs.reader_statements import statements_of

    lake = lake_of(context)
    if engine == "snowflake":
        typer.echo(_snowflake(lake, apply=apply), nl=False)
        return
    if apply:
        raise LakeError(f"--apply is for snowflake; have an administrator execute what {engine} needs")
    typer.echo(statements_of(lake, engine), nl=False)


def _snowflake(lake: "Lake", *, apply: bool) -> str:
    from lake_assets.errors import LakeError
    from lake_assets.outputs.snowflake.set_up import apply_setup, script

    if lake.config.warehouses.snowflake is None:
        raise LakeError("lake.yaml has no warehouses.snowflake: add it with at least its role_arn")
    return apply_setup(lake) if apply else script(lake)
