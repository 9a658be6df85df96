"""The `sources:` section of a lake.yaml, from documents of DMS.

Here: whether a setting belongs to the source or to a table, and the text with its comments. Not here: reading the
documents (`documents.py`), or what each setting means (`s3_settings.py`, `task_settings.py`, `table_mappings.py`).

What the documents do not contain becomes a comment or the word `undecided`, because an invented type would look like a
known one. No lake opens with that word.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from lake_assets.config import UNDECIDED, DmsSettings
from lake_assets.errors import DocumentError
from lake_assets.onboarding.endpoint_import.documents import Documents, Endpoint, Task
from lake_assets.onboarding.endpoint_import.s3_settings import endpoint_settings, location
from lake_assets.onboarding.endpoint_import.stream_settings import stream_section, stream_settings
from lake_assets.onboarding.endpoint_import.table_mappings import TableDraft, table_drafts
from lake_assets.onboarding.endpoint_import.task_settings import task_settings
from lake_assets.onboarding.lake_yaml_text import (
    Decision,
    Shared,
    lob_decision,
    open_decisions,
    shared_types,
    table_body,
)
from lake_assets.onboarding.partitions import joined, root_of
from lake_assets.onboarding.silver_names import silver_names
from lake_assets.storage.reflection.reflect import Reading, SourceTable, listing
from lake_assets.table_name import table_text

_DEFAULTS = DmsSettings().model_dump()
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.\"/-]*(:[A-Za-z0-9_./-]+)*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_WIDTH = 111


@dataclass(slots=True)
class Draft:
    """What the documents say of a source."""

    endpoint: Endpoint
    tasks: Sequence[Task]
    tables: list[TableDraft]
    settings: dict[str, Any]
    """Of the endpoint."""
    common: dict[str, Any]
    """Of all tables."""
    notes: list[str]
    stream: dict[str, Any]
    """The source's `stream`; empty for a target in S3."""

    @property
    def written(self) -> dict[str, Any]:
        """The settings of the source's `dms`."""
        return {k: v for k, v in (self.settings | self.common).items() if v != _DEFAULTS[k]}


@dataclass(frozen=True, slots=True)
class FromDatabase:
    """The section of a source whose database was read."""

    text: str
    engine: str
    tables: tuple[SourceTable, ...]
    """Those that the mapping selects, by the names under which they arrive."""
    undecided: tuple[Decision, ...]
    left_out: tuple[str, ...]


def lake_section(documents: Documents) -> str:
    """YAML text that ends with a newline, one source for each target."""
    lines = ["sources:"]
    names: dict[str, int] = {}
    for endpoint in documents.endpoints:
        name = _source_name(endpoint.name)
        names[name] = names.get(name, 0) + 1
        if names[name] > 1:
            name = f"{name}_{names[name]}"
        where = location(endpoint) if endpoint.engine == "s3" else UNDECIDED
        lines += _indented(_source(name, where, draft_of(endpoint, documents)))
    return "\n".join(lines) + "\n"


def section_from_database(
    documents: Documents, name: str, where: str | None, read: Callable[[Mapping[str, str]], Reading]
) -> FromDatabase:
    """The section of the only target, called `name`, with the columns of the tables that the mapping selects. `read`
    reads the source's tables, given the settings of its endpoint; `where` replaces the target's location. Raises
    DocumentError for several targets, without a task, and for a mapping that selects no table."""
    endpoint, *others = documents.endpoints
    if others:
        names = ", ".join(target.name for target in documents.endpoints)
        raise DocumentError(f"{names} are targets, and a database is read for one: leave out the others.")
    tasks = documents.tasks_of(endpoint)
    if not tasks:
        raise DocumentError(
            f"no task of the target {endpoint.name} is described: add the output of "
            "`aws dms describe-replication-tasks`, or the file of its table mappings."
        )
    at_source = documents.source_of(tasks[0])
    reading = read(at_source.settings if at_source is not None else {})
    draft = draft_of(endpoint, documents, reading.tables)
    draft.tables += _partitioned(draft.tables, reading.tables)
    chosen = [table.found for table in draft.tables]
    unselected = [table_text(t.schema, t.name) for t in reading.tables if t not in chosen]
    left_out = [f"{listing(unselected)}, which the table mapping does not select"] if unselected else []
    if not chosen:
        raise DocumentError(f"the table mapping selects none of the database's tables {listing(unselected)}.")
    arrived = joined([table.arrived for table in draft.tables])
    lobs = lob_decision(arrived) if "lob_mode" not in draft.settings | draft.common else None
    images = _before_images(draft)
    shared = Shared(
        names=silver_names([(table.schema, table.name) for table in arrived]),
        types=shared_types(arrived),
        reserved=_added(draft),
        before_images=images,
    )
    bodies = {table_text(table.schema, table.name): [*table_body(table, shared)] for table in arrived}
    draft.tables = [table for table in draft.tables if table.name in bodies]
    if where is None:
        where = location(endpoint) if endpoint.engine == "s3" else UNDECIDED
    lines = ["sources:", *_indented(_source(name, where, draft, bodies, lobs))]
    return FromDatabase(
        "\n".join(lines) + "\n",
        reading.engine,
        tuple(arrived),
        (
            *([lobs] if lobs is not None else []),
            *open_decisions(
                arrived, images, ordered="change_sequence_column" in draft.settings | draft.common
            ),
        ),
        (*reading.left_out, *left_out),
    )


