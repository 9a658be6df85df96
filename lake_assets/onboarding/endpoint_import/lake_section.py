"""The `sources:` section of a lake.yaml, from documents of DMS.

Here: whether a setting belongs to the source or to a table, and the text with its comments. Not here: reading the
documents (`documents.py`), or what each setting means (`s3_settings.py`, `task_settings.py`, `table_mappings.py`).

What the documents do not contain becomes a comment or the word `undecided`, because an invented type would look like a
known one. No lake opens with that word.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lake_assets.config import UNDECIDED, DmsSettings
from lake_assets.onboarding.endpoint_import.documents import Documents, Endpoint
from lake_assets.onboarding.endpoint_import.s3_settings import endpoint_settings, location
from lake_assets.onboarding.endpoint_import.table_mappings import TableDraft, table_drafts
from lake_assets.onboarding.endpoint_import.task_settings import task_settings

_DEFAULTS = DmsSettings().model_dump()
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.\"/-]*(:[A-Za-z0-9_./-]+)*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_WIDTH = 111


def lake_section(documents: Documents) -> str:
    """YAML text that ends with a newline, one source for each S3 target."""
    lines = ["sources:"]
    names: dict[str, int] = {}
    for endpoint in documents.endpoints:
        name = _source_name(endpoint.name)
        names[name] = names.get(name, 0) + 1
        if names[name] > 1:
            name = f"{name}_{names[name]}"
        lines += _indented(_source(name, endpoint, documents))
    return "\n".join(lines) + "\n"


def _source(name: str, endpoint: Endpoint, documents: Documents) -> Iterator[str]:
    settings, notes = endpoint_settings(endpoint)
    tasks = documents.tasks_of(endpoint)
    drafts: list[TableDraft] = []
    for task in tasks:
        own, more = task_settings(task)
        notes += more
        source = documents.source_of(task)
        found = table_drafts(task.rules, source.engine if source is not None else None)
        if not found:
            settings |= own
        for draft in found:
            draft.dms = own | draft.dms
        drafts += found
    if not tasks:
        notes.append(
            "no task is described: its added columns, before images and LOB mode are not known, nor are the tables"
        )
    for draft in drafts:
        _order_added_columns(draft)
    common = _common(drafts)
    written = {k: v for k, v in (settings | common).items() if v != _DEFAULTS[k]}
    listed = [*written.get("added_columns", ()), *(d.dms.get("added_columns") for d in drafts)]
    if any(listed) and settings.get("data_format", "csv") == "csv" and not settings.get("add_column_name"):
        notes.append(
            "added_columns is in the rules' order: compare it with a file, since files have no header"
        )
    described = f"the endpoint {endpoint.name}" + (
        f" and the tasks {', '.join(task.name for task in tasks)}" if tasks else ""
    )
    yield f"# From {_one_line(described)}. Comments say what is missing in them."
    yield f"{name}:"
    yield f"  location: {_scalar(location(endpoint))}"
    for note in dict.fromkeys(notes):
        yield from _indented(_comment(note))
    yield "  dms:" if written else "  dms: {}"
    for key, value in written.items():
        yield f"    {key}: {_scalar(value)}"
    yield from _indented(_tables(drafts, common))


def _tables(drafts: Sequence[TableDraft], common: Mapping[str, Any]) -> Iterator[str]:
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
        if draft.primary_key:
            yield f"    primary_key: {_scalar(list(draft.primary_key))}"
        if draft.source_filter is not None:
            yield f"    source_filter: {_scalar(draft.source_filter)}"
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
