"""How a described endpoint and its tasks differ from what lake.yaml expects of them.

Here: comparing settings, by the meaning that `onboarding/endpoint_import/` gives them. Not here: what DMS should be set
to (`dms_plan.py`).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lake_assets.config import UNDECIDED, DmsSettings, SourceConfig
from lake_assets.errors import DocumentError
from lake_assets.onboarding.endpoint_import.documents import Documents, Endpoint
from lake_assets.onboarding.endpoint_import.lake_section import Draft, draft_of
from lake_assets.onboarding.endpoint_import.s3_settings import batch_interval, location, our_name
from lake_assets.onboarding.endpoint_import.table_mappings import Rule, TableDraft
from lake_assets.onboarding.endpoint_plan.dms_plan import settings_of, written_by
from lake_assets.storage.reflection.reflect import SourceTable, listing
from lake_assets.table_name import TableName

_DEFAULTS = DmsSettings()
_OF_TASK = ("batch_apply_enabled", "validation_enabled", "change_sequence_column", "before_image_prefix")
"""Settings of a table that the task decides."""


def target_of(name: str, source: SourceConfig, documents: Documents) -> Endpoint:
    """The described target of the source `name`. Raises DocumentError if it is none of the targets, or several."""
    engine = "s3"
    if source.stream is not None:
        engine = "kinesis" if source.stream.kinesis is not None else "kafka"
    fitting = [target for target in documents.endpoints if target.engine == engine]
    if len(fitting) > 1:
        fitting = [target for target in fitting if _place(target) == _expected_place(source)]
    if len(fitting) != 1:
        known = listing([f"{target.name} ({_place(target)})" for target in documents.endpoints])
        raise DocumentError(
            f"{len(fitting) or 'none'} of the described targets {known} are of the source {name}, which is at "
            f"{_expected_place(source)}: name the documents of its endpoint."
        )
    return fitting[0]


def differences(source: SourceConfig, found: Draft, documents: Documents) -> list[str]:
    """A sentence for each setting that differs from the documents, of which `found` is the draft (`draft_of`), and for
    each table that only one side has; none for a task if none of the endpoint is described. Raises DocumentError for an
    invalid setting."""
    sentences = list(_of_endpoint(source, found.endpoint, found.settings))
    if not found.tasks:
        return sentences
    exact = {draft.name: draft for draft in found.tables if not draft.pattern}
    drafts = _drafts(source, found, documents, exact)
    sentences += [
        f"the mapping selects {name}, which lake.yaml does not have"
        for name in exact
        if not source.tables_of(TableName.parse(name))
    ]
    sentences += [f"the mapping does not select {name}" for name in source.tables if name not in drafts]
    sentences += _grouped(source, drafts, found.settings)
    for name, draft in drafts.items():
        has, wanted = draft.source_filter, source.tables[name].source_filter
        if (has is None) != (wanted is None):
            which = (
                ("the mapping", "lake.yaml has none")
                if wanted is None
                else ("lake.yaml", "the mapping has none")
            )
            text = wanted if wanted is not None else has
            sentences.append(
                f"{which[0]} has a filter of {name}{'' if text == UNDECIDED else f' ({text})'}, and {which[1]}"
            )
    return sentences


def remarks(found: Draft) -> list[str]:
    """What the documents leave open, or what lake.yaml has no setting for."""
    notes = [*found.notes, *(f"{table.name}: {note}" for table in found.tables for note in table.notes)]
    return [*dict.fromkeys(notes)]


def _of_endpoint(source: SourceConfig, endpoint: Endpoint, described: Mapping[str, Any]) -> Iterator[str]:
    if (expected := _expected_place(source)) != (place := _place(endpoint)):
        yield f"lake.yaml expects {expected}, and the endpoint {endpoint.name} writes to {place}"
    if source.consistent_cut is not None and source.stream is None:
        interval, has = int(source.consistent_cut.interval.total_seconds()), batch_interval(endpoint)
        if has > interval:
            yield f"consistent_cut.interval is {interval} s in lake.yaml, and CdcMaxBatchInterval {has} at the endpoint"
    to_stream = source.stream is not None
    tables: dict[tuple[str, str, str], list[str]] = {}
    for table in source.tables:
        dms = written_by(source, table)
        names = [our_name(name) for name in settings_of(dms, to_stream=to_stream)]
        if not to_stream and dms.data_format == "csv":
            names.append("csv_no_sup_value")
        for name in names:
            wanted, has = getattr(dms, name), described.get(name, getattr(_DEFAULTS, name))
            if wanted != has:
                tables.setdefault((name, _text(wanted), _text(has)), []).append(table)
    for (name, expected, found), own in tables.items():
        which = "" if len(own) == len(source.tables) else f" of {listing(own)}"
        yield f"{name}{which} is {expected} in lake.yaml, and {found} at the endpoint {endpoint.name}"


def _drafts(
    source: SourceConfig, described: Draft, documents: Documents, exact: Mapping[str, TableDraft]
) -> dict[str, TableDraft]:
    """By table of lake.yaml, what the mapping gives it; without the tables that the mapping does not select."""
    arriving = {
        text: _as_logged(TableName.parse(text), table.folders) for text, table in source.tables.items()
    }
    rules = [rule for task in described.tasks for rule in task.rules]
    origins = {name: _origins(name, rules) for name in arriving.values()}
    tables = [SourceTable(name.schema, name.table, (), ()) for names in origins.values() for name in names]
    selected = {
        TableName(draft.schema, draft.table): draft
        for draft in draft_of(described.endpoint, documents, tables).tables
    }
    owned = {text: draft for name, draft in exact.items() for text in source.tables_of(TableName.parse(name))}
    found = {text: owned.get(text) or selected.get(name) for text, name in arriving.items()}
    return {text: draft for text, draft in found.items() if draft is not None}


def _origins(name: TableName, rules: Sequence[Rule]) -> set[TableName]:
    """Names that a table which arrives under this one may have at the source, as far as the rules rename tables."""
    schemas, tables = ({part, part.upper(), part.lower()} for part in name)
    for rule in rules:
        where, value = rule.get("object-locator"), str(rule.get("value") or "")
        if rule.get("rule-target") == "schema" and isinstance(where, dict):
            schemas.add(str(where.get("schema-name") or name.schema))
        if value and rule.get("rule-target") in ("schema", "table"):
            for parts in (schemas, tables):
                parts |= {part.removeprefix(value) for part in parts} | {
                    part.removesuffix(value) for part in parts
                }
    return {TableName(schema, table) for schema in schemas for table in tables if schema and table}


def _as_logged(name: TableName, globs: tuple[str, ...]) -> TableName:
    """A name under which the table's changes arrive: its own, or one that its globs match."""
    if not globs:
        return name
    sample = re.sub(r"\[!?(.)[^\]]*\]", r"\1", globs[0]).replace("*", "0").replace("?", "0")
    return TableName(name.schema, sample)


