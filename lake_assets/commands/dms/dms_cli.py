"""`lake-assets dms`: what AWS DMS must be set to, and how it differs.

Here: the command line, reading and writing files. Not here: the documents (`onboarding/endpoint_plan/`).
"""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lake_assets.commands.show.console import messages, results

if TYPE_CHECKING:
    from lake_assets.config import LakeConfig, SourceConfig
    from lake_assets.onboarding.endpoint_plan.dms_plan import Plan

dms = typer.Typer(no_args_is_help=True, help="Compare lake.yaml with the settings of AWS DMS.")
out = results()
err = messages()

Source = Annotated[str | None, typer.Option(help="The source; needed if lake.yaml has several.")]


@dms.command()
def plan(
    context: typer.Context,
    source: Source = None,
    output: Annotated[Path | None, typer.Option(help="A folder for the three documents.")] = None,
) -> None:
    """Print the endpoint, table mappings and task settings that lake.yaml expects."""
    from lake_assets.config.config_file import load_lake
    from lake_assets.onboarding.endpoint_plan.dms_plan import identifier
    from lake_assets.onboarding.endpoint_plan.dms_plan import plan as planned

    name, config = _source(load_lake(context.obj), source)
    found = planned(name, config)
    for note in found.notes:
        err.print(f"note: {note}", highlight=False)
    if output is None:
        typer.echo(_json(found.documents))
        return
    _write(found, output)
    typer.echo(
        f"aws dms create-endpoint --cli-input-json {_shell(output, 'endpoint')}\n"
        f"aws dms create-replication-task --replication-task-identifier {identifier(name)} "
        f"--migration-type full-load-and-cdc --table-mappings {_shell(output, 'table-mappings')} "
        f"--replication-task-settings {_shell(output, 'task-settings')} "
        "--source-endpoint-arn … --target-endpoint-arn … --replication-instance-arn …"
    )


@dms.command()
def diff(
    context: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="JSON of `aws dms describe-endpoints`, `describe-replication-tasks`, mappings; by default, what DMS "
            "says of the source's dms_task.",
        ),
    ] = None,
    source: Source = None,
) -> None:
    """Name each setting of DMS that differs from lake.yaml; exit with 1 if one does."""
    from lake_assets.commands.dms.described_endpoint import compared
    from lake_assets.config.config_file import load_lake

    lake = load_lake(context.obj)
    name, _ = _source(lake, source)
    found = compared(lake, name, files or [])
    for remark in found.remarks:
        err.print(f"note: {remark}", highlight=False)
    for sentence in found.different:
        out.print(sentence, highlight=False, soft_wrap=True)
    if not found.tasks:
        err.print(
            "No task of the endpoint is described: its tables and its task's settings are not compared."
        )
    if found.different:
        raise typer.Exit(1)
    what = f" and {', '.join(found.tasks)}" if found.tasks else ""
    out.print(f"{found.endpoint}{what}: as lake.yaml expects", highlight=False, soft_wrap=True)


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _shell(folder: Path, name: str) -> str:
    return shlex.quote(f"file://{folder}/{name}.json")


def _source(lake: "LakeConfig", name: str | None) -> "tuple[str, SourceConfig]":
    """The source of this name, or the only one. Raises LakeError."""
    from lake_assets.errors import LakeError

    if name is None and len(lake.sources) == 1:
        return next(iter(lake.sources.items()))
    if name not in lake.sources:
        wrong = "choose a source with --source" if name is None else f"lake.yaml has no source {name}"
        raise LakeError(f"{wrong}: it has {', '.join(lake.sources)}.")
    assert name is not None
    return name, lake.sources[name]


def _write(plan: "Plan", folder: Path) -> None:
    """Writes the documents. Raises LakeError if the folder cannot be written to."""
    from lake_assets.errors import LakeError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, document in plan.documents.items():
            (folder / f"{name}.json").write_text(f"{_json(document)}\n", encoding="utf-8")
    except OSError as error:
        raise LakeError(f"{error.filename}: {error.strerror}: name another folder.") from error
