"""Translates a replication task's settings to lake.yaml.

Here: LOB modes, batch apply, validation, preparation of the target before a reload. Not here: the endpoint's settings
(`s3_settings.py`), the rules of the table mapping (`table_mappings.py`).
"""

from collections.abc import Mapping
from typing import Any

from lake_assets.onboarding.endpoint_import.documents import Task
from lake_assets.onboarding.endpoint_import.s3_settings import our_name


def task_settings(task: Task, *, to_stream: bool = False) -> tuple[dict[str, Any], list[str]]:
    """The settings of `dms:` by their names in lake.yaml, and notes about undecided ones. `to_stream`: whether the task
    writes to Kinesis or Kafka."""
    found: dict[str, Any] = {}
    notes: list[str] = []
    target = _section(task.settings, "TargetMetadata")
    if target:
        found |= _lobs(target, notes)
    else:
        notes.append("the task's settings are not given: its LOB mode and BatchApplyEnabled are not known")
    if target.get("BatchApplyEnabled"):
        found["batch_apply_enabled"] = True
    if target.get("TargetSchema"):
        notes.append(f"TargetSchema is {target['TargetSchema']}: compare the schema's folder in the bucket")
    if _section(task.settings, "ValidationSettings").get("EnableValidation"):
        found["validation_enabled"] = True
    images = _section(task.settings, "BeforeImageSettings")
    if images.get("EnableBeforeImage") and to_stream:
        given = {our_name(name): value for name, value in images.items() if value is not None}
        found["before_image_settings"] = given
    elif images.get("EnableBeforeImage"):
        notes.append(
            "BeforeImageSettings has no effect on an S3 target: use an add-before-image-columns rule for updated keys"
        )
    prepared = _section(task.settings, "FullLoadSettings").get("TargetTablePrepMode")
    if prepared == "DO_NOTHING" and not to_stream:
        notes.append(
            "TargetTablePrepMode is DO_NOTHING: a reload leaves the parts of an earlier, bigger load; empty the "
            "table's folder before it"
        )
    if task.migration_type == "cdc":
        notes.append("the task has no full load: tables begin with its first change")
    return found, notes


def lob_mode(mode: str) -> str:
    """The `lob_mode` of lake.yaml for a `lob-settings` mode of the table mapping."""
    return {"unlimited": "full"}.get(mode, mode)


def _lobs(target: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    if not target.get("SupportLobs", True):
        return {"lob_mode": "none"}
    if target.get("FullLobMode"):
        return {"lob_mode": "full"}
    notes.append(
        "limited LOB mode truncates values: set longest_lob, in KB, to the length of the longest LOB at the source "
        "(0 if no column is a LOB)"
    )
    # 0 and a missing size leave DMS's default in force.
    size = {"lob_max_size": target["LobMaxSize"]} if target.get("LobMaxSize") else {}
    return {"lob_mode": "limited", **size}


def _section(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = settings.get(name)
    return section if isinstance(section, dict) else {}
