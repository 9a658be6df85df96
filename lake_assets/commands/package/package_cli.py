"""`lake-assets package`: reads the command line, packages the project, prints the files.

Here: options and output. Not here: the package (`package.py`).
"""

from pathlib import Path
from typing import Annotated

import typer


def package(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", help="The folder to write to.")] = Path("package"),
    python_prefix: Annotated[
        str | None,
        typer.Option(
            "--python-prefix", help="Where the service has its Python, such as /usr, if not where it is here."
        ),
    ] = None,
) -> None:
    """Package the project for jobs of EMR Serverless or Glue: program, environment, project, requirements.

    Run it with the Python of the service, on its Linux: an environment fits one Python and one C library.
    """
    from lake_assets.commands.package.package import write_package
    from lake_assets.config.config_file import lake_path, load_lake

    file = lake_path(context.obj).absolute()
    load_lake(file)
    for path in write_package(file, output, python_prefix):
        typer.echo(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