def draft_of(endpoint: Endpoint, documents: Documents, known: Sequence[SourceTable] | None = None) -> Draft:
    """What the documents say of the target. `known`: the source's tables, each of which then has a draft if the mapping
    selects it. Raises DocumentError for an invalid setting."""
    to_stream, stream = endpoint.engine != "s3", dict[str, Any]()
    settings, notes = stream_settings(endpoint) if to_stream else endpoint_settings(endpoint)
    tasks = documents.tasks_of(endpoint)
    if to_stream:
        at_source = documents.source_of(tasks[0]) if tasks else None
        stream, more = stream_section(endpoint, at_source)
        notes += [*more, "location is where the messages land, such as s3://bucket/prefix"]
    tables: list[TableDraft] = []
    for task in tasks:
        own, more = task_settings(task, to_stream=to_stream)
        notes += more
        source = documents.source_of(task)
        found = table_drafts(task.rules, source.engine if source is not None else None, known)
        if not found:
            settings |= own
        for table in found:
            table.dms = own | table.dms
        tables += found
    if not tasks:
        notes.append(
            "no task is described: its added columns, before images and LOB mode are not known, nor are the tables"
        )
    for table in tables:
        _order_added_columns(table)
    draft = Draft(endpoint, tasks, tables, settings, _common(tables), notes, stream)
    listed = [*draft.written.get("added_columns", ()), *(t.dms.get("added_columns") for t in tables)]
    is_csv = not to_stream and settings.get("data_format", "csv") == "csv"
    if any(listed) and is_csv and not settings.get("add_column_name"):
        notes.append(
            "added_columns is in the rules' order: compare it with a file, since files have no header"
        )
    return draft


def _partitioned(drafts: Sequence[TableDraft], known: Sequence[SourceTable]) -> list[TableDraft]:
    """Drafts of the partitioned tables of which the mapping selects the partitions only, with the settings of these."""
    chosen = {(table.schema, table.name) for draft in drafts if (table := draft.found) is not None}
    found: dict[tuple[str, str], TableDraft] = {}
    at_source = {(table.schema, table.name): table for table in known}
    for draft in drafts:
        root = root_of(draft.found, at_source) if draft.found is not None else None
        if root is not None and root not in chosen:
            same = replace(draft, schema=root[0], table=root[1], found=at_source[root], notes=[])
            found.setdefault(root, same)
    return list(found.values())


def _before_images(draft: Draft) -> bool:
    """Whether the files of all tables have before images of all columns."""
    given = [draft.settings | table.dms for table in draft.tables]
    return all(
        dms.get("before_image_prefix")
        and (dms.get("before_image_columns") == "all" or dms.get("add_column_name"))
        for dms in given
    )


def _added(draft: Draft) -> set[str]:
    """The columns that DMS adds to files of some table."""
    found = {"Op"}
    for dms in (draft.settings, *(table.dms for table in draft.tables)):
        found |= {dms[key] for key in ("timestamp_column_name", "change_sequence_column") if dms.get(key)}
        found |= {*dms.get("added_columns", ())}
    return found