def _grouped(
    source: SourceConfig, drafts: Mapping[str, TableDraft], shared: Mapping[str, Any]
) -> Iterator[str]:
    """A sentence for each setting of the task, with the tables that differ in the same way."""
    tables: dict[tuple[str, str, str], list[str]] = {}
    for name, draft in drafts.items():
        for setting, wanted, has in _of_table(written_by(source, name), dict(shared) | draft.dms, source):
            tables.setdefault((setting, _text(wanted), _text(has)), []).append(name)
    for (setting, wanted, has), names in tables.items():
        which = "all tables" if len(names) == len(source.tables) > 1 else listing(names)
        yield f"{setting} of {which} is {wanted} in lake.yaml, and {has} by the task"


def _of_table(
    wanted: DmsSettings, described: Mapping[str, Any], source: SourceConfig
) -> Iterator[tuple[str, Any, Any]]:
    """The settings that differ, each with its value in lake.yaml and by the task."""
    of_stream = ("batch_apply_enabled", "change_sequence_column")
    names = [name for name in _OF_TASK if source.stream is None or name in of_stream]
    if wanted.before_image_prefix is not None and wanted.data_format == "csv" and not wanted.add_column_name:
        names.append("before_image_columns")
    if source.stream is None:
        names.append("added_columns")
    # None or none: without a LOB, no mode matters. Documents without the task's settings do not say.
    if wanted.lob_mode not in (None, "none") and "lob_mode" in described:
        names += ["lob_mode"]
    for name in names:
        own, has = getattr(wanted, name), described.get(name, getattr(_DEFAULTS, name))
        if own != (tuple(has) if name == "added_columns" else has):
            yield name, own, has
    if wanted.lob_mode == "limited" and described.get("lob_mode") == "limited":
        size = described.get("lob_max_size", _DEFAULTS.lob_max_size)
        if size < wanted.lob_max_size:
            yield "lob_max_size", wanted.lob_max_size, size
    if source.stream is not None:
        images = type(wanted.before_image_settings).model_validate(described.get("before_image_settings", {}))
        if images != wanted.before_image_settings:
            yield "before_image_settings", wanted.before_image_settings.model_dump(), images.model_dump()


def _expected_place(source: SourceConfig) -> str:
    if source.stream is None:
        return source.location.rstrip("/")
    if source.stream.kinesis is not None:
        return f"the stream {source.stream.kinesis.name}"
    return f"the topic {source.stream.kafka.topic}" if source.stream.kafka is not None else ""


def _place(endpoint: Endpoint) -> str:
    """Where the target writes. Raises DocumentError."""
    if endpoint.engine == "s3":
        return location(endpoint)
    if endpoint.engine == "kinesis":
        return f"the stream {str(endpoint.settings.get('StreamArn') or '').rpartition('/')[2]}"
    return f"the topic {endpoint.settings.get('Topic') or 'kafka-default-topic'}"


def _text(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
