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
    from lake_assets.onboarding.endpoint_import.documents import Documents
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
    from lake_assets.config.config_file import load_lake
    from lake_assets.onboarding.endpoint_import.lake_section import draft_of
    from lake_assets.onboarding.endpoint_plan.setting_differences import differences, remarks, target_of

    lake = load_lake(context.obj)
    name, config = _source(lake, source)
    documents = _documents(lake, name, config, files or [])
    target = target_of(name, config, documents)
    described = draft_of(target, documents)
    found = differences(config, described, documents)
    for remark in remarks(described):
        err.print(f"note: {remark}", highlight=False)
    for sentence in found:
        out.print(sentence, highlight=False, soft_wrap=True)
    if not described.tasks:
        err.print(
            "No task of the endpoint is described: its tables and its task's settings are not compared."
        )
    if found:
        raise typer.Exit(1)
    what = f" and {', '.join(task.name for task in described.tasks)}" if described.tasks else ""
    out.print(f"{target.name}{what}: as lake.yaml expects", highlight=False, soft_wrap=True)


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


def _documents(lake: "LakeConfig", name: str, source: "SourceConfig", files: list[Path]) -> "Documents":
    from lake_assets.commands.dms.import_endpoint import documents_of
    from lake_assets.errors import LakeError
    from lake_assets.onboarding.endpoint_import.documents import read_documents

    if files:
        return documents_of(files)
    tasks = {task.arn: task for table in source.tables if (task := source.task(table)) is not None}
    if not tasks:
        raise LakeError(
            f"{name} has no dms_task: set it to the ARN of its task, or name files with what `aws dms "
            "describe-endpoints` and `describe-replication-tasks` print."
        )
    from lake_assets.storage.aws_client import Aws
    from lake_assets.storage.dms_tasks import descriptions

    aws, texts = Aws(lake.secrets), dict[str, str]()
    for arn, task in tasks.items():
        texts |= {f"{call} of {arn}": text for call, text in descriptions(task, aws).items()}
    return _of_one_target(read_documents(texts))


def _of_one_target(documents: "Documents") -> "Documents":
    """The documents, with each endpoint once: several tasks may write to one."""
    documents.endpoints = [*{endpoint.arn: endpoint for endpoint in documents.endpoints}.values()]
    documents.sources = [*{source.arn: source for source in documents.sources}.values()]
    return documents


def _write(plan: "Plan", folder: Path) -> None:
    """Writes the documents. Raises LakeError if the folder cannot be written to."""
    from lake_assets.errors import LakeError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, document in plan.documents.items():
            (folder / f"{name}.json").write_text(f"{_json(document)}\n", encoding="utf-8")
    except OSError as error:
        raise LakeError(f"{error.filename}: {error.strerror}: name another folder.") from error