def _source(
    name: str,
    where: str,
    draft: Draft,
    bodies: Mapping[str, Sequence[str]] = MappingProxyType({}),
    lobs: Decision | None = None,
) -> Iterator[str]:
    """`bodies`: by table, the lines of its columns and key, if the source was read."""
    described = f"the endpoint {draft.endpoint.name}" + (
        f" and the tasks {', '.join(task.name for task in draft.tasks)}" if draft.tasks else ""
    )
    yield f"# From {_one_line(described)}. Comments say what is missing in them."
    yield f"{name}:"
    yield f"  location: {_scalar(where)}"
    for note in dict.fromkeys(draft.notes):
        yield from _indented(_comment(note))
    if draft.stream:
        yield f"  stream: {_scalar(draft.stream)}"
    written = draft.written
    yield "  dms:" if written or lobs is not None else "  dms: {}"
    for key, value in written.items():
        yield f"    {key}: {_scalar(value)}"
    if lobs is not None:
        yield f"    lob_mode: {UNDECIDED}  # {lobs.reason}"
    yield from _indented(_tables(draft.tables, draft.common, bodies))


def _tables(
    drafts: Sequence[TableDraft], common: Mapping[str, Any], bodies: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    tables: dict[str, TableDraft] = {}
    for draft in (draft for draft in drafts if not draft.pattern):
        if tables.setdefault(draft.name, draft) is not draft:
            tables[draft.name].notes.append(
                "selected twice: files that two tables or two tasks write to one folder overwrite each other and have "
                "no common order"
            )
    patterns = [draft for draft in drafts if draft.pattern]
    for draft in patterns:
        extra = f" ({'; '.join(draft.notes)})" if draft.notes else ""
        yield from _comment(f"the mapping selects {draft.name}{extra}: name each of these tables")
        if own := _difference(draft.dms, common):
            settings_text = ", ".join(f"{key}: {_scalar(value)}" for key, value in own.items())
            yield from _comment(f"each of {draft.name} with dms: {{{settings_text}}}")
    if not tables:
        yield f"tables: {UNDECIDED}"
        return
    yield "tables:"
    for name, draft in tables.items():
        yield f"  {_scalar(name).replace('$${', '${')}:"  # a key is taken as it is
        for note in draft.notes:
            yield from _indented(_comment(note), 2)
        if own := _difference(draft.dms, common):
            yield f"    dms: {_scalar(own)}"
        if draft.source_filter is not None:
            yield f"    source_filter: {_scalar(draft.source_filter)}"
        if name in bodies:
            yield from _indented(bodies[name])
            continue
        if draft.primary_key:
            yield f"    primary_key: {_scalar(list(draft.primary_key))}"
        yield f"    columns: {UNDECIDED}"


def _order_added_columns(draft: TableDraft) -> None:
    """Leaves the change sequence out of the added columns if it is the first of them."""
    added = list(draft.dms.pop("added_columns", ()))
    if added and added[0] == draft.dms.get("change_sequence_column"):
        del added[0]
    if added:
        draft.dms["added_columns"] = added


def _common(drafts: Sequence[TableDraft]) -> dict[str, Any]:
    """The settings that all tables selected by a pattern have in common; without a pattern, those of all tables."""
    of_all = [draft for draft in drafts if draft.pattern] or drafts
    if not of_all:
        return {}
    first, *others = (draft.dms for draft in of_all)
    return {
        key: value
        for key, value in first.items()
        if all(other.get(key, _DEFAULTS[key]) == value for other in others)
    }


def _difference(own: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    wanted = {key: own.get(key, _DEFAULTS[key]) for key in (*common, *own)}
    return {key: value for key, value in wanted.items() if value != common.get(key, _DEFAULTS[key])}


def _source_name(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return plain if plain and not plain[0].isdigit() else f"dms_{plain}".rstrip("_")


def _scalar(value: Any) -> str:
    """A value in YAML's flow form, as `config_file.py` reads it."""
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        if plain:
            return value
        # JSON's text is valid as YAML's double-quoted text, except for line-breaking characters and those that YAML
        # does not accept; `${` would be an environment variable.
        quoted = json.dumps(value, ensure_ascii=False).replace("${", "$${")
        return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(key)}: {_scalar(held)}" for key, held in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_scalar(item) for item in value)}]"
    return json.dumps(value)


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        _one_line(text),
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="#   ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x20]+", " ", _UNPRINTABLE.sub(" ", text))


def _indented(lines: Any, levels: int = 1) -> Iterator[str]:
    yield from (f"{'  ' * levels}{line}" for line in lines)
