"""What AWS DMS says of a source's endpoint and tasks, compared with lake.yaml.

Here: asking DMS, or reading its answers from files, and the comparison of both. Not here: the differences
(`onboarding/endpoint_plan/setting_differences.py`), printing (`dms_cli.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lake_assets.commands.dms.import_endpoint import documents_of
from lake_assets.config import LakeConfig, SourceConfig
from lake_assets.errors import LakeError
from lake_assets.onboarding.endpoint_import.documents import Documents, read_documents
from lake_assets.onboarding.endpoint_import.lake_section import draft_of
from lake_assets.onboarding.endpoint_plan.setting_differences import differences, remarks, target_of
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.dms_tasks import descriptions


@dataclass(frozen=True, slots=True)
class Compared:
    """A described endpoint beside lake.yaml."""

    endpoint: str
    """Its name."""
    tasks: tuple[str, ...]
    """The names of its described tasks."""
    different: Sequence[str]
    """A sentence for each difference."""
    remarks: Sequence[str]


def compared(lake: LakeConfig, name: str, files: Sequence[Path] = ()) -> Compared:
    """The endpoint of the source `name`; without files, as DMS describes the source's dms_task. Raises LakeError, and
    DocumentError for documents that cannot be used."""
    source = lake.sources[name]
    documents = documents_of(files) if files else _asked(lake, name, source)
    target = target_of(name, source, documents)
    described = draft_of(target, documents)
    return Compared(
        target.name,
        tuple(task.name for task in described.tasks),
        differences(source, described, documents),
        remarks(described),
    )


def has_task(source: SourceConfig) -> bool:
    """Whether DMS can be asked for one of the source's tasks."""
    return any(source.task(table) is not None for table in source.tables)


def _asked(lake: LakeConfig, name: str, source: SourceConfig) -> Documents:
    tasks = {task.arn: task for table in source.tables if (task := source.task(table)) is not None}
    if not tasks:
        raise LakeError(
            f"{name} has no dms_task: set it to the ARN of its task, or name files with what `aws dms "
            "describe-endpoints` and `describe-replication-tasks` print."
        )
    aws, texts = Aws(lake.secrets), dict[str, str]()
    for arn, task in tasks.items():
        texts |= {f"{call} of {arn}": text for call, text in descriptions(task, aws).items()}
    found = read_documents(texts)
    # Several tasks may write to one endpoint.
    found.endpoints = [*{endpoint.arn: endpoint for endpoint in found.endpoints}.values()]
    found.sources = [*{described.arn: described for described in found.sources}.values()]
    return found
